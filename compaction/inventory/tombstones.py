"""The tombstones of expired days: what their segments covered, so that a chain that follows them is whole."""

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from archive.errors import FormatError
from archive.format.day import Day
from archive.format.metadata import Predecessor, parse_predecessor
from archive.format.position import Position, SequenceRange
from archive.format.tombstone import FOLDER, Tombstone, decode_tombstone, tombstone_key
from archive.store.parallel import in_parallel
from archive.store.retrying import RetryingStorage

NEWEST: Final = 30
"""How many tombstones before a day are read."""
_TOMBSTONE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.json", re.ASCII)


def is_expired(storage: RetryingStorage, prefix: str, day: Day) -> bool:
    """Tell whether the day's raw segments were deleted on purpose, or are about to be."""
    return storage.head(key_of(prefix, day)) is not None


def key_of(prefix: str, day: Day) -> str:
    """Return the key of the day's tombstone."""
    return tombstone_key(prefix, dt.date.fromisoformat(str(day)))


class ExpiredBefore(NamedTuple):
    """By shard, the runs that tombstones cover; `unread` are the days whose tombstone cannot be read."""

    runs: Mapping[str, tuple[SequenceRange, ...]] = {}
    unread: tuple[Day, ...] = ()


def expired_before(storage: RetryingStorage, prefix: str, day: Day) -> ExpiredBefore:
    """Return what the newest tombstones before the day cover.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    folder = f"{prefix}{FOLDER}"
    today = f"{folder}{day}.json"
    keys = (row.key for row in storage.list_level(folder).objects if _TOMBSTONE.fullmatch(row.key[len(folder) :]))
    earlier = sorted(key for key in keys if key < today)[-NEWEST:]

    runs: dict[str, list[SequenceRange]] = defaultdict(list)
    found = in_parallel(lambda key: _read(storage, key), earlier)
    unread = [key for key, tombstone in zip(earlier, found, strict=True) if isinstance(tombstone, FormatError)]
    for tombstone in (one for one in found if isinstance(one, Tombstone)):
        for shard_id, shard in tombstone.shards.items():
            runs[shard_id] += [
                SequenceRange(Position.parse(run.first), Position.parse(run.last)) for run in shard.runs
            ]
    return ExpiredBefore(
        {shard_id: tuple(found) for shard_id, found in runs.items()},
        tuple(Day.parse(key[len(folder) : -5]) for key in unread),
    )


def damage_of(storage: RetryingStorage, prefix: str, day: Day) -> str | None:
    """Return why the day's tombstone cannot be read; None when it can."""
    found = _read(storage, key_of(prefix, day))
    return str(found) if isinstance(found, FormatError) else None


class ExpiredRun(NamedTuple):
    """A stretch of a shard's chain that an expired day held without a break, and what came before it."""

    first: Position
    last: Position
    after: Predecessor


class ExpiredDays:
    """The days that were expired, and what each held; a tombstone is read when it is asked for."""

    def __init__(self, storage: RetryingStorage, prefix: str) -> None:
        self._storage = storage
        names = ((row.key, row.key.rpartition("/")[2]) for row in storage.list_level(f"{prefix}{FOLDER}").objects)
        self._keys = {Day.parse(name[:-5]): key for key, name in names if _TOMBSTONE.fullmatch(name)}

    @property
    def days(self) -> AbstractSet[Day]:
        """The days that have a tombstone."""
        return self._keys.keys()

    def runs(self, day: Day) -> dict[str, list[ExpiredRun]]:
        """Return what a day held, by shard; nothing where its tombstone cannot be read."""
        tombstone = _read(self._storage, self._keys[day])
        if isinstance(tombstone, FormatError):
            return {}
        return {
            shard_id: [
                ExpiredRun(Position.parse(run.first), Position.parse(run.last), parse_predecessor(run.after))
                for run in shard.runs
            ]
            for shard_id, shard in tombstone.shards.items()
        }


def _read(storage: RetryingStorage, key: str) -> Tombstone | FormatError:
    """Return a tombstone, or what is wrong with it: other days are judged without it."""
    stored = storage.get(key)
    if stored is None:
        return FormatError(f"{key} was listed and is gone", next_step="find out who deletes objects there")
    try:
        return decode_tombstone(stored.body, key)
    except FormatError as exc:
        return exc
