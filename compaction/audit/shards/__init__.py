"""What tasks see and judge of the shards of a group: carried to workers by `dealing`."""
