"""One change of an archive at a time: a night looks at a day again whenever a fresh audit may say something else."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import pytest

from tests.lives.changes import CHANGES
from tests.lives.memory import in_one_thread
from tests.lives.table import DAY, Outcome, Stage
from tests.searching import IS_DEEP

T = TypeVar("T")

HARMLESS: Final = {
    "segment restored": "its bytes are compared, and are the same",
    "marks restored": "when a mark was stored decides what a skipped batch blocks",
    "markers restored": "when a marker was stored decides by when a shard had ended",
    "duplicates added": "a damaged object there may be the original that a later segment needs",
    "proven mark added": "it may prove what nothing else does",
    "lost mark added": "it may begin what is not proven any more",
    "mark of a missing segment added": "it may name a segment that is gone",
    "segment behind the tail": "the day has rows that it had not",
    "stranger at the edge": "the shard may be one whose chain the day joins",
    "tombstone added": "the day behind it stands on what the tombstone says now",
    "tombstone damaged": "any chain may pass through the day",
    "end marker deleted": "the shards behind it are known from it alone, mostly",
    "end marker without children": "the shards behind it are known from it alone, mostly",
    "end marker changed": "its last record may be missing",
    "start marker deleted": "the chain's start is proven by it, where the day is the first",
    "start marker changed": "the chain's start is proven by it, where the day is the first",
    "opened marker deleted": "a shard is known by it, where nothing else is stored of it",
    "first shards deleted": "the shards are known by it, where nothing else is stored of them",
    "adopted marker": "the chain may begin with it",
    "child of an ended shard opened": "it may be one that nobody read",
}
"""Changes that a night looks at, whatever they were: and why. The day is current again in the night after."""
DAYS: Final = (-1, 0, 1, 2)
NIGHTLY: Final = sorted(CHANGES)[:: 1 if IS_DEEP else 4]
"""A night takes its time: of the changes before and while it runs the ordinary tests make some."""


def days_of(name: str) -> list[int]:
    """Return the days that a change is about: its own and another one, which takes turns; in the deep run all."""
    return [offset for offset in DAYS if offset in {0, *in_turn(name, DAYS)}]


def in_turn(name: str, places: Sequence[T]) -> Sequence[T]:
    """Return where a change is made: one of these places, which take turns; in the deep run all."""
    return places if IS_DEEP else [places[sorted(CHANGES).index(name) % len(places)]]


@pytest.fixture(scope="module", autouse=True)
def alone() -> Iterator[None]:
    """Let nights work in memory, in one thread."""
    with in_one_thread():
        yield


@pytest.fixture(scope="module")
def judged() -> Stage:
    """Return an archive whose day was judged nights ago."""
    stage = Stage(until=5)
    stage.world.clock.advance(60)
    stage.site.night(6)
    return stage


@pytest.fixture(scope="module")
def fresh() -> Stage:
    """Return an archive in the night behind the day, which was not published yet."""
    return Stage(until=3)


def is_missed(outcome: Outcome) -> bool:
    """Return whether a fresh audit says something else, and nothing would look."""
    return outcome.differs and not outcome.why


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_after_the_night_is_seen_if_it_matters(judged: Stage, name: str) -> None:
    """Whatever day it is about; what is looked at in vain is at rest in the night after."""
    for offset in days_of(name):
        outcome = judged.copy().after(CHANGES[name], DAY.shift(offset))
        assert not is_missed(outcome), (offset, outcome)
        if outcome.why and not outcome.differs:
            assert name in HARMLESS, (offset, outcome)
            assert not outcome.again, (offset, outcome)


@pytest.mark.parametrize("name", NIGHTLY)
def test_what_changed_before_the_night_is_in_its_verdict(fresh: Stage, name: str) -> None:
    """The pointer says what a fresh audit says, and rests."""
    for offset in in_turn(name, DAYS[:3]):
        outcome = fresh.copy().before(CHANGES[name], DAY.shift(offset))
        assert not is_missed(outcome), (offset, outcome)


@pytest.mark.parametrize("name", NIGHTLY)
def test_a_change_during_the_night_is_in_its_verdict_or_seen_by_the_next(fresh: Stage, name: str) -> None:
    """At whatever request it comes."""
    for at, offset in in_turn(name, ((4, 0), (30, 1), (90, 0))):
        outcome = fresh.copy().during(CHANGES[name], DAY.shift(offset), at)
        assert not is_missed(outcome), (at, outcome)
