"""The shell around the pure packages: event queue, event thread, channels, metrics, log files."""
