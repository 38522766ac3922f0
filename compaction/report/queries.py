"""How a published day is read by its readers' own tools: lines to copy. Pure.

The first reads the files of one generation that count, which stay for three days after it was replaced; the others
follow the pointer. Beside files that count lie those of tasks that ran twice: a pattern would read rows twice.
"""

from typing import Final, NamedTuple

from compaction.report.trend import TrendDay
from minutebook.published.generation import GENERATION

_TABLE: Final = "events.raw"
_MOST_FILES: Final = 20


class Query(NamedTuple):
    """One tool, its lines, and what they need."""

    tool: str
    lines: str
    note: str


def parquet_files(where: str, day: TrendDay) -> list[str]:
    """Return the addresses of the files of a day's generation; none if they are unknown, or too many to show."""
    files, folder = day.files or (), f"dt={day.day}/"
    return [f"{where}{folder}{key.partition(folder)[2]}" for key in files] if len(files) <= _MOST_FILES else []


def parquet_folder(where: str, day: TrendDay) -> str:
    """Return the address of the folder of a day's generation."""
    return f"{where}dt={day.day}/{GENERATION}{day.generation}/"


def queries(where: str, day: TrendDay) -> list[Query]:
    """Return the lines for a published day. `where`: the address of the output, ending in a slash."""
    files, spark = parquet_files(where, day), where.replace("s3://", "s3a://", 1)
    quoted = ",\n  ".join("'" + file.replace("'", "''") + "'" for file in files)
    is_remote = where.startswith("s3://")
    duckdb = Query(
        "DuckDB",
        f"SELECT shard_id, count(*) AS records, max(arrival_time)::VARCHAR AS latest\n"
        f"FROM read_parquet([\n  {quoted}])\nGROUP BY shard_id ORDER BY shard_id;",
        "reads this generation"
        + ("; once before: CREATE SECRET (TYPE s3, PROVIDER credential_chain);" if is_remote else ""),
    )
    return [
        *([duckdb] if files else []),
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
