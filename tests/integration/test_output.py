"""Output that cannot be written: a full disk, a reader who has gone, no stdout at all."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Final

import pytest

from tests.witness.waiting import PATIENCE_SECONDS

_COMMAND: Final = (sys.executable, "-m", "minutebook")
_DEFECTS: Final = (
    sys.executable,
    "-c",
    "import sys; from minutebook import cli; cli.app = lambda args: (print('lost'), sys.exit(3)); cli.main()",
)


def _run(command: Sequence[str], stdout: IO[bytes]) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [("init",), ("--help",)], ids=" ".join)
def test_a_full_disk_is_named(words: tuple[str, ...]) -> None:
    """Whether the command writes at once or the interpreter's end would."""
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        code, told = _run([*_COMMAND, *words], full)
    assert (code, told.splitlines()) == (
        5,
        [
            "minutebook: cannot write all of it: No space left on device",
            "next step: make room where its output goes, or send it elsewhere; then run it again",
        ],
    )


def test_a_full_disk_hides_no_verdict() -> None:
    """That records are lost is worse than that nobody can read it."""
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        assert _run(_DEFECTS, full)[0] == 3


def test_a_reader_who_has_gone_is_no_error_of_ours() -> None:
    """Nothing on stderr: the shell's next line is not about a pipe."""
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as pipe:  # noqa: PTH123 - a descriptor
        assert _run([*_COMMAND, "init"], pipe) == (1, "")


def test_a_closed_stdout_is_taken_as_it_is() -> None:
    """As cron jobs have it."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m minutebook init >&-"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")
