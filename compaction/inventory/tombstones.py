"""The tombstones of expired days: what their segments covered, so that a chain that follows them is whole."""

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.format.metadata import Predecessor, parse_predecessor
from minutebook.format.position import Position, SequenceRange
from minutebook.format.tombstone import Tombstone, tombstone_key
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import list_tombstones, read_tombstone

NEWEST: Final = 30
"""How many tombstones before a day are read."""


class ExpiredBefore(NamedTuple):
    """By shard, the runs that tombstones cover; `unread` are the days whose tombstone cannot be read."""

    runs: Mapping[str, tuple[SequenceRange, ...]] = {}
    unread: tuple[Day, ...] = ()


def expired_before(storage: RetryingStorage, prefix: str, day: Day) -> ExpiredBefore:
    """Return what the newest tombstones before the day cover.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    earlier = sorted(other for other in list_tombstones(storage, prefix) if other < day)[-NEWEST:]
    runs: dict[str, list[SequenceRange]] = defaultdict(list)
    found = in_parallel(lambda other: _read(storage, prefix, other), earlier)
    unread = [other for other, tombstone in zip(earlier, found, strict=True) if isinstance(tombstone, FormatError)]
    for tombstone in (one for one in found if isinstance(one, Tombstone)):
        for shard_id, shard in tombstone.shards.items():
            runs[shard_id] += [
                SequenceRange(Position.parse(run.first), Position.parse(run.last)) for run in shard.runs
            ]
    return ExpiredBefore({shard_id: tuple(found) for shard_id, found in runs.items()}, tuple(unread))


def damage_of(storage: RetryingStorage, prefix: str, day: Day) -> str | None:
    """Return why the day's tombstone cannot be read; None when it can."""
    found = _read(storage, prefix, day)
    return str(found) if isinstance(found, FormatError) else None


class ExpiredSpan(NamedTuple):
    """A stretch of a shard's chain that an expired day held without a break, and what came before it."""

    first: Position
    last: Position
    after: Predecessor


class ExpiredDays:
    """The days that were expired, and what each held; a tombstone is read when it is asked for."""

    def __init__(self, storage: RetryingStorage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix
        self._stored = list_tombstones(storage, prefix)

    @property
    def days(self) -> AbstractSet[Day]:
        """The days that have a tombstone."""
        return self._stored.keys()

    def runs(self, day: Day) -> dict[str, list[ExpiredSpan]]:
        """Return what a day held, by shard; nothing where its tombstone cannot be read."""
        tombstone = _read(self._storage, self._prefix, day)
        if isinstance(tombstone, FormatError):
            return {}
        return {
            shard_id: [
                ExpiredSpan(Position.parse(run.first), Position.parse(run.last), parse_predecessor(run.after))
                for run in shard.runs
            ]
            for shard_id, shard in tombstone.shards.items()
        }


def _read(storage: RetryingStorage, prefix: str, day: Day) -> Tombstone | FormatError:
    """Return a tombstone, or what is wrong with it: other days are judged without it."""
    try:
        tombstone = read_tombstone(storage, prefix, day)
    except FormatError as exc:
        return exc
    gone = f"{tombstone_key(prefix, day)} was listed and is gone"
    return tombstone or FormatError(gone, next_step="find out who deletes objects there")
