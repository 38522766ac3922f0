"""`compact --due` as the command runs it: a row for each day, whatever a day, its table or its report meets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compaction.commands.audit_and_compact import _Compaction
from compaction.job.context import AuditOptions
from compaction.night.days.run import DaysRun
from compaction.night.days.side_by_side import DayWorkers
from compaction.night.days.stop import StopRequest
from compaction.night.rewrite import CompactOptions
from compaction.report.reporter import Reporter, ReportFolder, ReportPlace
from compaction.report.trend import read_trend
from compaction.tasks.progress import no_progress
from minutebook.errors import CatalogRefused, StoreRefused
from minutebook.store.places import open_storage
from tests.corpus.desk import DAY, Desk
from tests.fakes.clock import ManualClock

BEFORE = DAY.shift(-1)


class _Slow(ManualClock):
    """A clock by which each look at it takes a minute."""

    def monotonic(self) -> float:
        """Return the time, later by a minute."""
        self.advance(60)
        return super().monotonic()


class Ended(NamedTuple):
    """The exit code of a night, and its rows by day."""

    code: int
    rows: dict[str, dict[str, Any]]


Night = Callable[..., Ended]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return two clean days that are published."""
    desk = Desk(tmp_path)
    desk.clock.advance(2 * 86_400)
    desk.corpus.write_marks(open_storage(desk.archive))
    for day in (BEFORE, DAY):
        assert desk.compact(day=day).verdict == "clean"
    return desk


@pytest.fixture
def night(desk: Desk, capsys: pytest.CaptureFixture[str]) -> Night:
    """Run a night."""

    def run(
        budget: float | None = None, *, reports: ReportPlace | None = None, opened: CatalogRefused | None = None
    ) -> Ended:
        context = desk.context()._replace(clock=_Slow(desk.clock.now_ms()))
        options = CompactOptions(AuditOptions(published=desk.out), desk.out)
        reporter = Reporter(
            as_json=True,
            reports=reports,
            trend=lambda day: read_trend(context.open(desk.out.address), desk.out, day),
            is_quiet=True,
        )
        compaction = _Compaction(context, options, reporter, "unknown", as_json=True)
        workers = DayWorkers(1, StopRequest(), context.clock, lambda: None, lambda: None)
        code = compaction.with_table(opened).run_due(
            DaysRun("compact", many=True, as_json=True, workers=workers, report=no_progress), 14, budget
        )
        rows = json.loads(capsys.readouterr().out.splitlines()[-1])["days"]
        return Ended(code, {row["day"]: row for row in rows})

    return run


def lose(desk: Desk) -> None:
    """Delete a segment of each day."""
    shard, raw = desk.corpus.shards[0], open_storage(desk.archive)
    raw.delete([shard.segments[shard.in_day(day)[-1]].key for day in (BEFORE, DAY)])


def verdicts(desk: Desk) -> dict[str, str]:
    """Return what readers see."""
    storage = desk.context().open(desk.out.address)
    pointers = {day: storage.get(f"{desk.out.prefix}dt={day}/_current.json") for day in (str(BEFORE), str(DAY))}
    return {day: json.loads(pointer.body)["verdict"] for day, pointer in pointers.items() if pointer is not None}


def test_a_spent_budget_lets_no_verdict_stand_that_lists_have_shown_wrong(desk: Desk, night: Night) -> None:
    """The days are left; the next night judges them, if it has the time."""
    lose(desk)
    ended = night(budget=0)
    assert ended.code == 4
    for row in (ended.rows[str(day)] for day in (BEFORE, DAY)):
        assert (row["state"], row["exit_code"], row["pointer"], row["done"]) == ("left", 4, "unknown", ["withdrawn"])
        assert row["reason"].startswith(
            "the budget was spent before it; its verdict was withdrawn, because it was in"
        )
        assert row["next_step"] == "the next run goes on with it"
    assert set(verdicts(desk).values()) == {"unknown"}
    assert night().code == 3


def test_a_spent_budget_leaves_a_verdict_that_nothing_speaks_against(desk: Desk, night: Night) -> None:
    """Nothing is written."""
    before = {row.key: row.etag for row in desk.storage.list_objects("")}
    assert {(row["state"], row["reason"]) for row in night(budget=0).rows.values()} == {
        ("left", "the budget was spent before it")
    }
    assert {row.key: row.etag for row in desk.storage.list_objects("")} == before


def test_a_catalog_that_refuses_to_open_is_away(desk: Desk, night: Night) -> None:
    """An expired token is no reason to leave losses untold: the pointers are judged all the same."""
    refused = CatalogRefused("opening the catalog: the token has expired")
    ended = night(opened=refused)
    row = ended.rows[str(DAY)]
    assert (ended.code, row["pointer"], row["table"], row["exit_code"]) == (2, "clean", "away", 2)
    assert "the token has expired" in row["reason"]
    lose(desk)
    ended = night(opened=refused)
    row = ended.rows[str(DAY)]
    assert (ended.code, row["pointer"], row["table"]) == (3, "defects", "away")


class _RefusedReports:
    """A place that takes no report."""

    def write(self, name: str, body: bytes) -> str:
        """Refuse."""
        raise StoreRefused(
            f"the report was not written: {name}, {len(body)} bytes: AccessDenied",
            next_step="let the role write there",
        )


def test_a_report_that_is_refused_is_told_in_the_days_row(desk: Desk, night: Night) -> None:
    """The others are judged all the same, and the day is as it was judged."""
    lose(desk)
    ended = night(reports=_RefusedReports())
    assert (ended.code, set(verdicts(desk).values())) == (3, {"defects"})
    for row in (ended.rows[str(day)] for day in (BEFORE, DAY)):
        assert (row["pointer"], row["exit_code"], "AccessDenied" in row["reason"]) == ("defects", 3, True)
        assert row["next_step"].endswith("let the role write there")


def test_a_folder_that_takes_no_report_is_told_in_the_days_row(desk: Desk, night: Night, tmp_path: Path) -> None:
    """A full disk, or a file of its name."""
    lose(desk)
    (tmp_path / "reports").write_text("a file")
    ended = night(reports=ReportFolder(tmp_path / "reports"))
    assert (ended.code, set(verdicts(desk).values())) == (3, {"defects"})
    assert "the report was not written" in ended.rows[str(DAY)]["reason"]


def test_the_report_of_a_verdict_that_was_given_up_unread_says_so(desk: Desk, night: Night, tmp_path: Path) -> None:
    """A segment is gone, and the budget is spent before the day is judged: its old report must not stay clean."""
    reports = tmp_path / "reports"
    report = reports / f"audit-{DAY}.json"
    reports.mkdir()
    report.write_text('{"verdict": "clean"}')
    shard = desk.corpus.shards[0]
    open_storage(desk.archive).delete([shard.segments[shard.in_day(DAY)[3]].key])
    ended = night(0.5, reports=ReportFolder(reports))
    assert (ended.rows[str(DAY)]["pointer"], json.loads(report.read_text())["verdict"]) == ("unknown", "unknown")
    assert "unknown" in report.with_suffix(".html").read_text()


def test_a_report_that_cannot_be_replaced_is_named(desk: Desk, night: Night, tmp_path: Path) -> None:
    """With the day whose verdict was given up."""
    (tmp_path / "file").write_text("")
    shard = desk.corpus.shards[0]
    open_storage(desk.archive).delete([shard.segments[shard.in_day(DAY)[3]].key])
    row = night(0.5, reports=ReportFolder(tmp_path / "file")).rows[str(DAY)]
    assert (row["pointer"], "its report still says clean" in row["reason"]) == ("unknown", True)
