"""The published days in AWS Glue's catalog: a table over the symlinks. Knows `publish` and `tasks`."""
