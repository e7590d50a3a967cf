"""The only place that reads sensors."""
