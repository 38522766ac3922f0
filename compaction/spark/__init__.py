"""The only room that imports pyspark. Implements the context of `job`."""
