"""The tombstones of expired days (`minutebook.format.tombstone`): which there are, and each of them read."""

import datetime as dt

from minutebook.errors import SettingsError
from minutebook.format.day import Day
from minutebook.format.tombstone import FOLDER, Tombstone, decode_tombstone, tombstone_key
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStore


def is_expired(store: RetryingStore, prefix: str, day: Day) -> bool:
    """Tell whether the day's raw segments were deleted on purpose, or are about to be."""
    return store.head(tombstone_key(prefix, day)) is not None


def list_tombstones(store: RetryingStore, prefix: str) -> dict[Day, ListedObject]:
    """Return the tombstones' objects by their days, in order; what is named otherwise is none."""
    rows = ((_day_of(row.key), row) for row in store.list_objects(f"{prefix}{FOLDER}"))
    return {day: row for day, row in rows if day is not None and row.key == tombstone_key(prefix, day)}


def read_tombstone(store: RetryingStore, prefix: str, day: Day | dt.date) -> Tombstone | None:
    """Return a day's tombstone; None when the day is not expired. Raises FormatError."""
    key = tombstone_key(prefix, day)
    stored = store.get(key)
    return None if stored is None else decode_tombstone(stored.body, key)


def _day_of(key: str) -> Day | None:
    try:
        return Day.parse(key.rpartition("/")[2].removesuffix(".json"))
    except SettingsError:
        return None
