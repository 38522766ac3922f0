"""`doctor` of a folder: a row a stream, of its checks that failed and those worth a look."""

from pathlib import Path

import pytest

from consumer.preflight.check import Check
from consumer.preflight.doctor import end_of_stream, run_doctor


def test_a_stream_whose_checks_pass_is_one_line() -> None:
    """How many there were."""
    end = end_of_stream([Check.ok("java", "Java 17"), Check.ok("bucket", "reached")])
    assert (end.exit_code, end.outcome, end.next_step) == (0, "2 checks: ok", "")


def test_what_failed_comes_before_what_is_worth_a_look() -> None:
    """With the next step of the first, and the code that a person decides first."""
    end = end_of_stream(
        [
            Check.warn("codec", "Python's", next_step="install a compiler"),
            Check.failed("bucket", "access denied", next_step="grant it", exit_code=2),
            Check.failed("prefix", "it is another stream's", next_step="correct it", exit_code=6),
        ]
    )
    assert (end.exit_code, end.next_step) == (6, "grant it")
    assert end.outcome.split("\n  - ") == [
        "fail bucket: access denied",
        "fail prefix: it is another stream's",
        "warn codec: Python's",
    ]
    assert isinstance(end.report, dict)
    assert [row["name"] for row in end.report["checks"]] == ["codec", "bucket", "prefix"]


def test_wrong_settings_are_the_streams_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The row says what is wrong, and nothing is asked of AWS for it."""
    (tmp_path / "orders.properties").write_text("applicationName=orders\n")
    assert run_doctor(tmp_path, {}, as_json=False) == 2
    assert "minutebook.bucket is missing" in capsys.readouterr().out
