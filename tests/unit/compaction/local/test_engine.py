"""A night in processes of this machine publishes what it publishes in one."""

from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from compaction.job.context import AuditOptions
from compaction.local import engine as local
from compaction.local.engine import LocalEngine
from compaction.local.workers import Workers
from compaction.night.days.stop import Stopped, StopRequest
from compaction.parquet.plan import TaskSizes
from compaction.tasks.progress import no_progress
from minutebook.clock import SystemClock
from tests.corpus.desk import Mill, Row, repeated

_SMALL = TaskSizes(segments=3, shards=2)


class Made:
    """An engine of two processes, what it told, and the request to stop."""

    def __init__(self, stack: ExitStack) -> None:
        self.told: set[str] = set()
        self.stop = StopRequest()
        self.workers = Workers(2)
        self.engine = LocalEngine(
            stack, self.stop.check, lambda: nullcontext(lambda what, _done, _total: self.told.add(what)), self.workers
        )


def rewritten(folder: Path, made: Made | None) -> tuple[list[Row], object]:
    """Rewrite a day with copies of every kind, here or by an engine; return its rows and what its audit found."""
    mill = Mill(folder, repeated()[0])
    audit = AuditOptions(event_id="n", published=mill.out, drop_producer_duplicates=True, max_repeats=1)
    if made is None:
        done = mill.compact(audit=audit, sizes=_SMALL)
    else:
        parts = {"shuffle": made.engine.shuffle, "group_sources": made.engine.group_source}
        done = mill.compact(audit=audit, sizes=_SMALL, engine=made.engine, **parts)  # type: ignore[arg-type]
    assert done.manifest is not None
    assert done.result is not None
    return mill.rows(done.manifest), (done.result.audit.verdict, done.result.audit.findings)


def test_processes_publish_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, copies left out and findings; the progress of each step is told."""
    monkeypatch.setattr(local, "_HERE_BYTES", 0)
    with ExitStack() as stack:
        made = Made(stack)
        assert rewritten(tmp_path / "processes", made) == rewritten(tmp_path / "here", None)
        assert made.workers.are_started
    assert made.told == {
        "read and write with event ids 2026-11-20",
        "find repeated events",
        "write without repeated events",
    }
    assert not made.workers.are_started


def test_a_small_night_starts_no_process(tmp_path: Path) -> None:
    """It would take longer to start them."""
    with ExitStack() as stack:
        made = Made(stack)
        rows, _ = rewritten(tmp_path, made)
        assert (made.engine.spread(str, [7]), made.workers.are_started) == (["7"], False)
    assert rows


def test_a_stop_ends_the_work_before_the_next_task() -> None:
    """And a count of tasks is told up to it."""
    with ExitStack() as stack:
        stop = StopRequest()
        engine = LocalEngine(stack, stop.check, lambda: nullcontext(no_progress), Workers(1))

        def work(number: int) -> int:
            stop.ask()
            return number

        assert engine.spread(work, [1]) == [1]
        with pytest.raises(Stopped):
            engine.spread(work, [2])


def test_items_are_spread_among_processes() -> None:
    """In their order, however long each takes."""
    with ExitStack() as stack:
        made = Made(stack)
        begin = SystemClock().monotonic()
        assert made.engine.spread(str, [3, 2, 1]) == ["3", "2", "1"]
        assert SystemClock().monotonic() >= begin
        assert made.workers.are_started
