"""A nightly command over a folder: what a stream's days came to, and what ends one stream or all."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compaction.commands.audit_and_compact import Session, of_each_stream, opened_session
from compaction.commands.vacuum.command import VacuumDay, VacuumReport
from compaction.commands.vacuum.command import end_of_stream as end_of_vacuum
from compaction.job.request import CompactRequest
from compaction.night.days.run import DayRow, RunSummary, end_of_stream
from minutebook.errors import CatalogRefused, StoreRefused
from minutebook.properties_file import PropertiesFile, Source
from minutebook.properties_folder import PropertiesFolder, StreamFile

Work = Callable[[Session], int]


def folder_of(*names: str) -> PropertiesFolder:
    """Return a folder of streams."""
    files = (PropertiesFile({"applicationName": f"app-{name}"}, (), name, stem=name) for name in names)
    return PropertiesFolder("streams", tuple(map(StreamFile, names, files)))


def row(day: int, code: int = 0, reason: str = "", **more: Any) -> DayRow:  # noqa: ANN401 - fields of a row
    """Return a row of a day."""
    return DayRow(day=f"2026-11-{day:02}", state="published", exit_code=code, reason=reason, **more)


def summary(*rows: DayRow, older: str = "") -> RunSummary:
    """Return what a stream's days came to."""
    return RunSummary(format=1, command="compact", exit_code=0, days=rows, older=older)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., dict[str, Any]]]:
    """Run a command over streams, each by work of its own; return the one document."""

    def run(**works: Work) -> dict[str, Any]:
        folder, asked = folder_of(*works), CompactRequest(due="1d", as_json=True)

        def work(session: Session, source: Source) -> int:
            assert isinstance(source, PropertiesFile)
            return works[source.stem](session)

        with opened_session("compact", asked, folder) as session:
            code = of_each_stream(session, folder, work)
        told: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert told["exit_code"] == code
        return {"code": code, **{each["stream"]: each for each in told["streams"]}}

    return run


def ends(code: int, *rows: DayRow) -> Work:
    """Return the work of a stream whose days came to these rows."""

    def work(session: Session) -> int:
        assert session.told is not None
        session.told(summary(*rows))
        return code

    return work


def raises(error: Exception, *rows: DayRow) -> Work:
    """Return the work of a stream that fails, after its days if there are rows."""

    def work(session: Session) -> int:
        if rows:
            ends(0, *rows)(session)
        raise error

    return work


def test_a_stream_that_fails_stops_no_other(run: Callable[..., dict[str, Any]]) -> None:
    """Each has its own document of days; the run exits with the worst code."""
    denied = StoreRefused("access denied", next_step="grant it")
    told = run(a=ends(0, row(27, pointer="clean")), b=raises(denied), c=ends(3, row(27, 3, "lost")))
    assert {name: told[name]["exit_code"] for name in "abc"} == {"a": 0, "b": 2, "c": 3}
    assert (told["code"], told["b"]["outcome"], told["b"]["next_step"]) == (3, "access denied", "grant it")
    assert told["a"]["report"]["days"][0]["pointer"] == "clean"
    assert "report" not in told["b"]


def test_a_bug_stops_its_stream_alone(run: Callable[..., dict[str, Any]]) -> None:
    """It has asked the run to end, so that the stream's other days end; the next stream begins all the same."""

    def bug(session: Session) -> int:
        session.ending.ask()
        raise ZeroDivisionError

    def next_stream(session: Session) -> int:
        session.ending.check()
        return 0

    told = run(a=bug, b=next_stream)
    assert (told["code"], told["a"]["exit_code"], told["b"]["exit_code"]) == (1, 1, 0)


def test_a_signal_ends_all(run: Callable[..., dict[str, Any]]) -> None:
    """Streams that were not begun are not begun."""

    def stopped(session: Session) -> int:
        session.ending.note(15, None)
        return session.ending.exit_code or 0

    told = run(a=stopped, b=raises(AssertionError("it began")))
    assert told["code"] == 143
    assert "b" not in told


def test_an_error_behind_the_days_keeps_what_they_came_to(run: Callable[..., dict[str, Any]]) -> None:
    """As a table that did not take a day: the days are published."""
    told = run(a=raises(CatalogRefused("columns are others there"), row(27, pointer="clean")))
    assert (told["a"]["exit_code"], told["a"]["outcome"]) == (2, "columns are others there")
    assert told["a"]["report"]["days"][0]["pointer"] == "clean"


def test_the_budget_is_that_of_the_whole_run() -> None:
    """It counts from the run's beginning, not from a stream's."""
    with opened_session("compact", CompactRequest(due="1d"), folder_of("a", "b")) as session:
        assert session.deadline(None) is None
        assert session.deadline(60) == session.begun + 60 == session._replace(stream="b").deadline(60)


def test_a_row_says_what_the_days_came_to_and_the_worst_of_them() -> None:
    """By what readers see; the next step is that of the worst day, and older open days are named."""
    rows = [row(25, pointer="clean"), row(26, 4, "it could not be proven", pointer="unknown", next_step="wait")]
    rows += [row(27, 3, "blocked by gap", pointer="none", next_step="audit it"), row(24, pointer="clean")]
    end = end_of_stream(summary(*rows, older="2 older day(s) are neither clean nor accepted: a, b"), 3)
    assert end.outcome.split("\n  - ") == [
        "4 day(s): 2 clean, 1 unknown, 1 none",
        "2026-11-27: blocked by gap; and 1 more day(s)",
        "2 older day(s) are neither clean nor accepted: a, b",
    ]
    assert (end.exit_code, end.next_step) == (3, "audit it")


def test_a_row_of_vacuum_says_what_goes_and_what_was_left_alone() -> None:
    """The first day that was refused, with what to do."""
    days = (
        VacuumDay(day="2026-11-20", objects=2, bytes=1500),
        VacuumDay(day="2026-11-21", exit_code=6, reason="its tombstone cannot be read", next_step="restore it"),
    )
    report = VacuumReport(
        format=1,
        output="s3://out/",
        applied=False,
        older_than_days=7,
        looked_at=9,
        objects=2,
        bytes=1500,
        uploads=0,
        exit_code=6,
        days=days,
    )
    end = end_of_vacuum(report)
    assert end.outcome.split("\n  - ") == [
        "2 object(s), 1,500 bytes would be deleted",
        "2026-11-21: its tombstone cannot be read",
    ]
    assert (end.exit_code, end.next_step, end.report) == (6, "restore it", report)
