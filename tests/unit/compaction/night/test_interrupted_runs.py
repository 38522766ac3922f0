"""Runs that crash, lose an answer, or meet each other: readers see one whole day, and no row is doubled."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compaction.tasks.task import Order, TaskResult
from tests.corpus.auditing import in_process
from tests.corpus.desk import DAY, Desk
from tests.fakes.failing_storage import Crash, FailingStorage, crash_points

if TYPE_CHECKING:
    from compaction.night.rewrite import Compacted


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a clean day that is not published."""
    return Desk(tmp_path)


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_crash_at_any_request_leaves_a_readable_day(tmp_path: Path, applied: bool) -> None:  # noqa: FBT001 - a case
    """Readers see the old day or the new one, never a mix; the next run finishes; no row is doubled."""
    for at in crash_points():
        desk = Desk(tmp_path / f"{applied}-{at}")
        desk.compact()
        old = desk.published_rows()
        desk.archive_more()
        failing = FailingStorage(desk.storage, at, applied=applied)
        crashed = False
        try:
            desk.compact(failing)
        except Crash:
            crashed = True
        assert len(desk.published_rows()) in {len(old), desk.corpus.records}
        assert desk.compact().state in {"published", "already"}
        assert len(set(desk.published_rows())) == len(desk.published_rows()) == desk.corpus.records
        stored = desk.storage.get(f"tables/_symlinks/dt={DAY}/manifest")
        pointer = desk.publisher().current().pointer
        assert stored is not None
        assert pointer is not None
        assert pointer.generation in stored.body.decode()
        if not crashed:
            assert not failing.reached
            return


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_lost_answer_at_any_request_is_asked_again(tmp_path: Path, applied: bool) -> None:  # noqa: FBT001 - a case
    """An unknown outcome never ends the run and never makes it lose to itself."""
    for at in itertools.count(1):
        desk = Desk(tmp_path / f"{applied}-{at}")
        failing = FailingStorage(desk.storage, at, applied=applied, crash=False)
        assert desk.compact(failing).state == "published"
        assert len(desk.published_rows()) == desk.corpus.records
        if not failing.reached:
            return


def test_two_runs_of_one_generation_have_one_winner(desk: Desk) -> None:
    """The manifest that came first counts; the other run adopts it, and its own files are never named."""
    inner: list[Compacted] = []

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        if not inner:
            inner.append(desk.compact())
        return in_process(orders)

    outer = desk.compact(engine=engine)
    assert (inner[0].state, outer.state) == ("published", "already")
    assert len(desk.published_rows()) == len(set(desk.published_rows())) == desk.corpus.records


def test_a_run_with_an_older_view_never_replaces_a_newer_one(desk: Desk) -> None:
    """A run that listed before a late object, and publishes after who saw it, loses and lists again."""
    inner: list[Compacted] = []

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        if not inner:
            desk.archive_more()
            inner.append(desk.compact(engine=in_process))
        return in_process(orders)

    outer = desk.compact(engine=engine)
    assert (inner[0].state, outer.state) == ("published", "already")
    assert len(desk.published_rows()) == desk.corpus.records


def test_a_task_that_runs_twice_doubles_nothing(desk: Desk) -> None:
    """Retries and speculation leave files that no manifest names."""

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        in_process(orders)
        return in_process(orders)

    done = desk.compact(engine=engine)
    assert done.manifest is not None
    stored = [row.key for row in desk.storage.list_objects(f"tables/dt={DAY}/_gen-") if "/part-" in row.key]
    assert len(stored) == 2 * len(done.manifest.files)
    assert len(desk.published_rows()) == desk.corpus.records
