"""The tombstones of expired days: what their segments covered, so that the segments around join a chain."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from minutebook.errors import FormatError, StoreRefused
from minutebook.format.day import Day
from minutebook.format.metadata import Predecessor
from minutebook.format.position import Position, SequenceRange
from minutebook.format.tombstone import Tombstone, tombstone_key
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import list_tombstones, read_tombstone

NEAREST: Final = 30
"""How many tombstones on each side of a day are read at most."""


class ExpiredSpan(NamedTuple):
    """An unbroken run of a shard's chain in an expired day, what came before it, and the day's first minute."""

    first: Position
    last: Position
    after: Predecessor
    minute: int

    @property
    def span(self) -> SequenceRange:
        """The closed interval of positions that it covers."""
        return SequenceRange(self.first, self.last)

    def __contains__(self, position: object) -> bool:
        return isinstance(position, Position) and position in self.span


class ExpiredNear(NamedTuple):
    """The runs that tombstones cover, by shard and in order; `unread` are the days whose tombstone cannot be read."""

    runs: Mapping[str, tuple[ExpiredSpan, ...]] = {}
    unread: tuple[Day, ...] = ()


def nearest_days(days: Iterable[Day], day: Day) -> list[Day]:
    """Return the expired days whose tombstones count for a day: those nearest to it, on both sides, in order."""
    ordered = sorted(days)
    before, after = [other for other in ordered if other < day], [other for other in ordered if other > day]
    return [*before[-NEAREST:], *after[:NEAREST]]


def expired_near(storage: RetryingStorage, prefix: str, day: Day) -> ExpiredNear:
    """Return what the tombstones nearest to the day cover."""
    days = nearest_days(list_tombstones(storage, prefix), day)
    tombstones, unread = dict[Day, Tombstone](), list[Day]()
    for other, tombstone in zip(days, in_parallel(lambda day: _read(storage, prefix, day), days), strict=True):
        if isinstance(tombstone, FormatError):
            unread.append(other)
        else:
            tombstones[other] = tombstone
    return ExpiredNear(runs_of(tombstones), tuple(unread))


def runs_of(tombstones: Mapping[Day, Tombstone]) -> dict[str, tuple[ExpiredSpan, ...]]:
    """Return what tombstones cover, by shard and in order."""
    runs: dict[str, list[ExpiredSpan]] = defaultdict(list)
    for day, tombstone in tombstones.items():
        for shard_id, spans in _spans(day, tombstone).items():
            runs[shard_id] += spans
    return {shard_id: tuple(sorted(spans, key=_ends)) for shard_id, spans in runs.items()}


def damage_of(storage: RetryingStorage, prefix: str, day: Day) -> str | None:
    """Return why the day's tombstone cannot be read; None when it can."""
    tombstone = _read(storage, prefix, day)
    return str(tombstone) if isinstance(tombstone, FormatError) else None


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
        return {} if isinstance(tombstone, FormatError) else _spans(day, tombstone)


def _ends(span: ExpiredSpan) -> tuple[Position, Position]:
    return span[:2]


def _spans(day: Day, tombstone: Tombstone) -> dict[str, list[ExpiredSpan]]:
    return {
        shard_id: [ExpiredSpan(*run.span, run.predecessor, day.first_minute) for run in shard.runs]
        for shard_id, shard in tombstone.shards.items()
    }


def _read(storage: RetryingStorage, prefix: str, day: Day) -> Tombstone | FormatError:
    """Return a tombstone or, since other days can be judged without it, what is wrong with it."""
    try:
        tombstone = read_tombstone(storage, prefix, day, must_exist=True)
    except FormatError as exc:
        return exc
    except StoreRefused as exc:
        return FormatError(str(exc), next_step=exc.next_step)
    gone = f"{tombstone_key(prefix, day)} was listed and is gone"
    return tombstone or FormatError(gone, next_step="find out who deletes objects there")
