"""Everything that speaks to an engine: one module per dialect, one stream reader."""
