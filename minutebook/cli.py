"""The command line `minutebook`. Each command imports what it needs when it is called, so help is quick.

Both sides' commands are imported by the names of two modules: consumer and compaction stay unknown to `minutebook`.
Only what starts a process imports this module: the console script, `python -m minutebook`, `compaction.spark_submit`.
"""

import errno
import importlib.metadata
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer

from minutebook.cat.options import CatOptions
from minutebook.completeness.options import WaitOptions
from minutebook.errors import MinutebookError, SettingsError
from minutebook.options import command
from minutebook.wording import error_lines

_UNWRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EPIPE})
_MAKE_ROOM: Final = "make room where its output goes, or send it elsewhere; then run it again"

CONSUMER: Final = import_module("consumer.command_line")
NIGHTLY: Final = import_module("compaction.commands.command_line")

app = typer.Typer(
    name="minutebook",
    help="Archive a Kinesis data stream to S3, each record exactly once, and prove it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done or clean, 1 internal error, 2 usage or settings, 3 the audit found defects, "
    "4 it could not prove, 5 a service stayed unavailable, 6 refused for safety, 7 not yet, unhealthy, too late.",
)


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
    """Archive real flights through the real daemon on embedded AWS, with crashes on the way (in a checkout)."""
    if importlib.util.find_spec("demo") is None:
        raise SettingsError(
            "the demo and its servers belong to the repository, and are not installed with the package",
            next_step="run `make demo` in a checkout",
        )
    from demo.command import demo as run  # noqa: PLC0415 - help is quick

    raise typer.Exit(run(dedupe, nightly=nightly, tamper=tamper))


@command
def cat(options: CatOptions) -> int:
    """Print archived records by the time they arrived, straight from the raw segments; changes nothing."""
    from minutebook.cat.command import run_cat  # noqa: PLC0415 - help is quick

    return run_cat(options, os.environ)


@command
def wait(options: WaitOptions) -> int:
    """Wait until everything that arrived before a time is archived; exits 4 for a gap, 7 where it is not yet."""
    from minutebook.completeness.command import run_wait  # noqa: PLC0415 - help is quick

    return run_wait(options, os.environ)


def prepare() -> None:
    """Let this installation's JVMs start faster: once after installing, as the user who installs (a minute)."""
    for side in (CONSUMER, NIGHTLY):
        if (prepared := side.prepare_jvm()) is not None:
            typer.echo(prepared)


for each in (*CONSUMER.COMMANDS, *NIGHTLY.COMMANDS, cat, wait, CONSUMER.docs, prepare, demo):
    app.command()(each)


def complete(words: Sequence[str]) -> list[str]:
    """Give `--so-far` its value where it stands alone: typer knows no option that may do without."""
    following = [*words[1:], ""]
    return [
        "--so-far=now" if word == "--so-far" and not after[:1].isdecimal() and after != "now" else word
        for word, after in zip(words, following, strict=False)
    ]


def main(words: Callable[[], Sequence[str]] = lambda: sys.argv[1:]) -> None:
    """Run the command line; an error of ours becomes one line on stderr and its own exit code."""
    # Python has None for one that whoever started it has closed.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 - same
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may not know each of our characters
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run(words))


def _run(words: Callable[[], Sequence[str]]) -> int:
    code = 0
    try:
        try:
            app(args=complete(words()))
        except SystemExit as exc:  # typer's usual end
            code = exc.code if isinstance(exc.code, int) else 0
        sys.stdout.flush()
    except MinutebookError as exc:
        sys.stderr.write(error_lines(str(exc), exc.next_step))
        return exc.exit_code
    except OSError as exc:
        if exc.errno not in _UNWRITTEN:
            raise
        # Else the interpreter's end tries to write it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if exc.errno == errno.EPIPE:  # whoever read it has seen enough, or says so itself
            return code or 1
        where = f" ({exc.filename})" if exc.filename else ""
        sys.stderr.write(error_lines(f"cannot write all of it{where}: {exc.strerror}", _MAKE_ROOM))
        return code or 5
    return code
