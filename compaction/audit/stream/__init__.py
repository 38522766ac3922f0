"""Level `stream`: the stream, read again in tasks, against the archive."""
