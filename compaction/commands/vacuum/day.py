"""What of one day nothing names any more, and its removal.

Looked at first, in this order, and only what was seen then is ever deleted:

    the pointer         what it names stays: manifest, files, audit, inventory, ends
    the symlinks        files that Hive and Athena are still shown stay
    the marks           generations that some table may name stay whole (`compaction.publish.sweep`)
    the day's objects   a generation of which anything is younger than the age stays whole: a run may be about to
                        publish it; while the pointer is, everything does: a query may have begun on the one before

    no pointer, raw objects there      what is old is left of runs that never published: it goes
    no pointer, no raw object          somebody removed the pointer of the only copy there is: nothing goes
    pointer without its files          the generation before may be all there is: nothing goes

Deleted are manifests first (one must never name files that are gone), then files, then what lies beside manifests.
What lies in folders of the current generation, and names that nobody of us writes, stay.

A pointer may come to name an old audit again, where the evidence is again what it was. Therefore the pointer is read
once more after the deletes, and an audit that it names by then is put back; who swaps a pointer puts its audit again
behind the swap (`Publisher.swap_pointer`). Whichever comes last, the audit is there.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from compaction.publish.publisher import Publisher
from compaction.publish.sweep import Retained, leftovers
from minutebook.errors import FormatError, SafetyRefusal
from minutebook.format.day import Day
from minutebook.published.generation import (
    DayFolder,
    Manifest,
    Pointer,
    audit_key,
    ends_beside,
    inventory_beside,
    is_manifest,
    tasks_beside,
)
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Upload

_RESTORE: Final = "restore the object from a version of it, or find out who deletes below the output"


class DayLeftovers(NamedTuple):
    """What of a day or hour goes: manifests, files, what lies beside manifests; and uploads that nobody finished."""

    folder: DayFolder
    manifests: tuple[ListedObject, ...] = ()
    files: tuple[ListedObject, ...] = ()
    beside: tuple[ListedObject, ...] = ()
    uploads: tuple[Upload, ...] = ()

    @property
    def objects(self) -> tuple[ListedObject, ...]:
        """All objects, in the order in which they are deleted."""
        return (*self.manifests, *self.files, *self.beside)

    @property
    def size(self) -> int:
        """Bytes of the objects; what uploads hold is not known."""
        return sum(row.size for row in self.objects)


def old_uploads(storage: RetryingStorage, folder: DayFolder, before_ms: int) -> tuple[Upload, ...]:
    """Return what runs began to write before a time, and did not finish."""
    return tuple(
        upload
        for upload in storage.open_uploads(folder.path)
        if upload.started_ms < before_ms and folder.is_of_a_run(upload.key)
    )


def find_leftovers(
    storage: RetryingStorage, folder: DayFolder, before_ms: int, has_raw: Callable[[Day], bool]
) -> DayLeftovers:
    """Return what of a day nothing names, and is older than `before_ms`. Deletes nothing.

    `has_raw` tells whether the archive holds raw objects of a day; it is asked where the day has no pointer.

    Raises:
        SafetyRefusal: what is there may be all there is of the day.
        FormatError: the pointer, or the manifest that it names, does not parse or contradicts the other.
        StoreUnavailable, StoreRefused: the store.
    """
    publisher = Publisher(storage, folder)
    pointer, manifest = publisher.published()
    uploads = old_uploads(storage, folder, before_ms)
    nothing = DayLeftovers(folder, uploads=uploads)
    if pointer is not None and publisher.written_ms(pointer) >= before_ms:
        return nothing
    symlinked = _symlinked(storage, folder)
    marked = publisher.table_marks.generations()
    current = _named(pointer, manifest)
    found = leftovers(storage, folder, Retained(current, marked, before_ms))
    if pointer is None and (found.all_files or found.beside) and not has_raw(folder.day):
        raise SafetyRefusal(
            f"{folder.day} has no pointer, and its raw objects are gone: what is here is all there is of it",
            next_step=_RESTORE,
        )
    _check_whole(folder, pointer, manifest, {row.key: row.size for row in found.all_files})
    files = [
        row
        for row in found.files
        if row.key.removeprefix(folder.root) not in symlinked and not _is_within(folder, row.key, pointer)
    ]
    return DayLeftovers(
        folder,
        tuple(row for row in found.beside if is_manifest(row.key)),
        tuple(files),
        tuple(row for row in found.beside if not is_manifest(row.key)),
        uploads,
    )


def delete_leftovers(storage: RetryingStorage, folder: DayFolder, found: DayLeftovers) -> None:
    """Delete them; see the head of this file. Raises StoreUnavailable, StoreRefused."""
    bodies = {row.key: storage.get(row.key) for row in found.beside if row.key.endswith(".json")}
    for rows in (found.manifests, found.files, found.beside):
        storage.delete(row.key for row in rows)
    for upload in found.uploads:
        storage.abort_upload(upload)
    if not found.beside:
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
    named = {key, audit_key(pointer), inventory_beside(key), ends_beside(key), tasks_beside(key)}
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


def _symlinked(storage: RetryingStorage, folder: DayFolder) -> frozenset[str]:
    """Return the keys, below the output's root, that the symlinks name, wherever the run saw that root."""
    stored = storage.get(folder.symlinks)
    lines = [] if stored is None else stored.body.decode(errors="replace").splitlines()
    return frozenset("/".join(line.strip().rsplit("/", 3)[1:]) for line in lines)


def _is_within(folder: DayFolder, key: str, pointer: Pointer | None) -> bool:
    """Tell whether an object lies in a folder of the current generation: it is about its files, not one of them."""
    if pointer is None or folder.generation_of(key) != pointer.generation:
        return False
    return "/" in key.removeprefix(folder.path).partition("/")[2]
