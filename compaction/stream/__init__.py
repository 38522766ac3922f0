"""Read the stream again for the audit; imports no other room of `compaction`."""
