"""A reader for every shard: what the lease table says about it, judged without I/O, and looked at now and then."""
