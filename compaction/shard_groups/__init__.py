"""How values travel between tasks, in buckets: by Spark's shuffle, or in this process. Imports nothing of the job."""
