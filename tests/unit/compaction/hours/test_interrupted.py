"""Runs of hours and of the night that are killed, or meet each other: the day is whole, and no row is there twice."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compaction.tasks.task import Order, TaskResult, run
from tests.corpus.auditing import in_process
from tests.fakes.failing_storage import Crash, FailingStorage
from tests.unit.compaction.hours.scene import Hours, small

if TYPE_CHECKING:
    from compaction.night.rewrite import Compacted


def test_a_crash_at_any_request_of_an_hour_is_made_up_for(tmp_path: Path) -> None:
    """Run again, it is published; the night takes it over, or reads it."""
    for at in itertools.count(1):
        desk = small(tmp_path / str(at))
        failing = FailingStorage(desk.storage, at, applied=at % 2 == 0)
        crashed = False
        try:
            desk.publish(1, failing)
        except Crash:
            crashed = True
        if at % 3 == 0:
            assert desk.publish(1).verdict == "clean"
        desk.publish()
        desk.check_whole()
        if not crashed:
            return


def test_a_crash_at_any_request_of_the_night_is_made_up_for(tmp_path: Path) -> None:
    """Hours stay until the day is there; the night that follows reads no line that the hours have shown."""
    for at in itertools.count(1):
        desk = small(tmp_path / str(at))
        desk.publish(0)
        failing = FailingStorage(desk.storage, at, applied=at % 2 == 0)
        crashed = False
        try:
            desk.publish(None, failing)
        except Crash:
            crashed = True
        if desk.publisher().current().pointer is None:
            assert desk.hour(0).current().pointer is not None
        desk.publish()
        assert set(desk.read) <= desk.keys_of(1)
        desk.check_whole()
        if not crashed:
            return


def test_a_night_that_was_killed_goes_on_with_what_it_has_taken_over(desk: Hours) -> None:
    """Its copies are its own: they are found again, also where the hours are gone by then."""

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        for order in orders[:3]:
            run(order)
        raise Crash

    with pytest.raises(Crash):
        desk.publish(engine=engine)
    desk.publish()
    assert [sum(getattr(one, what) for one in desk.results) for what in ("is_earlier", "is_taken")] == [
        3,
        len(desk.results) - 3,
    ]
    assert desk.read == []
    desk.check_whole()


def test_an_hour_that_is_published_anew_while_the_night_works_changes_nothing(desk: Hours) -> None:
    """The night goes by what it saw, and by what the day holds."""

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        Hours(desk.raw.parent).publish(10, zstd_level=5)
        return in_process(orders)

    desk.publish(engine=engine)
    desk.check_whole()


def test_two_runs_of_an_hour_have_one_winner(tmp_path: Path) -> None:
    """The other one finds it published."""
    desk = small(tmp_path)
    inner: list[Compacted] = []

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        if not inner:
            inner.append(desk.publish(0))
        return in_process(orders)

    assert (desk.publish(0, engine=engine).state, inner[0].state) == ("already", "published")
    desk.publish()
    desk.check_whole()


def test_an_hour_whose_segments_are_gone_does_not_hide_it(desk: Hours) -> None:
    """Its rows are published for all that, hour by hour; the day is judged by what there is."""
    gone = min(desk.keys_of(10))
    (desk.raw / gone).unlink()
    done = desk.publish()
    assert (done.state, done.verdict) == ("held", "defects")
    assert desk.hour(10).current().pointer is not None
    assert set(desk.read) == desk.keys_of(10) - {gone}
