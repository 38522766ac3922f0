"""The tombstones of expired days: what their segments covered, so that later segments still join a chain."""

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
"""How many tombstones before a day are read at most."""


class ExpiredBefore(NamedTuple):
    """The runs that tombstones cover, by shard; `unread` are the days whose tombstone cannot be read."""

    runs: Mapping[str, tuple[SequenceRange, ...]] = {}
    unread: tuple[Day, ...] = ()


def expired_before(storage: RetryingStorage, prefix: str, day: Day) -> ExpiredBefore:
    """Return what the newest tombstones before the day cover."""
    days = sorted(other for other in list_tombstones(storage, prefix) if other < day)[-NEWEST:]
    runs: dict[str, tuple[SequenceRange, ...]] = {}
    unread = []
    for other, tombstone in zip(days, in_parallel(lambda day: _read(storage, prefix, day), days), strict=True):
        if isinstance(tombstone, FormatError):
            unread.append(other)
            continue
        for shard_id, shard in tombstone.shards.items():
            ranges = (SequenceRange(Position.parse(run.first), Position.parse(run.last)) for run in shard.runs)
            runs[shard_id] = (*runs.get(shard_id, ()), *ranges)
    return ExpiredBefore(runs, tuple(unread))


def damage_of(storage: RetryingStorage, prefix: str, day: Day) -> str | None:
    """Return why the day's tombstone cannot be read; None when it can."""
    tombstone = _read(storage, prefix, day)
    return str(tombstone) if isinstance(tombstone, FormatError) else None


class ExpiredSpan(NamedTuple):
    """An unbroken run of a shard's chain in an expired day, and what came before it."""

    first: Position
    last: Position
    after: Predecessor


class ExpiredDays:
    """The expired days and what each held; a day's tombstone is read on demand."""

    def __init__(self, storage: RetryingStorage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix
        self._stored = list_tombstones(storage, prefix)

    @property
    def days(self) -> AbstractSet[Day]:
        """The days that have a tombstone."""
        return self._stored.keys()

    def runs(self, day: Day) -> dict[str, list[ExpiredSpan]]:
        """Return what a day held, by shard; empty where its tombstone cannot be read."""
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
    """Return a tombstone or, since other days can be judged without it, what is wrong with it."""
    try:
        tombstone = read_tombstone(storage, prefix, day, must_exist=True)
    except FormatError as exc:
        return exc
    gone = f"{tombstone_key(prefix, day)} was listed and is gone"
    return tombstone or FormatError(gone, next_step="find out who deletes objects there")
