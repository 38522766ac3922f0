"""What the daemon and its processors log, parsed for the supervisor, the metrics and the health check."""
