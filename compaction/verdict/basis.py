"""What a published verdict rests on, in digests that LISTs alone can make again.

While they are the same, a fresh audit says the same, and a night has nothing to do. What no digest holds (ListShards,
leases, KCL's checkpoints) can only turn a verdict that is not clean, and such a verdict is judged every night.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from minutebook.errors import FormatError
from minutebook.format.keys import check_shard_id
from minutebook.format.minute import minute_path, parse_minute_path
from minutebook.format.position import Position
from minutebook.store.objects import ListedObject

_DIGITS: Final = 16
_AHEAD_MINUTES: Final = 24 * 60
"""So far clocks of hosts may be apart."""
EXPIRED: Final = "expired"
"""In place of the digest of neighbours whose days tombstones cover: the chain goes on at the same position."""


class FolderBasis(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one folder directly below the day; `folder` is empty for those beside the folders.

    `digest` is that of key, size, ETag and LastModified, in the order of keys.
    """

    folder: str
    objects: int
    bytes: int
    digest: str


class ShardBasis(msgspec.Struct, frozen=True, kw_only=True):
    """What was used of one shard's archive outside of the scope: the nearest segments, and that nothing lies between.

    `before` and `after` are digests of the shard's objects from the neighbour on that side to the scope, or empty
    without any; `first_before` and `first_after` are where those neighbours begin (`<sequence>:<sub>`), and
    `minute_before` and `minute_after` their minutes. `stands_on` is the last position before the scope.
    `looks_ahead`: without a neighbour behind the scope, a first one counts whenever it comes. `is_open`: the shard
    was open when the scope ended, so its end does not matter. `proven_ms` is when the first evidence that reaches the
    scope's end was stored; null: nothing does.
    """

    shard: str
    first_before: str = ""
    minute_before: int = 0
    before: str = ""
    stands_on: str = ""
    first_after: str = ""
    minute_after: int = 0
    after: str = ""
    looks_ahead: bool = False
    is_open: bool = False
    proven_ms: int | None = None


class FileBasis(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file of the generation as it was stored. `digest` is the SHA-256 of its bytes; empty: not known."""

    key: str
    etag: str
    digest: str = ""


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What the verdict rests on. `judged_from` is the service's time before the first LIST.

    `generation` is the name that the day's objects and settings gave, `settings` those of event ids and producers'
    numbers, as text. `day_before` are the folders of the day before,
    where event ids are compared with it, and `originals` those outside of the day that hold originals of dropped
    records. `restored` is the digest of the dropped lines that are in the Parquet files. `strangers` are the objects
    beside the scope's edges of shards that nothing else names. The digests of `marks`, `markers`, `skips` and
    `duplicates` are of the evidence that concerns the scope. `facts` are the objects of facts beside the files:
    without them an object that is stored again could not be compared with what it was. `tombstones` is the digest of
    those of the days nearby that were `expired` then. `clean_inventory` is the key of the inventory that the day was
    last published clean with; empty while it is clean, and where it never was.
    `changed_meanwhile`: it changed while it was judged, so the next night judges again. `files` are those of the
    generation.
    """

    judged_from: str
    generation: str
    settings: str
    folders: tuple[FolderBasis, ...]
    day_before: tuple[FolderBasis, ...] = ()
    originals: tuple[FolderBasis, ...] = ()
    restored: str = ""
    shards: tuple[ShardBasis, ...] = ()
    strangers: str = ""
    marks: str = ""
    markers: str = ""
    skips: str = ""
    expired: tuple[str, ...] = ()
    tombstones: str = ""
    duplicates: str = ""
    clean_inventory: str = ""
    facts: int = 0
    changed_meanwhile: bool = False
    files: tuple[FileBasis, ...] = ()


def digest_of(rows: Iterable[ListedObject]) -> str:
    """Return the digest of objects, by key, size, ETag and LastModified; empty without any."""
    return digest_of_lines(f"{row.key}\t{row.size}\t{row.etag}\t{row.last_modified_ms}" for row in rows)


def digest_of_lines(lines: Iterable[str]) -> str:
    """Return the digest of lines, in any order; empty without any."""
    ordered = sorted(line.encode() for line in lines)
    return hashlib.sha256(b"\n".join(ordered)).hexdigest()[:_DIGITS] if ordered else ""


def folder_basis(folder: str, rows: Iterable[ListedObject]) -> FolderBasis:
    """Return what one folder holds."""
    listed = list(rows)
    return FolderBasis(
        folder=folder, objects=len(listed), bytes=sum(row.size for row in listed), digest=digest_of(listed)
    )


def damage_of(basis: Basis, prefix: str, now_minute: int) -> str:
    """Return which of its values cannot be one that was read from an archive; empty: none. So none is followed."""
    for folder in basis.originals:
        try:
            minute = parse_minute_path(f"{folder.folder.removeprefix(prefix)}00")
        except FormatError:
            minute = -1
        if minute < 0 or folder.folder != f"{prefix}{minute_path(minute).removesuffix('00')}":
            return f"{folder.folder!r} is no hour of the archive"
    for shard in basis.shards:
        try:
            check_shard_id(shard.shard)
            for text in filter(None, (shard.first_before, shard.first_after, shard.stands_on)):
                Position.parse(text)
        except FormatError as exc:
            return f"{shard.shard}: {exc}"
        for minute in (shard.minute_before, shard.minute_after):
            if not 0 <= minute <= now_minute + _AHEAD_MINUTES:
                return f"{shard.shard}: {minute} is no minute of the archive"
    return ""


def differences(before: Basis, now: Basis) -> Iterator[str]:
    """Yield what is not as it was, in words; nothing: the verdict stands."""
    if before.changed_meanwhile or now.changed_meanwhile:
        yield "it changed while it was judged"
    if before.settings != now.settings:
        yield f"the settings were {before.settings or 'without event ids'}"
    for name in ("folders", "day_before", "originals"):
        yield from _of_folders(name.replace("_", " "), getattr(before, name), getattr(now, name))
    for name in ("marks", "markers", "skips", "tombstones", "duplicates", "strangers"):
        if getattr(before, name) != getattr(now, name):
            yield f"its {name} are others"
    shards = {shard.shard: shard for shard in now.shards}
    for shard in before.shards:
        other = shards.get(shard.shard)
        if other is None or not _is_same(shard.before, other.before):
            yield f"{shard.shard} is another one before it"
        elif not _is_same(shard.after, other.after):
            yield f"{shard.shard} is another one after it"


def _is_same(before: str, now: str) -> bool:
    """Return whether a neighbour is the same: a tombstone keeps where the chain stood."""
    return before == now or (now == EXPIRED and bool(before))


def _of_folders(what: str, before: Iterable[FolderBasis], now: Iterable[FolderBasis]) -> Iterator[str]:
    names = ", ".join(name or "beside the hours" for name in sorted(_changed(before, now)))
    if names:
        yield f"objects came, went or changed ({what}: {names})"


def _changed(before: Iterable[FolderBasis], now: Iterable[FolderBasis]) -> Iterator[str]:
    earlier = {folder.folder: folder for folder in before if folder.objects}
    later = {folder.folder: folder for folder in now if folder.objects}
    return (name for name in earlier.keys() | later.keys() if earlier.get(name) != later.get(name))
