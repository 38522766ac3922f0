"""What the nightly job published of a day, as far as others must know: the verdict, and what it was given for.

    dt=D/_current.json                   the pointer: generation, verdict, and the manifest's key
    dt=D/_manifest/G-W.json              the manifest: the files of generation G, with rows and bytes (W: its writer)
    dt=D/_gen-G/                         the files
    dt=D/_manifest/G-W.inventory.jsonl.gz   one line [key, ETag, size, last modified] per raw object

Only these are read, and fields that are not needed may be added to them. They are read by who deletes raw objects for
their sake, so each must bear the others out: day, generation, rows, the inventory's digest, and files that lie in the
generation's own folder.
"""

import datetime as dt
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from archive.errors import FormatError
from archive.format.document import decode_document
from archive.format.segment import inflate
from archive.store.retrying import RetryingStore

CLEAN: Final = "clean"
GENERATION: Final = "_gen-"
"""What the folder of a generation begins with, below the day's."""
RULES: Final = 2
"""The rules that verdicts are given by; 1 where none are named. Nobody deletes on a verdict by older rules."""
_NEXT_STEP: Final = "run minutebook compact for the day"


class PublishedFile(msgspec.Struct, frozen=True):
    """One Parquet file of a generation, its key below the store's root."""

    key: str
    rows: int
    bytes: int


class PublishedDay(NamedTuple):
    """A day's current generation. `inventory` maps the key of each raw object behind it to (ETag, size).

    `until` ends the scope of the verdict within the day; None: it is about the whole day. With older `rules` than
    ours, nothing but generation and verdict is read.
    """

    generation: str
    verdict: str
    rules: int
    until: str | None = None
    inventory: Mapping[str, tuple[str, int]] = {}
    files: tuple[PublishedFile, ...] = ()


class _Pointer(msgspec.Struct):
    format: int
    day: str
    generation: str
    verdict: str
    manifest: str = ""
    rows: int = -1
    rules: int = 1
    until: str | None = None


class _Manifest(msgspec.Struct):
    format: int
    day: str
    generation: str
    inventory: str
    rows: int
    files: tuple[PublishedFile, ...]
    rules: int = 1
    until: str | None = None


def digest_of(objects: Iterable[tuple[str, str, int]], *salt: str) -> str:
    """Return the hash of (key, ETag, size) in the order of keys, and of `salt`: 64 hex digits."""
    found = hashlib.sha256("\n".join(salt).encode())
    for key, etag, size in objects:
        found.update(f"\n{key}\t{etag}\t{size}".encode())
    return found.hexdigest()


def read_published(store: RetryingStore, root: str, day: dt.date) -> PublishedDay | None:
    """Return what is published of `day` below `root` (empty, or ending in `/`); None when nothing is.

    Raises:
        FormatError: the pointer, the manifest or the inventory is missing, does not parse, or contradicts another.
        StoreUnavailable, StoreRefused: the store.
    """
    folder = f"{root}dt={day.isoformat()}/"
    key = f"{folder}_current.json"
    stored = store.get(key)
    if stored is None:
        return None
    pointer = decode_document(stored.body, _Pointer, key, next_step=_NEXT_STEP)
    if pointer.day != day.isoformat():
        raise FormatError(f"{key} is of day {pointer.day}", next_step=_NEXT_STEP)
    if pointer.rules != RULES:
        return PublishedDay(pointer.generation, pointer.verdict, pointer.rules)
    if not pointer.manifest.startswith(f"{folder}_manifest/{pointer.generation}-"):
        raise FormatError(f"{key} names {pointer.manifest!r}, which is not its manifest", next_step=_NEXT_STEP)
    manifest = decode_document(_get(store, pointer.manifest), _Manifest, pointer.manifest, next_step=_NEXT_STEP)
    inventory = _read_inventory(store, pointer.manifest.removesuffix(".json") + ".inventory.jsonl.gz")
    if not _agree(folder, pointer, manifest, inventory):
        raise FormatError(
            f"{pointer.manifest} contradicts the pointer, its own files, or the inventory beside it",
            next_step=_NEXT_STEP,
        )
    return PublishedDay(pointer.generation, pointer.verdict, pointer.rules, pointer.until, inventory, manifest.files)


def _agree(folder: str, pointer: _Pointer, manifest: _Manifest, inventory: Mapping[str, tuple[str, int]]) -> bool:
    own = f"{folder}{GENERATION}{pointer.generation}/"
    objects = sorted(inventory, key=str.encode)
    return (
        (manifest.day, manifest.generation, manifest.rules, manifest.until)
        == (pointer.day, pointer.generation, pointer.rules, pointer.until)
        and pointer.rows == manifest.rows == sum(file.rows for file in manifest.files)
        and all(file.key.startswith(own) and "/" not in file.key.removeprefix(own) for file in manifest.files)
        and manifest.inventory == digest_of((key, *inventory[key]) for key in objects)
    )


def _get(store: RetryingStore, key: str) -> bytes:
    stored = store.get(key)
    if stored is None:
        raise FormatError(f"{key} is missing", next_step=_NEXT_STEP)
    return stored.body


def _read_inventory(store: RetryingStore, key: str) -> dict[str, tuple[str, int]]:
    try:
        rows = [msgspec.json.decode(line, type=tuple[str, str, int, int]) for line in inflate([_get(store, key)])]
    except (msgspec.MsgspecError, UnicodeDecodeError, zlib.error) as exc:
        raise FormatError(f"{key} does not parse: {exc}", next_step=_NEXT_STEP) from exc
    return {row[0]: (row[1], row[2]) for row in rows}
