"""`--apply`: what changes something shows a plan first, and an old schedule that lacks the option is told."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from minutebook.apply_option import UNCHANGED, is_applied, tell_unchanged
from minutebook.errors import SettingsError
from minutebook.logs import configure_logging


class Terminal(io.StringIO):
    """Somebody looks at it."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Return what is logged."""
    stream = io.StringIO()
    configure_logging(stream=stream)
    yield stream
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("apply", "dry_run", "applied"), [(False, False, False), (False, True, False), (True, False, True)]
)
def test_only_apply_applies(*, apply: bool, dry_run: bool, applied: bool) -> None:
    """The plan is the default, and `--dry-run` says the same aloud."""
    assert is_applied(apply=apply, dry_run=dry_run) is applied


def test_both_together_are_refused() -> None:
    """Whoever adds --dry-run to a command line that deletes must not see it deleted."""
    with pytest.raises(SettingsError, match="--apply cannot be given with --dry-run"):
        is_applied(apply=True, dry_run=True)


def test_an_old_schedule_is_warned(log: io.StringIO) -> None:
    """Nobody looks at its stdout, its exit code is 0: the log says that nothing was done."""
    stdout = io.StringIO()
    tell_unchanged("vacuum", dry_run=False, stdout=stdout)
    line = json.loads(log.getvalue())
    assert stdout.getvalue() == f"{UNCHANGED}\n"
    assert (line["level"], line["event"], line["command"]) == ("warning", "plan_not_applied", "vacuum")
    assert "--apply" in line["next_step"]


@pytest.mark.parametrize(
    ("stdout", "dry_run"), [(Terminal(), False), (io.StringIO(), True)], ids=["terminal", "dry run"]
)
def test_nobody_is_warned_who_knows(log: io.StringIO, stdout: io.StringIO, *, dry_run: bool) -> None:
    """The last line is read on a terminal, and `--dry-run` wants a plan."""
    tell_unchanged("vacuum", dry_run=dry_run, stdout=stdout)
    assert (log.getvalue(), stdout.getvalue()) == ("", f"{UNCHANGED}\n")


def test_a_document_stays_one(log: io.StringIO) -> None:
    """`--json` has a field for it; the warning goes elsewhere."""
    stdout = io.StringIO()
    tell_unchanged("vacuum", dry_run=False, as_json=True, stdout=stdout)
    assert (stdout.getvalue(), "plan_not_applied" in log.getvalue()) == ("", True)
