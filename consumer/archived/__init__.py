"""What the archive already holds, for a writer, `status` and `restore` to continue from. Imports `stream` alone."""
