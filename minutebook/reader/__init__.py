"""The published days as tables, for Python: each read follows the days' pointers once, and then names their files.

    from minutebook.reader import read, read_day

    days = read("s3://bucket/raw/_parquet/", "2026-11-01", "2026-11-20", columns=["partition_key", "data", "dt"])
    duckdb.sql("SELECT dt, count(*) FROM days GROUP BY dt")        # DuckDB finds the variable
    polars.scan_pyarrow_dataset(days).filter(polars.col("dt") == "2026-11-20").collect()
    read(out, "2026-11-20", "2026-11-21", intraday=True)        # the second day is not over: its published hours
    read_day(spark, "s3a://bucket/raw/_parquet/", "2026-11-20").createOrReplaceTempView("day")

What is promised: one generation of each day, and all of it, as it was when the read began. A day that is published
anew meanwhile stays as it was for this reader: replaced files are kept for three days. What is not promised: that two
days were published together.

`read` needs pyarrow, `read_day` and `read_days` a Spark session; `published` neither.
"""

from minutebook.errors import DayNotPublished, ObjectVanished
from minutebook.reader.days import Missing, PublishedDays, published
from minutebook.reader.published_day import PublishedDay, PublishedFile
from minutebook.reader.tables import read, read_day, read_days

__all__ = [
    "DayNotPublished",
    "Missing",
    "ObjectVanished",
    "PublishedDay",
    "PublishedDays",
    "PublishedFile",
    "published",
    "read",
    "read_day",
    "read_days",
]
