"""The options of the nightly commands, one value a command; Typer makes the command line of the fields.

Imported for every help text, so it imports nothing heavy: `compaction.job.checks` validates the values.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from minutebook.options import Apply, DryRun, OneStream

PropertiesFile = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE.properties]",
        show_default=False,
        help="KCL's names and minutebook.* in one Java properties file, also at s3://. Default: the environment's.",
    ),
]
FileOrFolder = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE.properties|FOLDER]",
        show_default=False,
        help="One Java properties file, or a folder with one for each stream, also at s3://.../. Default: the "
        "environment's.",
    ),
]
Date = Annotated[str | None, typer.Option(metavar="DAY", help="A UTC day such as 2026-11-20, or yesterday.")]
From = Annotated[str | None, typer.Option("--from", metavar="DAY", help="The first day of a range.")]
To = Annotated[str | None, typer.Option("--to", metavar="DAY", help="The last day of a range.")]
ReportFolder = Annotated[
    str | None, typer.Option(metavar="DIR", help="Write audit-DAY.json and audit-DAY.html here, or to s3://...")
]
FailOn = Annotated[
    str,
    typer.Option(
        metavar="VERDICT", help="defects: end with 0 where something could only not be proven. unknown: with 4."
    ),
]
SoFar = Annotated[
    str | None,
    typer.Option(
        metavar="[TIME]",
        help="Judge a day that is not over, up to its last full hour that every shard covers, or up to TIME.",
    ),
]
Lookback = Annotated[
    int,
    typer.Option(
        "--lookback", min=1, max=36_500, metavar="DAYS", help="How far the ends of quiet shards are searched."
    ),
]
ParallelDays = Annotated[
    int, typer.Option(min=1, max=64, metavar="N", help="How many days of a range are worked on at once.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print audit.json; of several days one table.")]
EventId = Annotated[
    str | None,
    typer.Option(metavar="JMESPATH", help="Find records that repeat an event: the path of its id in JSON payloads."),
]
IcebergCatalog = Annotated[
    str | None, typer.Option(metavar="NAME", help="The catalog in pyiceberg's configuration; else its default.")
]
Out = Annotated[
    str | None, typer.Option(metavar="URI", help="s3://... or a directory. Default: _parquet/ beside the archive.")
]
ColumnsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Typed columns beside the payload: a mapping, a JSON Schema or an .avsc."),
]
PublishedAt = Annotated[
    str | None, typer.Option(metavar="URI", help="What compact --out was given. Default: _parquet/.")
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="local: this machine's cores. spark. auto: Spark for large days, with --master and in spark-submit.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark's master, where this process starts Spark itself. Default: local[*]."),
]


class AuditRequest(NamedTuple):
    """`minutebook audit` of one day (`date`) or a range (`first`, `last`)."""

    file: FileOrFolder = None
    stream: OneStream = None
    date: Date = None
    first: From = None
    last: To = None
    level: Annotated[
        str, typer.Option(help="inventory: names and metadata. keys: every line. stream: Kinesis itself, too.")
    ] = "keys"
    shard: Annotated[str | None, typer.Option(metavar="SHARD", help="Audit this shard alone.")] = None
    report: ReportFolder = None
    as_json: AsJson = False
    so_far: SoFar = None
    parallel_days: ParallelDays = 2
    stream_budget: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="What level stream takes of each shard's reads. Default: 0.4."),
    ] = None
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="MINUTES", help="Compare so many minutes of each shard with the stream; not all."
        ),
    ] = None
    lookback_days: Lookback = 14
    engine: Engine = "auto"
    master: Master = None
    event_id: EventId = None
    published: Annotated[
        str | None,
        typer.Option(
            metavar="URI", help="Where compact --out publishes: first contents; with --event-id the day before, too."
        ),
    ] = None
    fail_on: FailOn = "unknown"

    @property
    def is_range(self) -> bool:
        """Whether a range of days is requested: one that fails does not stop the others."""
        return self.date is None


class CompactRequest(NamedTuple):
    """`minutebook compact`; `out` None: `_parquet/` beside the archive."""

    file: FileOrFolder = None
    stream: OneStream = None
    date: Date = None
    first: From = None
    last: To = None
    out: Out = None
    report: ReportFolder = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; write nothing.")] = False
    accept: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Accept what is wrong with --date, or cannot be proven of it, and say why; its verdict stays.",
        ),
    ] = None
    as_json: AsJson = False
    so_far: SoFar = None
    due: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Whatever is due of the last settled days: the nightly run, as in --due 14d."
        ),
    ] = None
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --due: begin no further day after this time, as in 3h.")
    ] = None
    parallel_days: ParallelDays = 2
    lookback_days: Lookback = 14
    engine: Engine = "auto"
    master: Master = None
    event_id: EventId = None
    drop_producer_duplicates: Annotated[
        bool, typer.Option("--drop-producer-duplicates", help="With --event-id: leave them out; the first one stays.")
    ] = False
    max_repeats: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="SHARE", help="Refuse to leave out more than this share of records."),
    ] = 0.2
    zstd_level: Annotated[
        int, typer.Option(min=1, max=19, metavar="LEVEL", help="Of the Parquet files: smaller, and more CPU.")
    ] = 1
    columns: ColumnsFile = None
    rewrite_columns: Annotated[
        bool,
        typer.Option("--rewrite-columns", help="Write published days by --columns; else they keep theirs."),
    ] = False
    yes: Annotated[
        bool, typer.Option("--yes", help="With --rewrite-columns: also where columns would hold fewer values.")
    ] = False
    event_time: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="A column of the event's time: 'meta.ts', or 'meta.ts as timestamp(ms)'."),
    ] = None
    event_window: Annotated[
        int | None,
        typer.Option(min=0, metavar="DAYS", help="How long before its arrival an event may lie. Default: 30."),
    ] = None
    iceberg: Annotated[
        str | None, typer.Option(metavar="NS.TABLE", help="Commit the published days to this Iceberg table, too.")
    ] = None
    iceberg_catalog: IcebergCatalog = None
    fail_on: FailOn = "unknown"
    max_unfit: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="End with 4 if more of a day's rows do not fit --columns."),
    ] = None

    @property
    def is_range(self) -> bool:
        """Whether several days are requested or may be: one that fails does not stop the others."""
        return self.date is None


class FollowRequest(NamedTuple):
    """`minutebook follow`; `out` None: `_parquet/` beside the archive."""

    iceberg: Annotated[
        str, typer.Option(metavar="NS.TABLE", help="The Iceberg table; compact --iceberg commits to the same.")
    ]
    file: PropertiesFile = None
    out: Out = None
    iceberg_catalog: IcebergCatalog = None
    every: Annotated[str, typer.Option(metavar="TIME", help="How often it looks: 10s or more, as in 60s or 5m.")] = (
        "60s"
    )
    once: Annotated[bool, typer.Option("--once", help="Bring the table up to now and end, as for cron.")] = False
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help="Serve /metrics and /healthz here; else nowhere."),
    ] = None
    columns: ColumnsFile = None
    event_id: EventId = None
    drop_producer_duplicates: Annotated[
        bool, typer.Option("--drop-producer-duplicates", help="Refused: which rows are copies, only a night knows.")
    ] = False


class ColumnsRequest(NamedTuple):
    """`minutebook columns` for a sample of one day; `columns` is a file to try.

    With `since` or `iceberg` the file is compared with what is published, and no payload is read.
    """

    file: PropertiesFile = None
    date: Annotated[str, typer.Option(metavar="DAY", help="A UTC day such as 2026-11-20, or yesterday.")] = (
        "yesterday"
    )
    sample: Annotated[int, typer.Option(min=1, max=1_000_000, metavar="N", help="How many payloads are read.")] = (
        10_000
    )
    columns: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Try this file on them, and propose nothing.")
    ] = None
    sniff: Annotated[
        bool, typer.Option("--sniff", help="Look for steps that decode them (gzip, base64, ...), and say why.")
    ] = False
    since: Annotated[
        str | None,
        typer.Option(metavar="DAY", help="Compare the file with the days published since then; 4 if it changes any."),
    ] = None
    iceberg: Annotated[
        str | None,
        typer.Option(metavar="NS.TABLE", help="Compare the file with this Iceberg table; 4 if it does not take it."),
    ] = None
    iceberg_catalog: IcebergCatalog = None
    out: PublishedAt = None


class VacuumRequest(NamedTuple):
    """`minutebook vacuum`: the plan, or with `apply` the deletion; `out` None: `_parquet/` beside the archive."""

    file: FileOrFolder = None
    stream: OneStream = None
    out: PublishedAt = None
    older_than: Annotated[str, typer.Option(metavar="AGE", help="3d or more: what is younger stays.")] = "7d"
    iceberg: Annotated[
        str | None,
        typer.Option(metavar="NS.TABLE", help="Also what no metadata names in the folders of this Iceberg table."),
    ] = None
    iceberg_catalog: IcebergCatalog = None
    apply: Apply = False
    dry_run: DryRun = False
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False


class DdlRequest(NamedTuple):
    """`minutebook ddl`; `out` None: `_parquet/` beside the archive."""

    table: Annotated[str, typer.Option(metavar="DB.TABLE", help="The table's name in the DDL.")]
    file: PropertiesFile = None
    out: PublishedAt = None
    latest_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN[,COLUMN]", help="Print a view instead: the latest row of each key, without deleted ones."
        ),
    ] = None
    ordered_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN[,COLUMN]", help="The columns by which a row is later; then its position."),
    ] = None
