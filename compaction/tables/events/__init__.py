"""A published day once more, cut by the day of its events: the files of tables that are partitioned by it."""
