"""What tasks see and judge of the shards of a bucket: carried to workers by `dealing`."""
