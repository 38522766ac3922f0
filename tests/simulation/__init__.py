"""A deterministic simulation of processors of one shard and of everything around them: one seed decides a history."""
