"""What reading adds to `minutebook`: its commands' options. Each imports what it needs when it is called."""

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


def cat(
    file: PropertiesFile = None,
    *,
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="The first arrival, such as 2026-11-21T10:16:00Z.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="The end: what arrived before this time.")],
    shard: Annotated[str | None, typer.Option("--shard", metavar="SHARD", help="Of this shard alone.")] = None,
    partition_key: Annotated[
        str | None, typer.Option("--partition-key", metavar="KEY", help="With this partition key alone.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="The first N records.")] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="text: payloads. json: the archive's lines. parquet: with --out."
        ),
    ] = "text",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write here instead of stdout.")] = None,
) -> None:
    """Print archived records by the time they arrived, straight from the raw segments; changes nothing."""
    from minutebook.cat.command import cat as run  # noqa: PLC0415 - help is quick

    code = run(
        file,
        os.environ,
        from_=from_,
        to=to,
        shard=shard,
        partition_key=partition_key,
        limit=limit,
        form=form,
        out=out,
    )
    raise typer.Exit(code)


COMMANDS = (cat,)
