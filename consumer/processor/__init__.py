"""One shard, from protocol line to segment to checkpoint."""
