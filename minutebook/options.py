"""Commands whose options are told once: they are the fields of the one value that a command is given.

What a command does not set has the same default here, on the command line, and in a test that makes the value.
"""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

R = TypeVar("R", bound=tuple[Any, ...])

PropertiesFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE.properties]",
        show_default=False,
        help="KCL's names and minutebook.* in one Java properties file. Default: the environment's.",
    ),
]

FileOrFolder = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE.properties|FOLDER]",
        show_default=False,
        help="One Java properties file, or a folder with one for each stream. Default: the environment's.",
    ),
]
OneStream = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of a folder this stream alone: the stem of its file, or the stream's name."),
]

Apply = Annotated[bool, typer.Option("--apply", help="Carry the plan out; without it nothing is changed.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, as without --apply.")]


def command(run: Callable[[R], int]) -> Callable[..., None]:
    """Return a command for typer: its options are the fields of `run`'s NamedTuple, its exit code what it returns."""
    parameter = next(iter(inspect.signature(run).parameters))
    request = get_type_hints(run)[parameter]
    defaults = request._field_defaults

    @functools.wraps(run)
    def called(**options: Any) -> None:  # noqa: ANN401 - as the fields say
        raise typer.Exit(run(request(**options)))

    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(name, inspect.Parameter.empty),
            annotation=annotation,
        )
        for name, annotation in get_type_hints(request, include_extras=True).items()
    ]
    called.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined] # typer reads it
    return called
