"""Plan, read, sort and write the lines of segments as rows of Parquet files; imports nothing of `tasks`."""
