"""The file may name a program of its own for processors: it must be one."""

import sys

import pytest

from consumer.preflight.check import CheckOutcome
from consumer.preflight.preflight import check_executable


@pytest.mark.parametrize("command", ["minutebook-procesor", "/nonexistent/run --fast", "/dev/null"])
def test_what_is_no_program_is_refused(command: str) -> None:
    """The daemon would try again and again, and say why in its own log alone."""
    check = check_executable(command, {"PATH": "/usr/bin:/bin"})
    assert (check.outcome, check.exit_code) == (CheckOutcome.FAIL, 2)
    assert command.split(maxsplit=1)[0] in check.sentence
    assert "remove the line" in check.next_step


@pytest.mark.parametrize("command", ["sh -c x", f"{sys.executable} -m consumer.main"])
def test_a_program_is_taken(command: str) -> None:
    """By its path, or by that of the process; it costs the forks."""
    check = check_executable(command, {"PATH": "/usr/bin:/bin"})
    assert (check.outcome, command in check.sentence) == (CheckOutcome.WARN, True)
