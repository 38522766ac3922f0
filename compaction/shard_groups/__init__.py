"""Groups of values that tasks exchange, by Spark's shuffle or in this process; imports nothing of `job`."""
