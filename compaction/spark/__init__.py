"""The only room that imports pyspark. Implements the ports of `job`."""
