"""Event ids: their digests, the records that repeat an event, and the lines that are dropped."""
