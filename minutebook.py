"""The front door: the commands of `minutebook`. Each imports what it needs when it is called, so help is quick."""

import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from archive.errors import MinutebookError

app = typer.Typer(
    name="minutebook",
    help="Archive a Kinesis data stream to S3, each record exactly once, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done or clean, 1 internal error, 2 usage or settings, 3 the audit found defects, "
    "4 it could not prove, 5 a service stayed unavailable, 6 refused for safety.",
)

PropertiesFile = Annotated[
    Path, typer.Argument(metavar="FILE.properties", help="KCL's names and minutebook.* in one Java properties file.")
]


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if asked:
        typer.echo(f"minutebook {importlib.metadata.version('minutebook')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take the options that belong to no command."""


@app.command()
def consume(
    file: PropertiesFile,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Where the daemon's file and lock live. Default: a folder of this user in /tmp."),
    ] = None,
) -> None:
    """Archive the stream until stopped (SIGTERM): check, start the daemon, keep it running."""
    from consumer.daemon.consume import consume as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(file, os.environ, state_dir))


@app.command()
def doctor(
    file: PropertiesFile,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Check Java, credentials, stream, bucket and table; say what to do about what is wrong."""
    from consumer.preflight.doctor import doctor as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(file, os.environ, as_json=as_json))


@app.command()
def status(
    file: PropertiesFile,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; with --watch one line per look.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="With --watch: the pause.")] = 10,
    days: Annotated[int, typer.Option(min=1, help="How far back the end of a quiet shard is looked for.")] = 7,
) -> None:
    """Show each shard's lease, checkpoint, end in the archive and lag; changes nothing."""
    from consumer.status.command import status as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(file, os.environ, as_json=as_json, every_seconds=every if watch else None, days=days))


@app.command()
def restore(
    file: PropertiesFile,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the rows and write nothing.")] = False,
    shard: Annotated[
        list[str] | None, typer.Option(metavar="SHARD", help="Restore this shard alone; may be repeated.")
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME",
            help="Go back to the end of what had arrived before this time, such as 2026-11-21T10:16:00Z.",
        ),
    ] = None,
) -> None:
    """Rebuild KCL's lease rows from the archive alone, while no worker runs."""
    from consumer.restore.command import restore as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(file, os.environ, dry_run=dry_run, shard_ids=shard or [], as_of=as_of))


@app.command()
def expire(
    file: PropertiesFile,
    *,
    older_than: Annotated[
        str, typer.Option(metavar="DAYS", help="Whole UTC days that ended longer ago than this, such as 30d.")
    ],
    published: Annotated[
        str, typer.Option(metavar="URI", help="Where compact --out published the days: s3://... or a directory.")
    ],
    apply: Annotated[bool, typer.Option("--apply", help="Delete; without it the plan is shown.")] = False,
    rate: Annotated[int, typer.Option(min=1, max=3000, help="Deletes a second, at most.")] = 500,
) -> None:
    """Delete raw segments that are published, proven clean, and long out of the stream."""
    from consumer.expire.command import expire as run  # noqa: PLC0415 - help is quick

    code = run(file, os.environ, older_than=older_than, published=published, apply=apply, rate=rate)
    raise typer.Exit(code)


Date = Annotated[
    str | None, typer.Option("--date", metavar="DAY", help="A UTC day such as 2026-11-20, or yesterday.")
]
From = Annotated[str | None, typer.Option("--from", metavar="DAY", help="The first day of a range.")]
To = Annotated[str | None, typer.Option("--to", metavar="DAY", help="The last day of a range.")]
ReportFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write audit-DAY.json and audit-DAY.html here.")
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
AsJson = Annotated[bool, typer.Option("--json", help="Print audit.json.")]
EventId = Annotated[
    str | None,
    typer.Option(metavar="JMESPATH", help="Find records that repeat an event: the path of its id in JSON payloads."),
]
Master = Annotated[str, typer.Option(help="Spark's master, where this process starts Spark itself.")]


@app.command()
def audit(
    file: PropertiesFile,
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
    lookback: Lookback = 14,
    master: Master = "local[*]",
    event_id: EventId = None,
    published: Annotated[
        str | None,
        typer.Option(metavar="URI", help="With --event-id: where compact --out published the day before."),
    ] = None,
) -> None:
    """Prove a day: every record archived once, in whole chains. Exits 3 on defects, 4 when something is unproven."""
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
        report=report,
        as_json=as_json,
        master=master,
        event_id=event_id,
        published=published,
    )
    raise typer.Exit(run(request, os.environ))


@app.command()
def compact(
    file: PropertiesFile,
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
    lookback: Lookback = 14,
    master: Master = "local[*]",
    event_id: EventId = None,
    drop_producer_duplicates: Annotated[
        bool,
        typer.Option("--drop-producer-duplicates", help="With --event-id: leave them out; the first one stays."),
    ] = False,
    iceberg: Annotated[
        str | None, typer.Option(metavar="NS.TABLE", help="Commit the published days to this Iceberg table, too.")
    ] = None,
    iceberg_catalog: Annotated[
        str | None, typer.Option(metavar="NAME", help="The catalog in pyiceberg's configuration; else its default.")
    ] = None,
) -> None:
    """Rewrite a day to Parquet, audit it, and publish it in one step. Running it again finishes or does nothing."""
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
        recheck=recheck,
        dry_run=dry_run,
        accept_defects=accept_defects,
        as_json=as_json,
        master=master,
        event_id=event_id,
        drop_producer_duplicates=drop_producer_duplicates,
        iceberg=iceberg,
        iceberg_catalog=iceberg_catalog,
    )
    raise typer.Exit(run(request, os.environ))


@app.command()
def demo(
    dedupe: Annotated[
        str | None, typer.Option(metavar="MODE", help="Remove the producer's retries: claims or watermark.")
    ] = None,
    *,
    nightly: Annotated[bool, typer.Option(help="Compact and audit at the end, with PySpark.")] = True,
    tamper: Annotated[
        bool, typer.Option("--tamper", help="Then break copies of the archive, and let the audit name what is wrong.")
    ] = False,
) -> None:
    """Archive real flights through the real daemon on embedded AWS, with crashes on the way, and count."""
    from demo.command import demo as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(dedupe, nightly=nightly, tamper=tamper))


def complete(words: Sequence[str]) -> list[str]:
    """Give `--so-far` its value where it stands alone: typer knows no option that may do without."""
    following = [*words[1:], ""]
    return [
        "--so-far=now" if word == "--so-far" and not after[:1].isdecimal() and after != "now" else word
        for word, after in zip(words, following, strict=True)
    ]


def main() -> None:
    """Run the command line; an error of ours becomes one line on stderr and its own exit code."""
    try:
        app(args=complete(sys.argv[1:]))
    except MinutebookError as exc:
        sys.stderr.write(f"minutebook: {exc}\n")
        if exc.next_step:
            sys.stderr.write(f"next step: {exc.next_step}\n")
        sys.exit(exc.exit_code)


if __name__ == "__main__":
    main()
