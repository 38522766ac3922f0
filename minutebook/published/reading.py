"""Read a published day: its pointer, the manifest that it names, and the objects beside the manifest."""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
import structlog

from minutebook.errors import FormatError, SettingsError
from minutebook.format.day import Day
from minutebook.format.document import FORMAT, RESTORE, decode_document
from minutebook.published.generation import (
    FACTS_FOLDER,
    Current,
    DayFolder,
    File,
    Manifest,
    Pointer,
    audit_key,
    contradiction,
    inventory_beside,
    is_judged_by_these_rules,
)
from minutebook.published.inventory import PublishedRow, decode_inventory, inventory_digest
from minutebook.published.judgement import Judgement, decode_judgement
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStore

D = TypeVar("D", Pointer, Manifest)
_DAY_FOLDER: Final = "dt="
_SHOWN: Final = 100
_COMPACT: Final = "run minutebook compact for the day"


class PublishedReader:
    """Reads one published day; raises FormatError, for unknown fields too unless `is_tolerant`."""

    storage: RetryingStore

    def __init__(
        self, storage: RetryingStore, folder: DayFolder, *, is_tolerant: bool = False, next_step: str = RESTORE
    ) -> None:
        self.storage = storage
        self.folder = folder
        self._is_tolerant = is_tolerant
        self._next_step = next_step

    def current(self) -> Current:
        """Read the pointer."""
        key = self.folder.pointer
        current = self.storage.read(key, lambda read: Current(self._pointer(read.body, key), read.etag))
        return current or Current(None, None)

    def published(self) -> tuple[Pointer | None, Manifest | None]:
        """Read the pointer and its manifest, each None if missing; raises FormatError for a contradiction."""
        pointer = self.current().pointer
        manifest = None if pointer is None else self.manifest(pointer)
        if pointer is not None and manifest is not None and (why := contradiction(self.folder, pointer, manifest)):
            raise FormatError(f"{pointer.manifest}: {why}", next_step=_COMPACT)
        return pointer, manifest

    def manifest(self, pointer: Pointer) -> Manifest | None:
        """Read the manifest that a pointer names, without comparing the two."""
        key = pointer.manifest
        if not self.folder.is_beside(key):
            return None
        return self.storage.read(key, lambda stored: self._decode(stored.body, Manifest, key), must_exist=True)

    def manifest_at(self, key: str) -> Manifest | None:
        """Read a manifest of the day, whichever generation the pointer names; None: it is gone."""
        if not self.folder.is_beside(key):
            return None
        return self.storage.read(key, lambda stored: self._decode(stored.body, Manifest, key))

    def audit(self, pointer: Pointer) -> bytes | None:
        """Return the audit with a pointer's verdict; None: it is missing, or the pointer names a key elsewhere."""
        key = audit_key(pointer)
        stored = self.storage.get(key) if self.folder.is_beside(key) else None
        return None if stored is None else stored.body

    def inventory(self, pointer: Pointer) -> Iterator[PublishedRow] | None:
        """Return the raw objects of a pointer's generation, in the order of keys; None if no inventory is stored."""
        return self.inventory_at(inventory_beside(pointer.manifest))

    def inventory_at(self, key: str) -> Iterator[PublishedRow] | None:
        """Return the lines of an inventory, in the order of keys; None if it is not stored."""
        stored = self.storage.get(key) if self.folder.is_beside(key) else None
        return None if stored is None else decode_inventory(stored.body, key, self._next_step)

    def judgement(self, key: str) -> Judgement | None:
        """Return what an audit says of verdict, rows and time; None: the day has no such audit."""
        stored = self.storage.get(key) if self.folder.is_beside(key) else None
        return None if stored is None else decode_judgement(stored.body, key, self._next_step)

    def missing_file(self, manifest: Manifest) -> str | None:
        """Return the key of a published file that is gone or has another size; None if there is none.

        One LIST of the generation's folder.
        """
        return self._missing_of(manifest, self._rows_of(set(), manifest))

    def other_file(self, pointer: Pointer, manifest: Manifest) -> str | None:
        """Return the key of a file that is not the one that was published, by ETag and bytes; None if there is none.

        One LIST. Audits of earlier versions do not say what was published.
        """
        audits = [self.judgement(key) for key in (audit_key(pointer), manifest.audit)]
        return self._other_of(manifest, audits, self._rows_of(set(), manifest), reads=True)

    def _rows_of(self, folders: set[str], manifest: Manifest) -> dict[str, ListedObject]:
        """Return the objects of some folders, and of those of a manifest's files, by key."""
        folders = folders | {f"{file.key.rpartition('/')[0]}/" for file in manifest.files}
        return {row.key: row for folder in folders for row in self.storage.list_objects(folder)}

    def _missing_of(self, manifest: Manifest, rows: Mapping[str, ListedObject]) -> str | None:
        sizes = {key: row.size for key, row in rows.items()}
        return next((file.key for file in manifest.files if sizes.get(file.key) != file.bytes), None)

    def _other_of(
        self, manifest: Manifest, audits: list[Judgement | None], rows: Mapping[str, ListedObject], *, reads: bool
    ) -> str | None:
        """Compare files with the first audit that is about them; that of a run that was held is about others."""
        keys = {file.key for file in manifest.files}
        stated = next((audit.files for audit in audits if audit is not None and audit.files.keys() == keys), {})
        others = [(key, digest) for key, (etag, digest) in stated.items() if key in rows and rows[key].etag != etag]
        return next(
            (key for key, digest in others if not (reads and digest and self._digest_of(key) == digest)), None
        )

    def _digest_of(self, key: str) -> str:
        stored = self.storage.get(key)
        return "" if stored is None else hashlib.sha256(stored.body).hexdigest()

    def is_whole(self, manifest: Manifest) -> bool:
        """Return whether all files of a generation exist with their sizes."""
        return self.missing_file(manifest) is None

    def damage(self, pointer: Pointer, manifest: Manifest, facts: int = 0, *, reads: bool = False) -> str:
        """Return which object of a published day is gone or damaged, and how; empty: what is published is whole.

        The files must be there with their sizes and ETags (`reads`: or with their bytes), the manifest's audit must
        be about as many rows as the manifest, the pointer's audit must give the pointer's verdict, and the inventory
        must be that of the manifest; and so many objects of `facts` must be there. Call it for a manifest that does
        not contradict its pointer.
        """
        try:
            written_ms(pointer)
            folder = self.folder.generation(manifest.generation)
            rows = self._rows_of({folder} if facts else set(), manifest)
            why = self._missing(manifest, facts, rows) or self._misjudged(pointer, manifest, rows, reads=reads)
            return why or self._uncounted(pointer, manifest)
        except FormatError as exc:
            return str(exc)

    def _missing(self, manifest: Manifest, facts: int, rows: Mapping[str, ListedObject]) -> str:
        folder = self.folder.generation(manifest.generation)
        key = self._missing_of(manifest, rows)
        if key is not None:
            return f"{key} is gone, or has another size"
        left = sum(row.startswith(f"{folder}{FACTS_FOLDER}") for row in rows)
        return f"facts below {folder} are gone: {facts - left} of {facts}" if left < facts else ""

    def _misjudged(
        self, pointer: Pointer, manifest: Manifest, rows: Mapping[str, ListedObject], *, reads: bool
    ) -> str:
        key = audit_key(pointer)
        latest = self.judgement(key)
        first = latest if manifest.audit == key else self.judgement(manifest.audit)
        if latest is None or first is None:
            return f"{key if latest is None else manifest.audit} is missing"
        if latest.verdict != pointer.verdict:
            return f"{key} says {latest.verdict}, the pointer {pointer.verdict}"
        if first.rows != manifest.rows:
            return f"{manifest.audit} is about {first.rows} rows, the manifest names files of {manifest.rows}"
        other = self._other_of(manifest, [latest, first], rows, reads=reads)
        return "" if other is None else f"{other} is not the file that was published"

    def _uncounted(self, pointer: Pointer, manifest: Manifest) -> str:
        key, rows = inventory_beside(pointer.manifest), self.inventory(pointer)
        if rows is None:
            return f"{key} is missing"
        is_same = inventory_digest(row[:3] for row in rows) == manifest.inventory
        return "" if is_same else f"{key} holds other objects than the manifest was made of"

    def intact(self, pointer: Pointer) -> Manifest | None:
        """Return the manifest that a pointer names if it is valid; else None.

        It must agree with the pointer and with itself, be judged by today's rules, and be whole (`damage`).
        """
        try:
            manifest = self.manifest(pointer)
            why = "it is missing" if manifest is None else self._objection(pointer, manifest)
        except FormatError as exc:
            why = str(exc)
        if not why:
            return manifest
        structlog.get_logger().warning(
            "published_day_not_trusted",
            day=self.folder.name,
            manifest=pointer.manifest,
            reason=why,
            next_step="the day is read and published again; unless the rules are older, find out who writes there",
        )
        return None

    def _objection(self, pointer: Pointer, manifest: Manifest) -> str:
        if not is_judged_by_these_rules(pointer, manifest):
            return "its verdict was given by older rules"
        why = contradiction(self.folder, pointer, manifest)
        return why or self.damage(pointer, manifest)

    def _pointer(self, body: bytes, key: str) -> Pointer:
        """Decode a pointer; raises FormatError, too, for a name in the day's folder that no object there can have."""
        pointer = self._decode(body, Pointer, key)
        for name in (pointer.manifest, pointer.audit):
            if name.startswith(self.folder.manifests) and not self.folder.is_beside(name):
                shown = f"{name[:_SHOWN]!r}, {len(name.encode()):,} bytes"
                raise FormatError(f"{key} names a key that no run writes: {shown}", next_step=self._next_step)
        return pointer

    def _decode(self, body: bytes, kind: type[D], key: str) -> D:
        known = _without_unknown_fields(body, kind) if self._is_tolerant else body
        return decode_document(known, kind, key, next_step=self._next_step)


def written_ms(pointer: Pointer) -> int:
    """Return since when readers see a pointer's files, in epoch milliseconds; raises FormatError."""
    return _time_of(pointer, "was written at", pointer.written_at)


def published_until_ms(pointer: Pointer) -> int | None:
    """Return how far a pointer reaches, in epoch milliseconds; None: the whole day. Raises FormatError."""
    return None if pointer.until is None else _time_of(pointer, "reaches until", pointer.until)


def _time_of(pointer: Pointer, what: str, text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError as exc:
        raise FormatError(
            f"the pointer of {pointer.day} {what} {text!r}, which is not a time",
            next_step="restore the object from a version of it",
        ) from exc


def is_of_later_version(body: bytes, kind: type[Pointer | Manifest]) -> bool:
    """Return whether a document that does not parse has a later format or unknown fields, so it is not damaged."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    number = fields.get("format")
    return (isinstance(number, int) and number > FORMAT) or not fields.keys() <= set(kind.__struct_fields__)


def _without_unknown_fields(body: bytes, kind: type[Pointer | Manifest]) -> bytes:
    """Return a document without fields that this version does not know; unchanged if it is not an object."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return body
    if isinstance(fields.get("files"), list):
        fields["files"] = [_known(file, File) if isinstance(file, dict) else file for file in fields["files"]]
    return msgspec.json.encode(_known(fields, kind))


def _known(fields: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name in kind.__struct_fields__}


def published_days(storage: RetryingStore, root: str) -> list[Day]:
    """Return the days that have a folder below the output's root, in order."""
    names = (folder.removeprefix(root).rstrip("/") for folder in storage.list_level(root).folders)
    days = (_day_of(name.removeprefix(_DAY_FOLDER)) for name in names if name.startswith(_DAY_FOLDER))
    return sorted(day for day in days if day is not None)


def _day_of(name: str) -> Day | None:
    """Return the day of a folder's name; None for a user's own folder, such as `dt=latest`."""
    try:
        return Day.parse(name)
    except SettingsError:
        return None
