"""The options of the commands that take many, as one value each."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from minutebook.options import Apply, DryRun, FileOrFolder, OneStream, PropertiesFile


class StatusRequest(NamedTuple):
    """`minutebook status`: one report, or with `watch` one every `every_seconds`."""

    file: FileOrFolder = None
    stream: OneStream = None
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; with --watch one line per look.")] = False
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False
    every_seconds: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=1, max=86_400, help="With --watch: the pause.")
    ] = 10
    days: Annotated[int, typer.Option(min=1, help="How far back the end of a quiet shard is looked for.")] = 7
    hours: Annotated[
        float, typer.Option(min=0, max=100_000, help="The last hours of which to say up to when all is proven.")
    ] = 2
    max_behind: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Exit 7 when a shard is farther behind than, say, 5m.")
    ] = None


class RestoreRequest(NamedTuple):
    """`minutebook restore`: the plan, or with `apply` the rows; `shards` None: all."""

    file: PropertiesFile = None
    apply: Apply = False
    dry_run: DryRun = False
    shards: Annotated[
        list[str] | None, typer.Option("--shard", metavar="SHARD", help="Restore this shard alone; may be repeated.")
    ] = None
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Go back to the end of what had arrived before this time, such as 2026-11-21T10:16:00Z.",
        ),
    ] = None


class ExpireRequest(NamedTuple):
    """`minutebook expire`: the plan, or with `apply` the deletion at `rate` objects a second."""

    older_than: Annotated[
        str, typer.Option(metavar="DAYS", help="Whole UTC days that ended longer ago than this, such as 30d.")
    ]
    published: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="Where compact --out published the days: s3://... or a directory. Needed but for a folder, whose "
            "default is _parquet/ beside each archive.",
        ),
    ] = None
    file: FileOrFolder = None
    stream: OneStream = None
    apply: Apply = False
    dry_run: DryRun = False
    rate: Annotated[int, typer.Option(min=1, max=3000, help="Deletes a second, at most.")] = 500


class CutRequest(NamedTuple):
    """`minutebook cut`."""

    at: Annotated[str, typer.Option(metavar="TIME", help="What arrived before this time, such as 2026-11-21T10:00Z.")]
    file: PropertiesFile = None
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the cut here instead of stdout.")] = None
    hours: Annotated[
        int, typer.Option(min=0, help="The hours before it that must be proven; 0: since the archive's beginning.")
    ] = 1


class HandoverRequest(NamedTuple):
    """`minutebook handover`: the plan, or with `apply` the rows."""

    cut: Annotated[Path, typer.Option(metavar="FILE", help="Go on behind this cut, of minutebook cut --out.")]
    application: Annotated[str, typer.Option(metavar="NAME", help="The KCL application that goes on.")]
    file: PropertiesFile = None
    apply: Apply = False
    dry_run: DryRun = False
