"""The only place that runs code written by a model."""
