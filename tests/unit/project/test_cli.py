"""The command line: usage, errors as one clear line, and a quick help."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from minutebook.cli import app, complete
from tests.witness.waiting import PATIENCE_SECONDS

MINUTEBOOK = Path(sys.executable).with_name("minutebook")


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the front door."""
    return subprocess.run(
        [MINUTEBOOK, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )


def test_version() -> None:
    """It prints name and version."""
    answer = command("--version")

    assert (answer.returncode, answer.stdout.split()[0]) == (0, "minutebook")


@pytest.mark.parametrize("name", ["health", "doctor"])
def test_a_wrong_file_is_code_2(name: str, tmp_path: Path) -> None:
    """The faults of the file, one a line, then the next step; no traceback."""
    path = tmp_path / "x.properties"
    path.write_text("streamName=s\napplicationName=app\nregionName=eu-west-1\nminutebook.buckt=b\n")
    answer = command(name, path)

    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.splitlines() == [
        f"minutebook: {path}: 2 errors in the settings",
        "  - minutebook.buckt is not a setting of KCL or Minutebook: did you mean minutebook.bucket?",
        "  - minutebook.bucket is missing",
        "next step: correct the lines named; `minutebook init` prints a file that explains every name",
    ]


def test_wrong_usage_is_code_2() -> None:
    """An unknown command is told by the command line itself."""
    assert command("consumer").returncode == 2


def test_the_command_alone_shows_its_help() -> None:
    """What a newcomer types first."""
    answer = command()

    assert answer.returncode == 2
    assert "Usage: minutebook" in answer.stdout
    assert "Traceback" not in answer.stderr


def test_help_imports_nothing_heavy() -> None:
    """Help needs neither AWS's clients nor the supervisor."""
    code = "import sys, minutebook; print({'boto3', 'botocore', 'structlog', 'pyspark'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("audit f --so-far", "audit f --so-far=now"),
        ("audit f --so-far --json", "audit f --so-far=now --json"),
        ("audit --so-far f --date today", "audit --so-far=now f --date today"),
        ("audit f --so-far 2026-11-22T10:00Z", "audit f --so-far 2026-11-22T10:00Z"),
        ("audit f --so-far=2026-11-22T10:00Z", "audit f --so-far=2026-11-22T10:00Z"),
        ("audit f --so-far now", "audit f --so-far now"),
        ("audit f --date today", "audit f --date today"),
        ("", ""),
    ],
)
def test_so_far_may_stand_alone(typed: str, meant: str) -> None:
    """It is the one option whose value may be left out."""
    assert complete(typed.split()) == meant.split()


@pytest.mark.parametrize("name", ["compact", "restore", "expire", "vacuum"])
def test_what_changes_something_can_be_planned(name: str) -> None:
    """`--dry-run` is an option of each."""
    assert "dry_run" in options_of(name)


@pytest.mark.parametrize("name", ["restore", "expire", "vacuum"])
def test_what_replaces_or_deletes_needs_apply(name: str) -> None:
    """And not both options at once: that is told before any setting is read."""
    needed = ["--older-than", "30d", "--published", "."] if name == "expire" else []
    answer = command(name, "--apply", "--dry-run", *needed)

    assert "apply" in options_of(name)
    assert answer.returncode == 2
    assert answer.stderr.splitlines()[0] == "minutebook: --apply cannot be given with --dry-run"


def options_of(name: str) -> set[str]:
    """Return the names of a command's parameters."""
    group: Any = typer.main.get_command(app)
    return {parameter.name for parameter in group.commands[name].params}
