"""What platforms may write behind the entry point, and what of it is the command line."""

import sys

import pytest
import typer

from compaction.spark_submit import PLATFORM, arguments, main
from minutebook.cli import app
from minutebook.errors import SettingsError


def _of(text: str) -> list[str]:
    return arguments(text.split())


def test_keys_and_values_are_a_command_line() -> None:
    """The file becomes the argument, a flag stands or falls, and values may begin with anything."""
    words = _of("--command compact --file s3://code/my.properties --date yesterday --dry-run true --budget=3h")
    assert words == ["compact", "s3://code/my.properties", "--date=yesterday", "--dry-run", "--budget=3h"]
    assert _of("--date today --command audit --json false --event-id=--x") == [
        "audit",
        "--date=today",
        "--event-id=--x",
    ]


def test_what_a_platform_adds_is_left_out() -> None:
    """With its value, an empty one, or none; the same in the form with a command in front."""
    glue = ["--JOB_NAME", "night", "--enable-metrics", "", "--job-language", "python", "--enable-spark-ui"]
    ours = ["--command", "audit", "--date", "2026-11-20"]
    assert arguments([*glue, *ours]) == arguments([*ours, *glue]) == ["audit", "--date=2026-11-20"]
    assert arguments(["audit", "f", *glue, "--date", "today"]) == ["audit", "f", "--date", "today"]
    assert _of("audit f --TempDir=s3://t --date today --JOB_NAME n") == ["audit", "f", "--date", "today"]


def test_no_option_of_ours_is_taken_for_a_platforms() -> None:
    """It would be left out, and nobody would be told."""
    group = typer.main.get_command(app)
    ours = {name for command in group.commands.values() for each in command.params for name in each.opts}  # type: ignore[attr-defined]
    assert ours & PLATFORM == set()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--date today", "--command is missing"),
        ("--command expire --older-than 1d", "'expire' is not one of them"),
        ("--command audit --dte today", "--dte is not an argument; did you mean --date?"),
        ("--command audit --json yes", "--json takes true or false, not 'yes'"),
        ("--command audit --json --date today", "--json takes true or false, not ''"),
        ("--command audit --date", "--date has no value"),
        ("--command audit --date today --date today", "--date is given twice"),
        ("--command audit --date today yesterday", "'yesterday' follows no --key"),
        ("--command audit --help true", "--help is not an argument"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, message: str) -> None:
    """Before anything is read; a night that does something else than it was told is worse than none."""
    with pytest.raises(SettingsError) as caught:
        _of(text)
    assert message in str(caught.value)
    assert caught.value.next_step


def test_an_error_is_one_line_and_exit_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As everywhere."""
    monkeypatch.setattr(sys, "argv", ["spark_submit.py", "--command", "audit", "--shards", "x"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("minutebook: --shards is not an argument; did you mean --shard?\n")


def test_success_is_no_exception(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Some platforms take `SystemExit: 0` for a failure."""
    monkeypatch.setattr(sys, "argv", ["spark_submit.py", "audit", "--help"])
    main()
    assert "Prove a day" in capsys.readouterr().out
