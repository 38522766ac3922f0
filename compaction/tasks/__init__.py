"""The tasks that run in Spark's workers: raw lines to Parquet rows."""
