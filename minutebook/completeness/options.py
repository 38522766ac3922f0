"""The options of `minutebook wait`: only the command line imports them."""

from typing import Annotated, NamedTuple

import typer

from minutebook.options import PropertiesFile


class WaitOptions(NamedTuple):
    """The options of `minutebook wait`."""

    until: Annotated[
        str, typer.Option(metavar="TIME", help="All that arrived before this time, such as 2026-11-21T10:00:00Z.")
    ]
    file: PropertiesFile = None
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="And since this time. Default: the first boundary of the archive."
        ),
    ] = None
    accept_gaps: Annotated[
        bool, typer.Option("--accept-gaps", help="Named gaps count as complete; they are printed on stderr.")
    ] = False
    timeout: Annotated[str, typer.Option(metavar="SPAN", help="Wait so long: 90s, 30m, 2h.")] = "30m"
    once: Annotated[bool, typer.Option("--once", help="Ask once, and do not wait.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False
