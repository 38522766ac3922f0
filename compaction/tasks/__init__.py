"""What runs in Spark's workers: raw lines to Parquet rows. Imports `inventory`, `stream` and `verdict`."""
