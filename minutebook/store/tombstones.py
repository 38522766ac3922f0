"""List and read the tombstones of expired days (`minutebook.format.tombstone`)."""

import datetime as dt

from minutebook.errors import SettingsError
from minutebook.format.day import Day
from minutebook.format.tombstone import FOLDER, Tombstone, decode_tombstone, tombstone_key
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStore


def is_expired(store: RetryingStore, prefix: str, day: Day) -> bool:
    """Return whether `minutebook expire` deletes or has deleted the day's raw segments."""
    return store.head(tombstone_key(prefix, day)) is not None


def list_tombstones(store: RetryingStore, prefix: str) -> dict[Day, ListedObject]:
    """Return the tombstones' objects by day, in order; objects with other names are ignored."""
    rows = ((_day_of(row.key), row) for row in store.list_objects(f"{prefix}{FOLDER}"))
    return {day: row for day, row in rows if day is not None and row.key == tombstone_key(prefix, day)}


def read_tombstone(
    store: RetryingStore, prefix: str, day: Day | dt.date, *, must_exist: bool = False
) -> Tombstone | None:
    """Return a day's tombstone; None if the day is not expired. Raises FormatError. `must_exist`: it was listed."""
    return read_tombstone_at(store, tombstone_key(prefix, day), must_exist=must_exist)


def read_tombstone_at(store: RetryingStore, key: str, *, must_exist: bool) -> Tombstone | None:
    """Return the tombstone at a key; see `read_tombstone`."""
    return store.read(key, lambda stored: decode_tombstone(stored.body, key), must_exist=must_exist)


def _day_of(key: str) -> Day | None:
    try:
        return Day.parse(key.rpartition("/")[2].removesuffix(".json"))
    except SettingsError:
        return None
