"""A reader for every shard: the lease table is polled, and judged without I/O."""
