"""Level `stream`: the stream, read again in tasks, against the archive. Imports `job` and what is below it."""
