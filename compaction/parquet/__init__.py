"""Lines of segments as rows of Parquet files: planned, read, sorted and written. Knows no task."""
