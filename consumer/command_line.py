"""What the consumer adds to `minutebook`: its commands' options. Each imports what it needs when it is called."""

import os
from pathlib import Path
from typing import Annotated

import typer

PropertiesFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE.properties]",
        show_default=False,
        help="KCL's names and minutebook.* in one Java properties file. Default: the environment's.",
    ),
]


def init() -> None:
    """Print a commented properties file to start from: minutebook init > my.properties."""
    from consumer.settings.shipped import production_properties  # noqa: PLC0415 - help is quick

    typer.echo(production_properties(), nl=False)


def consume(
    file: PropertiesFile = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Where the daemon's file and lock live. Default: a folder of this user in /tmp."),
    ] = None,
) -> None:
    """Archive the stream until stopped (SIGTERM): check, start the daemon, keep it running."""
    from consumer.daemon.consume import consume as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(file, os.environ, state_dir))


def health(
    file: PropertiesFile = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="That of `consume`. Default: a folder of this user in /tmp.")
    ] = None,
) -> None:
    """Say in one line whether this worker's task does its work; exits 7 when it does not, or does not run."""
    from consumer.monitoring.command import health as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(file, os.environ, state_dir))


def doctor(
    file: PropertiesFile = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Check Java, credentials, stream, bucket and table; say what to do about what is wrong."""
    from consumer.preflight.doctor import doctor as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(file, os.environ, as_json=as_json))


def status(
    file: PropertiesFile = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; with --watch one line per look.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="With --watch: the pause.")] = 10,
    days: Annotated[int, typer.Option(min=1, help="How far back the end of a quiet shard is looked for.")] = 7,
    hours: Annotated[float, typer.Option(min=0, help="The last hours of which to say up to when all is proven.")] = 2,
    max_behind: Annotated[
        str | None,
        typer.Option("--max-behind", metavar="SPAN", help="Exit 7 when a shard is farther behind than, say, 5m."),
    ] = None,
) -> None:
    """Show each shard's lease, checkpoint, end in the archive and lag, and what is proven; changes nothing."""
    from consumer.status.command import status as run  # noqa: PLC0415 - help is quick

    pause = every if watch else None
    code = run(file, os.environ, as_json=as_json, every_seconds=pause, days=days, hours=hours, max_behind=max_behind)
    raise typer.Exit(code)


def restore(
    file: PropertiesFile = None,
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


def expire(
    file: PropertiesFile = None,
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


def docs(
    page: Annotated[str | None, typer.Argument(help="Its name; without it the names are listed.")] = None,
    section: Annotated[str | None, typer.Argument(help="A heading: print this section alone.")] = None,
) -> None:
    """Print a page of the documentation of this version."""
    from consumer.settings import shipped  # noqa: PLC0415 - help is quick

    typer.echo("\n".join(shipped.page_names()) if page is None else shipped.page(page, section).rstrip())


COMMANDS = (init, consume, health, doctor, status, restore, expire)
