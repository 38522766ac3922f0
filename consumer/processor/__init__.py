"""One shard, from protocol line to segment to checkpoint. Imports `archived` and `dedupe`; only `main` imports it."""
