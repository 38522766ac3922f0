"""What the nightly side adds to `minutebook`: its commands' options. Each imports what it needs when it is called."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from archive.errors import SettingsError

PropertiesFile = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE.properties]",
        show_default=False,
        help="KCL's names and minutebook.* in one Java properties file, also at s3://. Default: the environment's.",
    ),
]
Date = Annotated[
    str | None, typer.Option("--date", metavar="DAY", help="A UTC day such as 2026-11-20, or yesterday.")
]
From = Annotated[str | None, typer.Option("--from", metavar="DAY", help="The first day of a range.")]
To = Annotated[str | None, typer.Option("--to", metavar="DAY", help="The last day of a range.")]
ReportFolder = Annotated[
    str | None, typer.Option(metavar="DIR", help="Write audit-DAY.json and audit-DAY.html here, or to s3://...")
]
FailOn = Annotated[
    str,
    typer.Option(
        "--fail-on",
        metavar="VERDICT",
        help="defects: end with 0 where something could only not be proven. unknown: with 4.",
    ),
]
SoFar = Annotated[
    str | None,
    typer.Option(
        "--so-far",
        metavar="[TIME]",
        help="Judge a day that is not over, up to a time such as 2026-11-22T10:00Z; default: 80 minutes ago.",
    ),
]
Recheck = Annotated[int | None, typer.Option(metavar="DAYS", help="Judge unproven days, and touched ones, again.")]
Lookback = Annotated[int, typer.Option(min=1, metavar="DAYS", help="How far the ends of quiet shards are searched.")]
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
Master = Annotated[str, typer.Option(help="Spark's master, where this process starts Spark itself.")]


def audit(
    file: PropertiesFile = None,
    *,
    date: Date = None,
    first: From = None,
    last: To = None,
    level: Annotated[
        str, typer.Option(help="inventory: names and metadata. keys: every line. stream: Kinesis itself, too.")
    ] = "keys",
    shard: Annotated[str | None, typer.Option(metavar="SHARD", help="Audit this shard alone.")] = None,
    report: ReportFolder = None,
    as_json: AsJson = False,
    so_far: SoFar = None,
    parallel_days: ParallelDays = 2,
    stream_budget: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="What level stream takes of each shard's reads. Default: 0.4."),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="MINUTES", help="Compare so many minutes of each shard with the stream; not all."
        ),
    ] = None,
    lookback: Lookback = 14,
    master: Master = "local[*]",
    event_id: EventId = None,
    published: Annotated[
        str | None,
        typer.Option(metavar="URI", help="With --event-id: where compact --out published the day before."),
    ] = None,
    fail_on: FailOn = "unknown",
) -> None:
    """Prove a day: every record archived once, in whole chains. Exits 3 on defects, 4 when something is unproven."""
    need_spark("audit", pictures=report is not None)
    from compaction.command import audit as run  # noqa: PLC0415 - help is quick
    from compaction.job.request import AuditRequest  # noqa: PLC0415 - same

    request = AuditRequest(
        file=file,
        date=date,
        first=first,
        last=last,
        level=level,
        shard=shard,
        lookback_days=lookback,
        so_far=so_far,
        parallel_days=parallel_days,
        report=report,
        as_json=as_json,
        master=master,
        event_id=event_id,
        published=published,
        stream_budget=stream_budget,
        sample=sample,
        fail_on=fail_on,
    )
    raise typer.Exit(run(request, os.environ))


def compact(
    file: PropertiesFile = None,
    *,
    date: Date = None,
    first: From = None,
    last: To = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="URI", help="s3://... or a directory. Default: _parquet/ beside the archive."),
    ] = None,
    report: ReportFolder = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; write nothing.")] = False,
    accept_defects: Annotated[
        bool, typer.Option("--accept-defects", help="Publish a day that its audit forbids; its verdict stays.")
    ] = False,
    as_json: AsJson = False,
    so_far: SoFar = None,
    recheck: Recheck = None,
    parallel_days: ParallelDays = 2,
    lookback: Lookback = 14,
    master: Master = "local[*]",
    event_id: EventId = None,
    drop_producer_duplicates: Annotated[
        bool,
        typer.Option("--drop-producer-duplicates", help="With --event-id: leave them out; the first one stays."),
    ] = False,
    max_repeats: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="SHARE", help="Refuse to leave out more than this share of records."),
    ] = 0.2,
    zstd_level: Annotated[
        int, typer.Option(min=1, max=19, metavar="LEVEL", help="Of the Parquet files: smaller, and more CPU.")
    ] = 1,
    hour: Annotated[
        str | None,
        typer.Option(
            metavar="HOUR", help="Publish this hour of --date alone, or the `last`; the night takes it over."
        ),
    ] = None,
    columns: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Typed columns beside the payload: a mapping, a JSON Schema or an .avsc."),
    ] = None,
    event_time: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="A column of the event's time: 'meta.ts', or 'meta.ts as timestamp(ms)'."),
    ] = None,
    event_window: Annotated[
        int | None,
        typer.Option(min=0, metavar="DAYS", help="How long before its arrival an event may lie. Default: 30."),
    ] = None,
    iceberg: Annotated[
        str | None, typer.Option(metavar="NS.TABLE", help="Commit the published days to this Iceberg table, too.")
    ] = None,
    iceberg_catalog: IcebergCatalog = None,
    fail_on: FailOn = "unknown",
) -> None:
    """Rewrite a day to Parquet, audit it, and publish it in one step. Running it again finishes or does nothing."""
    need_spark("compact", pictures=report is not None)
    from compaction.command import compact as run  # noqa: PLC0415 - help is quick
    from compaction.job.request import CompactRequest  # noqa: PLC0415 - same

    request = CompactRequest(
        file=file,
        date=date,
        first=first,
        last=last,
        out=out,
        report=report,
        lookback_days=lookback,
        so_far=so_far,
        parallel_days=parallel_days,
        recheck=recheck,
        dry_run=dry_run,
        accept_defects=accept_defects,
        as_json=as_json,
        master=master,
        event_id=event_id,
        drop_producer_duplicates=drop_producer_duplicates,
        max_repeats=max_repeats,
        zstd_level=zstd_level,
        iceberg=iceberg,
        iceberg_catalog=iceberg_catalog,
        columns=columns,
        hour=hour,
        event_time=event_time,
        event_window=event_window,
        fail_on=fail_on,
    )
    raise typer.Exit(run(request, os.environ))


def columns(
    file: PropertiesFile = None,
    *,
    date: Annotated[
        str, typer.Option("--date", metavar="DAY", help="A UTC day such as 2026-11-20, or yesterday.")
    ] = "yesterday",
    sample: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="How many payloads are read.")
    ] = 10_000,
    try_file: Annotated[
        Path | None, typer.Option("--columns", metavar="FILE", help="Try this file on them, and propose nothing.")
    ] = None,
) -> None:
    """Propose typed columns for the payloads of a day, for compact --columns; or say what of them fits a file."""
    need_spark("columns", pictures=False)
    from compaction.proposal import ProposalRequest, propose_columns  # noqa: PLC0415 - help is quick

    raise typer.Exit(propose_columns(ProposalRequest(file, date, sample, try_file), os.environ))


def vacuum(
    file: PropertiesFile = None,
    *,
    out: Annotated[
        str | None, typer.Option(metavar="URI", help="What compact --out was given. Default: _parquet/.")
    ] = None,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="3d or more: what is younger stays.")] = "7d",
    iceberg: Annotated[
        str | None,
        typer.Option(metavar="NS.TABLE", help="Also what no metadata names in the folders of this Iceberg table."),
    ] = None,
    iceberg_catalog: IcebergCatalog = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; delete nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Delete what no pointer names below the output: old generations, their audits, uploads nobody finished."""
    need_spark("vacuum", pictures=False)
    from compaction.vacuum.command import VacuumRequest  # noqa: PLC0415 - help is quick
    from compaction.vacuum.command import vacuum as run  # noqa: PLC0415 - same

    asked = VacuumRequest(
        file=file,
        out=out,
        older_than=older_than,
        iceberg=iceberg,
        iceberg_catalog=iceberg_catalog,
        dry_run=dry_run,
        as_json=as_json,
    )
    raise typer.Exit(run(asked, os.environ))


def ddl(
    file: PropertiesFile = None,
    *,
    table: Annotated[str, typer.Option("--table", metavar="DB.TABLE", help="The table's name in the DDL.")],
    out: Annotated[
        str | None, typer.Option("--out", metavar="URI", help="What compact --out was given. Default: _parquet/.")
    ] = None,
) -> None:
    """Print Athena's DDL of a table of the published days, which needs no registration; changes nothing."""
    need_spark("ddl", pictures=False)
    from compaction.ddl import print_ddl  # noqa: PLC0415 - help is quick

    raise typer.Exit(print_ddl(file, os.environ, table=table, out=out))


def need_spark(command: str, *, pictures: bool, find: Callable[[str], object | None] = find_spec) -> None:
    """Raise SettingsError, in one line, where the packages of the extra `spark` are not installed."""
    needed = ["pyspark", "pyarrow", *(["jinja2", "matplotlib"] if pictures else [])]
    missing = ", ".join(name for name in needed if find(name) is None)
    if missing:
        raise SettingsError(f"{command} needs the extra `spark` ({missing}): pip install 'minutebook[spark]'")


COMMANDS = (audit, compact, vacuum, columns, ddl)
