"""How a published day is read by its readers' own tools: lines to copy. Pure.

The first reads one generation, which stays for three days after it was replaced; the others follow the pointer.
"""

from typing import Final, NamedTuple

from compaction.report.trend import TrendDay
from minutebook.published.generation import GENERATION

_TABLE: Final = "events.raw"


class Query(NamedTuple):
    """One tool, its lines, and what they need."""

    tool: str
    lines: str
    note: str


def parquet_files(where: str, day: TrendDay) -> str:
    """Return the address of the files of a day's generation, as a pattern."""
    return f"{where}dt={day.day}/{GENERATION}{day.generation}/*.parquet"


def queries(where: str, day: TrendDay) -> list[Query]:
    """Return the lines for a published day. `where`: the address of the output, ending in a slash."""
    files, spark = parquet_files(where, day), where.replace("s3://", "s3a://", 1)
    quoted = files.replace("'", "''")
    is_remote = where.startswith("s3://")
    return [
        Query(
            "DuckDB",
            f"SELECT shard_id, count(*) AS records, max(arrival_time)::VARCHAR AS latest\n"
            f"FROM read_parquet('{quoted}')\nGROUP BY shard_id ORDER BY shard_id;",
            "reads this generation"
            + ("; once before: CREATE SECRET (TYPE s3, PROVIDER credential_chain);" if is_remote else ""),
        ),
        Query(
            "Python",
            f"from minutebook.reader import read\n\nread({where!r}, {day.day!r}, {day.day!r}).count_rows()",
            "follows the pointer; a pyarrow Dataset, also for DuckDB and Polars",
        ),
        Query(
            "Spark",
            "from minutebook.reader import read_day\n\n"
            f'read_day(spark, {spark!r}, {day.day!r}).groupBy("shard_id").count().show()',
            "follows the pointer" + ("; s3:// instead of s3a:// on EMR and Glue" if is_remote else ""),
        ),
        Query(
            "Athena",
            f"SELECT shard_id, count(*) FROM {_TABLE} WHERE dt = '{day.day}' GROUP BY shard_id;",  # noqa: S608 - a text to read
            f"follows the symlinks; once before: minutebook ddl FILE --table {_TABLE}",
        ),
    ]
