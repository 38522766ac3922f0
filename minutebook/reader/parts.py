"""The live parts of a day, as `minutebook follow` wrote them, for readers."""

import hashlib
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from minutebook.errors import ObjectVanished
from minutebook.published.generation import DayFolder, File
from minutebook.published.live import LivePart, decode_live_pointer, live_pointer_key
from minutebook.store.retrying import RetryingStorage


class ReadPart(NamedTuple):
    """One live part: its file, and the keys of its segments."""

    file: File
    segments: frozenset[str]


def read_parts(storage: RetryingStorage, folder: DayFolder) -> tuple[ReadPart, ...]:
    """Return the live parts of a day that count now. Raises FormatError, ObjectVanished."""
    pointer = storage.read(live_pointer_key(folder), lambda stored: decode_live_pointer(stored.body, folder))
    return () if pointer is None else tuple(_read(storage, part) for part in pointer.parts)


def _read(storage: RetryingStorage, part: LivePart) -> ReadPart:
    """Return a part with its segments: by its facts, else by its own rows."""
    file = File(key=part.key, rows=part.rows, bytes=part.bytes)
    facts = storage.get(part.facts) if part.facts else None
    if facts is not None and f"-{hashlib.sha256(facts.body).hexdigest()[:32]}." in part.facts:
        return ReadPart(file, _texts(facts.body, "key"))
    stored = storage.get(part.key)
    if stored is None:
        raise ObjectVanished(
            f"{part.key} is gone", next_step="open the days again: follow or a night has replaced it"
        )
    return ReadPart(file, _texts(stored.body, "segment"))


def _texts(body: bytes, column: str) -> frozenset[str]:
    return frozenset(pq.read_table(pa.BufferReader(body), columns=[column])[column].to_pylist())
