"""Published days as tables for Python: each read follows the days' pointers once, and then reads the files they name.

    from minutebook.reader import read, read_day

    days = read("s3://bucket/raw/_parquet/", "2026-11-01", "2026-11-20", columns=["partition_key", "data", "dt"])
    duckdb.sql("SELECT dt, count(*) FROM days GROUP BY dt")        # DuckDB finds the variable
    polars.scan_pyarrow_dataset(days).filter(polars.col("dt") == "2026-11-20").collect()
    read_day(spark, "s3a://bucket/raw/_parquet/", "2026-11-20").createOrReplaceTempView("day")

    days = read("s3://bucket/raw/_parquet/", "2026-11-20", live=True)   # with the raw segments beside them, until now

A read returns one complete generation of each day, as of its start. If a day is published again meanwhile, the reader
keeps the old generation: replaced files are kept for three days. Two days need not have been published together.

`read` needs pyarrow, `read_day` and `read_days` a Spark session; `published` neither.
"""

from minutebook.errors import DayNotPublished, ObjectVanished
from minutebook.reader.complete import Complete, Gap, complete_until
from minutebook.reader.days import Missing, PublishedDay, PublishedDays, PublishedFile, published
from minutebook.reader.tables import read, read_day, read_days

__all__ = [
    "Complete",
    "DayNotPublished",
    "Gap",
    "Missing",
    "ObjectVanished",
    "PublishedDay",
    "PublishedDays",
    "PublishedFile",
    "complete_until",
    "published",
    "read",
    "read_day",
    "read_days",
]
