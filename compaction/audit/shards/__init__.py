"""What tasks read and judge of the shards of a group; the driver distributes the groups."""
