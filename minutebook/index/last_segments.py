"""Where each shard's chain stood when a day was published: a place to look at first, and no proof.

Who needs what lies before a day would list names back in time until a segment of the shard comes, however long the
shard was quiet. A published day says which one it is; whether it is the one that is needed, its metadata tell.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from minutebook.format.day import Day
from minutebook.format.metadata import Predecessor
from minutebook.format.position import Position


class LastSegment(NamedTuple):
    """The segment that stood last in a shard's chain. `is_closed`: the end of the shard was proven by then."""

    key: str
    last: Position
    minute: int
    after: Predecessor
    is_closed: bool = False


LastSegments = Callable[[Day], Mapping[str, LastSegment] | None]
"""Returns them by shard, as a published day says; None where no day is published that can be believed."""


def none_published(day: Day) -> None:
    """Know of no published day."""
    del day
