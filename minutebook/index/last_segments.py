"""The last segment of each shard when a day was published: a hint for searches, and no proof.

Without it, a search for the segments before a day would list names back in time until one of the shard comes, however
long the shard was quiet. The metadata of the named segment show whether it is the right one.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from minutebook.format.day import Day
from minutebook.format.metadata import Predecessor
from minutebook.format.position import Position


class LastSegment(NamedTuple):
    """The last segment of a shard's chain. `is_closed`: the end of the shard was proven by then."""

    key: str
    last: Position
    minute: int
    after: Predecessor
    is_closed: bool = False


LastSegments = Callable[[Day], Mapping[str, LastSegment] | None]
"""Returns them by shard for a published day; None if the day is not published, or not with a trusted verdict."""


def none_published(day: Day) -> None:
    """Return None: no day has been published."""
    del day
