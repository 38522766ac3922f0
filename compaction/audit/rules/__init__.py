"""What objects, lines and links must agree with: rules of one object or one shard at a time."""
