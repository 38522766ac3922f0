"""Event ids within tasks: digests of them, which records repeat an event, and lines that are left out."""
