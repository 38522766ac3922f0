"""Commands whose options are the fields of one value."""

from pathlib import Path
from typing import Annotated, NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from minutebook.options import command


class _Request(NamedTuple):
    unit: Annotated[str, typer.Option("--unit")]
    file: Annotated[Path | None, typer.Argument(show_default=False)] = None
    limit_days: Annotated[int, typer.Option("--limit", min=1, help="How far.")] = 7
    as_json: Annotated[bool, typer.Option("--json")] = False


def _run(words: list[str], code: int = 0) -> tuple[int, list[_Request], str]:
    """Run a command; returns its exit code, what it was given, and what it wrote."""
    requests: list[_Request] = []

    def measure(request: _Request) -> int:
        """Measure something."""
        requests.append(request)
        return code

    app = typer.Typer()
    app.command()(command(measure))
    done = CliRunner().invoke(app, words)
    return done.exit_code, requests, done.output


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        (["--unit", "m"], _Request("m")),
        (["a.txt", "--unit=m", "--limit", "3", "--json"], _Request("m", Path("a.txt"), 3, as_json=True)),
    ],
)
def test_a_command_is_given_its_options_as_one_value(words: list[str], request_: _Request) -> None:
    """What was not named has the default of the field."""
    assert _run(words)[:2] == (0, [request_])


def test_the_code_that_it_returns_is_the_exit_code() -> None:
    """As a shell sees it."""
    assert _run(["--unit", "m"], 4)[0] == 4


@pytest.mark.parametrize("words", [[], ["--unit", "m", "--limit", "0"], ["--unit", "m", "--as-json"]])
def test_wrong_usage_reaches_no_command(words: list[str]) -> None:
    """An option without a default is required, a limit is one, and a field's name is no option."""
    assert _run(words)[:2] == (2, [])


def test_help_has_the_docstring_and_the_defaults() -> None:
    """Those of the command, not of the value."""
    code, _, text = _run(["--help"])
    assert (code, "Measure something." in text, "default: 7" in text) == (0, True, True)
