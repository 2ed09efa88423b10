"""zkctl: the operator's command line, one module per command group."""
