"""Archives that are followed into a table, and their nights, from seeds; see `tests.follows.history`."""

from collections.abc import Callable
from typing import Final

import pytest

from minutebook.format.minute import MINUTE_MS
from tests.follows.history import History, run_history
from tests.lives.memory import in_one_thread
from tests.lives.store import Interruptions
from tests.lives.world import FIRST_DAY, HOUR
from tests.searching import IS_DEEP

SEEDS: Final = range(1, 2001) if IS_DEEP else range(1, 5)
_REQUESTS: Final = range(1, 30) if IS_DEEP else range(5, 30, 5)
"""A tick that lists three hours takes 28. What two followers do to each other shows at the tenth and twentieth."""


@pytest.mark.parametrize("seed", SEEDS)
def test_at_each_snapshot_rows_are_positions_and_none_disappears(seed: int) -> None:
    """Two followers, nights, deaths, lost answers, other engines, rollbacks; `python -m tests.follows` makes more."""
    outcome = run_history(seed)
    assert not outcome.wrong, outcome.log
    assert outcome.commits


@pytest.mark.parametrize("seed", SEEDS)
def test_so_they_are_about_midnights(seed: int) -> None:
    """A day ends, and the day before is published, while the followers work."""
    outcome = run_history(seed, steps=10, at_midnights=True)
    assert not outcome.wrong, outcome.log
    assert outcome.commits


def _begun() -> History:
    """Return a history of a morning that was followed until six, and has later segments."""
    history = History(1, events_a_day=200)
    history.world.live_until(FIRST_DAY.begin_ms + 6 * HOUR)
    history.act("tick")
    history.world.live_until(FIRST_DAY.begin_ms + 6 * HOUR + 45 * MINUTE_MS)
    return history


@pytest.mark.parametrize("number", _REQUESTS)
@pytest.mark.parametrize("other", ["other tick", "so far"])
@in_one_thread()
def test_what_another_process_does_at_a_request_of_a_tick_is_kept(number: int, other: str) -> None:
    """It follows, or publishes the part of the day until the last hour: no row is doubled, none disappears."""
    history = _begun()
    happened = list[str]()

    def meanwhile() -> None:
        happened.append(other)
        history.world.live_until(history.world.clock.now_ms() + 40 * MINUTE_MS)
        history.act(other)

    _tick(history, {number: meanwhile})
    history.world.clock.advance(60)
    history.act("tick")
    assert (history.wrong, history.lacks(FIRST_DAY)) == ([], set()), (happened, history.log)


def _tick(history: History, acts: dict[int, Callable[[], object]]) -> None:
    follower, between = history.followers[0]
    between.use(Interruptions(acts))
    follower.tick()
    between.use(Interruptions())
