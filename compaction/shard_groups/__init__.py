"""How values travel between tasks, in groups: by Spark's shuffle, or in this process. Imports nothing of the job."""
