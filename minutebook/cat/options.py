"""The options of `minutebook cat`: only the command line imports them."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from minutebook.options import PropertiesFile


class CatOptions(NamedTuple):
    """The options of `minutebook cat`."""

    file: PropertiesFile = None
    from_: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="The first arrival, such as 2026-11-21T10:16:00Z.")
    ] = None
    to: Annotated[str | None, typer.Option(metavar="TIME", help="The end: what arrived before this time.")] = None
    before: Annotated[
        Path | None, typer.Option(metavar="CUT", help="What lies before this cut, of minutebook cut --out.")
    ] = None
    after: Annotated[Path | None, typer.Option(metavar="CUT", help="What lies behind this cut.")] = None
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on, with each segment as it is committed, until Ctrl-C.")
    ] = False
    shard: Annotated[str | None, typer.Option(metavar="SHARD", help="Of this shard alone.")] = None
    partition_key: Annotated[str | None, typer.Option(metavar="KEY", help="With this partition key alone.")] = None
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="The first N records.")] = None
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="text: payloads. json: the archive's lines. parquet: with --out."
        ),
    ] = "text"
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here instead of stdout.")] = None
