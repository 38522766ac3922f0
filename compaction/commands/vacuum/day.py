"""Find and delete what nothing names of a published day.

Read first, in this order; only what was listed then is deleted:

    the pointer         what it names stays: manifest, files, audit, inventory, ends, columns
    the inventories     what the day was last published clean with is compared each night (`compaction.audit.gone`)
    the marks           generations that a table may name stay whole (`compaction.publish.sweep`)
    the tombstone       the generation by which the day was expired stays whole: it may be the only copy
    the symlinks        files that Hive and Athena still read stay
    the day's objects   what is younger than the age stays, and what a query may read still

    no pointer, raw objects exist      old objects are left of runs that never published: they are deleted
    no pointer, no raw objects         the output is the only copy and lost its pointer: nothing is deleted
    pointer without its files          the generation before may be the only copy: nothing is deleted
    a tombstone that cannot be read    any generation may be the only copy: nothing is deleted

Manifests are deleted first (none may name missing files), then files, then what is beside manifests.

A pointer may come to name an old audit again when the evidence is again what it was. Therefore vacuum reads the
pointer again after the deletes and restores an audit that it names by then, and `Publisher.swap_pointer` stores its
audit again after the swap: whichever comes last, the audit is there.

Nothing reads the hours that earlier versions published below `_hours/`: whatever old of them a run wrote goes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from compaction.audit.gone import clean_inventory
from compaction.publish.publisher import Publisher
from compaction.publish.sweep import Retained, leftovers
from minutebook.errors import FormatError, SafetyRefusal
from minutebook.format.day import Day
from minutebook.published.generation import (
    DayFolder,
    Manifest,
    Pointer,
    audit_key,
    columns_beside,
    ends_beside,
    inventory_beside,
    is_manifest,
)
from minutebook.store.objects import ListedObject
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Upload

_RESTORE: Final = "restore the object from a version of it, or find out who deletes below the output"


class DayLeftovers(NamedTuple):
    """What of a day goes: manifests, files, objects beside manifests, hours, and unfinished uploads."""

    folder: DayFolder
    manifests: tuple[ListedObject, ...] = ()
    files: tuple[ListedObject, ...] = ()
    beside: tuple[ListedObject, ...] = ()
    hours: tuple[ListedObject, ...] = ()
    uploads: tuple[Upload, ...] = ()

    @property
    def objects(self) -> tuple[ListedObject, ...]:
        """All objects, in the order in which they are deleted."""
        return (*self.manifests, *self.files, *self.beside, *self.hours)

    @property
    def size(self) -> int:
        """Bytes of the objects; the size of uploads is unknown."""
        return sum(row.size for row in self.objects)


FolderLeftovers = DayLeftovers | FormatError | SafetyRefusal
"""What of a folder goes, or why nothing does."""


class RawDays(NamedTuple):
    """What vacuum asks of the archive, of one day at a time.

    `has_objects` returns whether raw objects of a day are there, and `expired_as` the generation by which it was
    expired; empty: it was not. It raises FormatError or SafetyRefusal where that cannot be read.
    """

    has_objects: Callable[[Day], bool]
    expired_as: Callable[[Day], str]


def find_all(
    storage: RetryingStorage, root: str, days: Sequence[Day], before_ms: int, raw: RawDays
) -> list[tuple[DayFolder, FolderLeftovers]]:
    """Return what of each day goes, or why nothing does."""

    def find(folder: DayFolder) -> FolderLeftovers:
        try:
            return find_leftovers(storage, folder, before_ms, raw)
        except (FormatError, SafetyRefusal) as exc:
            return exc

    folders = [DayFolder(root, day) for day in days]
    return list(zip(folders, in_parallel(find, folders), strict=True))


def _split(beside: Sequence[ListedObject]) -> tuple[tuple[ListedObject, ...], tuple[ListedObject, ...]]:
    """Return the manifests, and the objects beside them."""
    manifests = tuple(row for row in beside if is_manifest(row.key))
    return manifests, tuple(row for row in beside if not is_manifest(row.key))


def _old_uploads(storage: RetryingStorage, folder: DayFolder, before_ms: int) -> tuple[Upload, ...]:
    """Return the unfinished uploads of runs that began before a time."""
    return tuple(
        upload
        for upload in storage.open_uploads(folder.path)
        if upload.started_ms < before_ms and folder.is_of_a_run(upload.key)
    )


def find_leftovers(storage: RetryingStorage, folder: DayFolder, before_ms: int, raw: RawDays) -> DayLeftovers:
    """Return what of a day nothing names and is older than `before_ms`. Deletes nothing.

    Raises:
        SafetyRefusal: the output may be the only copy of the day.
        FormatError: the pointer, or the manifest that it names, does not parse or contradicts the other; or the
            tombstone does not parse.
    """
    publisher = Publisher(storage, folder)
    pointer, manifest = publisher.published()
    uploads = _old_uploads(storage, folder, before_ms)
    named = {*_named(pointer, manifest), clean_inventory(publisher, pointer)}
    kept = (publisher.table_marks.generations() | {raw.expired_as(folder.day)}) - {""}
    left = leftovers(storage, folder, Retained(named, kept, before_ms, pointer))
    hours = tuple(
        row
        for row in storage.list_objects(folder.hours)
        if row.last_modified_ms < before_ms and folder.is_of_a_run(row.key)
    )
    if pointer is None and (left.all_files or left.beside or hours) and not raw.has_objects(folder.day):
        raise SafetyRefusal(
            f"{folder.day} has no pointer, and its raw objects are gone: what is here is all there is of it",
            next_step=_RESTORE,
        )
    _check_whole(folder, pointer, manifest, {row.key: row.size for row in left.all_files})
    manifests, beside = _split(left.beside)
    return DayLeftovers(folder, manifests, left.files, beside, hours, uploads)


def delete_leftovers(storage: RetryingStorage, folder: DayFolder, left: DayLeftovers) -> None:
    """Delete leftovers, and restore an audit that the pointer names by then (see the head of this file)."""
    bodies = {row.key: storage.get(row.key) for row in left.beside if row.key.endswith(".json")}
    for rows in (left.manifests, left.files, left.beside, left.hours):
        storage.delete(row.key for row in rows)
    for upload in left.uploads:
        storage.abort_upload(upload)
    if not left.beside:
        return
    pointer = Publisher(storage, folder).current().pointer
    audit = "" if pointer is None else audit_key(pointer)
    stored = bodies.get(audit)
    if stored is not None:
        storage.put_if_absent(audit, stored.body)


def _named(pointer: Pointer | None, manifest: Manifest | None) -> set[str]:
    if pointer is None:
        return set()
    key = pointer.manifest
    named = {key, audit_key(pointer), inventory_beside(key), ends_beside(key), columns_beside(key)}
    if manifest is not None:
        named |= {manifest.audit, *(file.key for file in manifest.files)}
    return named


def _check_whole(
    folder: DayFolder, pointer: Pointer | None, manifest: Manifest | None, sizes: Mapping[str, int]
) -> None:
    if pointer is None:
        return
    if manifest is None:
        raise FormatError(f"{folder.pointer} names {pointer.manifest}, which is missing", next_step=_RESTORE)
    gone = [file.key for file in manifest.files if sizes.get(file.key) != file.bytes]
    if gone:
        raise SafetyRefusal(
            f"{len(gone)} published file(s) of {folder.day} are gone or have another size, such as {gone[0]}",
            next_step="run minutebook compact for the day: what an older generation holds may be needed until then",
        )
