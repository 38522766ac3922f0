"""Run tasks in Spark: the only room that imports pyspark. Implements protocols of `job.context`."""
