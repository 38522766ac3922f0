"""Live parts: a day's rows in Parquet before a night publishes them; `minutebook follow` writes them.

    dt=D/_live/part-*.parquet      rows, maybe with typed columns, under names that are never used again
    dt=D/_live/_facts/*.parquet    the segments of one part, a row each (`compaction.tasks.finished`)
    dt=D/_live/_current.json       If-Match     the live pointer: the parts that count

No segment is in two parts. A day's rows are those of the files that its pointer names, and those of the live parts
whose segments the pointer's inventory does not name (docs/decisions/0047-a-table-minutes-old.md).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from minutebook.errors import FormatError
from minutebook.format.document import decode_document
from minutebook.published.generation import DayFolder

_FOLDER: Final = "_live/"
_ANEW: Final = (
    "restore the object from a version of it; or delete it, and minutebook follow writes the day's parts anew"
)


class LivePart(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its key below the output's root, rows, bytes and SHA-256 in hex.

    `facts` is the key of the facts of its segments; empty: they were lost, and the file itself names its segments.
    `columns` is the digest of the typed columns that it was written by; empty: it has none.
    """

    key: str
    rows: int
    bytes: int
    digest: str
    facts: str = ""
    columns: str = ""


class LivePointer(msgspec.Struct, frozen=True, kw_only=True):
    """The live parts of a day that count. Later versions may add fields.

    `writer` is new each time; `tables` are the UUIDs of those that may name the parts. `columns` are the typed
    columns of its parts, name to type, by their digest.
    """

    format: int
    day: str
    parts: tuple[LivePart, ...]
    writer: str
    written_at: str
    tables: tuple[str, ...] = ()
    columns: Mapping[str, Mapping[str, str]] = MappingProxyType({})


def live_folder(folder: DayFolder) -> str:
    """Return the folder of a day's live parts. Engines that read the day's folder ignore it."""
    return f"{folder.path}{_FOLDER}"


def live_pointer_key(folder: DayFolder) -> str:
    """Return the key of the live pointer."""
    return f"{live_folder(folder)}_current.json"


def decode_live_pointer(body: bytes, folder: DayFolder) -> LivePointer:
    """Parse a live pointer; raises FormatError, also where it names files of another place, or one of them twice.

    So it does where a part was written by columns that it does not tell.
    """
    key, home = live_pointer_key(folder), live_folder(folder)
    pointer = decode_document(body, LivePointer, key, next_step=_ANEW)
    names = [part.key for part in pointer.parts]
    if pointer.day != folder.name or len({*names}) < len(names) or any(not name.startswith(home) for name in names):
        raise FormatError(f"{key} names files outside of its folder, or one of them twice", next_step=_ANEW)
    if any(part.columns and part.columns not in pointer.columns for part in pointer.parts):
        raise FormatError(f"{key} does not tell the columns of its parts", next_step=_ANEW)
    return pointer
