"""What the nightly job published of a day, as far as others must know: the verdict, and what it was given for.

    dt=D/_current.json                          the pointer: generation and verdict
    dt=D/_manifest/<generation>.inventory.jsonl.gz   one line [key, ETag, size, last modified] per raw object

Only these two are read, and fields that are not needed may be added to them.
"""

import datetime as dt
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from archive.errors import FormatError
from archive.format.document import decode_document
from archive.format.segment import inflate
from archive.store.retrying import RetryingStore

_COMPACT: Final = "run minutebook compact for the day"
CLEAN: Final = "clean"


class PublishedDay(NamedTuple):
    """A day's current generation. `inventory` maps the key of each raw object behind it to (ETag, size)."""

    generation: str
    verdict: str
    inventory: Mapping[str, tuple[str, int]]


class _Pointer(msgspec.Struct):
    format: int
    day: str
    generation: str
    verdict: str


def read_published(store: RetryingStore, root: str, day: dt.date) -> PublishedDay | None:
    """Return what is published of `day` below `root` (empty, or ending in `/`); None when nothing is.

    Raises:
        FormatError: the pointer or the inventory does not parse, or the inventory is missing.
        StoreUnavailable, StoreRefused: the store.
    """
    folder = f"{root}dt={day.isoformat()}/"
    key = f"{folder}_current.json"
    stored = store.get(key)
    if stored is None:
        return None
    pointer = decode_document(stored.body, _Pointer, key, next_step=_COMPACT)
    if pointer.day != day.isoformat():
        raise FormatError(f"{key} is of day {pointer.day}", next_step=_COMPACT)
    inventory = _read_inventory(store, f"{folder}_manifest/{pointer.generation}.inventory.jsonl.gz")
    return PublishedDay(pointer.generation, pointer.verdict, inventory)


def _read_inventory(store: RetryingStore, key: str) -> dict[str, tuple[str, int]]:
    stored = store.get(key)
    if stored is None:
        raise FormatError(f"{key} is missing", next_step=_COMPACT)
    try:
        rows = [msgspec.json.decode(line, type=tuple[str, str, int, int]) for line in inflate([stored.body])]
    except (msgspec.MsgspecError, UnicodeDecodeError, zlib.error) as exc:
        raise FormatError(f"{key} does not parse: {exc}", next_step=_COMPACT) from exc
    return {row[0]: (row[1], row[2]) for row in rows}
