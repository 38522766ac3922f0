"""What a person reads of a day: terminal, HTML page, pictures; and a platform: log lines, metrics. For `command`."""
