"""Delete the files that no pointer names any more, except those that must stay.

    dt=D/_tables/<generation>.<table>.<run>.json    a mark: a table of a catalog may name the files of this generation

A mark is written, under a new name each time, before a table gets the files, and deleted when the table has not named
them for the grace and the mark is as old. So a run that does not know the table never deletes files that the table's
current snapshot names or that another run is about to commit.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from minutebook.errors import StoreRefused
from minutebook.published.generation import GENERATIONS, DayFolder, Pointer, audit_key, is_audit, is_manifest
from minutebook.published.reading import written_ms
from minutebook.store.objects import ListedObject, ObjectHead
from minutebook.store.retrying import RetryingStorage

_SWAP_MS: Final = 3_600_000
"""Longer than a run takes from storing an audit to the swap of the pointer."""


class TableMarks:
    """The marks of one day, below `folder`."""

    def __init__(self, storage: RetryingStorage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def put(self, generation: str, table: str, run: str, body: bytes) -> None:
        """Mark a generation for a table; `table` is a short name without dots, `run` is new each time."""
        self._storage.put_if_absent(f"{self._folder}{generation}.{table}.{run}.json", body)

    def keep_only(self, generation: str, tables: Collection[str], before_ms: int) -> None:
        """Delete marks of other generations, under these names of a table, that were written before a time."""
        self._storage.delete(
            row.key
            for row in self._storage.list_objects(self._folder)
            if any(row.key.removeprefix(self._folder).split(".")[1:2] == [table] for table in tables)
            and self._generation(row.key) != generation
            and row.last_modified_ms < before_ms
        )

    def generations(self) -> frozenset[str]:
        """Return the generations that a table may name."""
        return frozenset(self._generation(key) for key in self._storage.keys(self._folder))

    def _generation(self, key: str) -> str:
        return key.removeprefix(self._folder).partition(".")[0]


class Retained(NamedTuple):
    """What a sweep keeps: `current` objects by key, `generations` by name, and what was written since `before_ms`.

    `pointer` is the day's, as it was read before anything else; None: the day is not published.
    """

    current: Iterable[str]
    generations: Iterable[str]
    before_ms: int
    pointer: Pointer | None = None


class Leftovers(NamedTuple):
    """What nothing retains: files of generations, and manifests with the objects beside them.

    `all_files` also includes the retained files.
    """

    files: tuple[ListedObject, ...]
    beside: tuple[ListedObject, ...]
    all_files: tuple[ListedObject, ...]


def leftovers(storage: RetryingStorage, folder: DayFolder, retained: Retained) -> Leftovers:
    """Return what of the day's generations is not retained.

    what the caller names ................................. stays
    files that the symlinks name .......................... stay, under whatever address of the output
    folders within that of the pointer's generation ....... stay: facts that the next run reads, files of tables
    a generation with anything young but audits ........... stays whole: a run may be about to publish it
    everything, while the pointer's generation is young ... stays: a query may have begun on the one before
    names that no run writes .............................. stay

    A generation was replaced when that of the pointer was published: when its manifest was stored, or at the time
    `written_at` in the pointer, or when a person put the pointer back, whichever is the latest. A new verdict changes
    none of them (`Publisher.swap_pointer`).
    """
    linked, pointer = symlinked(storage, folder), retained.pointer
    put_ms = 0 if pointer is None else put_back_ms(storage, folder, pointer)
    files = [row for begin in GENERATIONS for row in storage.list_objects(f"{folder.path}{begin}")]
    retained = retained._replace(current=[*retained.current, *linked])
    return leftovers_of(folder, retained, files, list(storage.list_objects(folder.manifests)), put_ms)


def leftovers_of(
    folder: DayFolder,
    retained: Retained,
    listed: Iterable[ListedObject],
    listed_beside: Iterable[ListedObject],
    put_ms: int = 0,
) -> Leftovers:
    """Return what is not retained of listed files of generations, and of manifests and what is beside them. Pure.

    `put_ms` is when a person put the pointer back.
    """
    pointer, before_ms = retained.pointer, retained.before_ms
    files = [(folder.generation_of(row.key), row) for row in listed]
    beside = [(folder.generation_beside(row.key), row) for row in listed_beside]
    all_files = tuple(row for _, row in files)
    young = {
        generation
        for generation, row in [*files, *beside]
        if row.last_modified_ms >= before_ms and not is_audit(row.key)
    }
    if pointer is not None:
        stored_ms = (row.last_modified_ms for _, row in beside if row.key == pointer.manifest)
        if max(written_ms(pointer), put_ms, *stored_ms) >= before_ms:
            return Leftovers((), (), all_files)
    stay, current = {*retained.generations, *young}, set(retained.current)

    def old(rows: Iterable[tuple[str, ListedObject]]) -> tuple[ListedObject, ...]:
        return tuple(
            row
            for generation, row in rows
            if generation not in stay
            and row.last_modified_ms < before_ms
            and row.key not in current
            and not _is_within(folder, row.key, pointer)
            and folder.is_of_a_run(row.key)
        )

    return Leftovers(old(files), old(beside), all_files)


def put_back_ms(storage: RetryingStorage, folder: DayFolder, pointer: Pointer) -> int:
    """Return when a person put a pointer back, in epoch milliseconds; 0: a run wrote it, just after its audit."""
    head, audit = storage.head(folder.pointer), _head(storage, audit_key(pointer))
    if head is None or (audit is not None and audit.last_modified_ms >= head.last_modified_ms - _SWAP_MS):
        return 0
    return head.last_modified_ms


def _head(storage: RetryingStorage, key: str) -> ObjectHead | None:
    """Return the head of an object; None also where the store refuses it: files then stay for longer."""
    try:
        return storage.head(key)
    except StoreRefused:
        return None


def symlinked(storage: RetryingStorage, folder: DayFolder) -> frozenset[str]:
    """Return the keys that the symlinks name, whatever the address of the output was when they were written."""
    stored = storage.get(folder.symlinks)
    lines = [] if stored is None else stored.body.decode(errors="replace").splitlines()
    return frozenset(folder.root + "/".join(line.strip().rsplit("/", 3)[1:]) for line in lines)


def _is_within(folder: DayFolder, key: str, pointer: Pointer | None) -> bool:
    """Return whether an object is in a folder within that of the pointer's generation."""
    if pointer is None or folder.generation_of(key) != pointer.generation:
        return False
    return "/" in key.removeprefix(folder.path).partition("/")[2]


def sweep(storage: RetryingStorage, folder: DayFolder, retained: Retained) -> list[str]:
    """Delete the files of the day's generations that are not retained; return their keys.

    Manifests go first, so that none names missing files. Audits and inventories stay.
    """
    left = leftovers(storage, folder, retained)
    storage.delete(row.key for row in left.beside if is_manifest(row.key))
    files = [row.key for row in left.files]
    storage.delete(files)
    return files
