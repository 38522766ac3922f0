"""Report a day: terminal, HTML page and pictures for a person; log lines and metrics for a platform."""
