"""The tombstones of expired days: what their segments covered, so that a chain that follows them is whole."""

import datetime as dt
from collections import defaultdict
from typing import Final

from archive.errors import FormatError
from archive.format.day import Day
from archive.format.position import Position, SequenceRange
from archive.format.tombstone import FOLDER, Tombstone, decode_tombstone, tombstone_key
from archive.store.retrying import RetryingStorage
from compaction.inventory.inventory import in_parallel

NEWEST: Final = 30
"""How many tombstones before a day are read."""


def is_expired(storage: RetryingStorage, prefix: str, day: Day) -> bool:
    """Tell whether the day's raw segments were deleted on purpose, or are about to be."""
    return storage.head(tombstone_key(prefix, dt.date.fromisoformat(str(day)))) is not None


def expired_before(storage: RetryingStorage, prefix: str, day: Day) -> dict[str, tuple[SequenceRange, ...]]:
    """Return, by shard, the runs that the newest tombstones before the day cover.

    Raises:
        FormatError: a tombstone does not parse.
        StoreUnavailable, StoreRefused: the store.
    """
    folder = f"{prefix}{FOLDER}"
    today = f"{folder}{day}.json"
    earlier = sorted(row.key for row in storage.list_level(folder).objects if row.key < today)[-NEWEST:]

    def read(key: str) -> Tombstone:
        stored = storage.get(key)
        if stored is None:
            raise FormatError(f"{key} was listed and is gone", next_step="find out who deletes objects there")
        return decode_tombstone(stored.body, key)

    runs: dict[str, list[SequenceRange]] = defaultdict(list)
    for tombstone in in_parallel(read, earlier):
        for shard_id, shard in tombstone.shards.items():
            runs[shard_id] += [
                SequenceRange(Position.parse(run.first), Position.parse(run.last)) for run in shard.runs
            ]
    return {shard_id: tuple(found) for shard_id, found in runs.items()}
