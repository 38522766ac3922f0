"""Files that no pointer names any more: which of them must stay, and the removal of the rest.

    dt=D/_tables/<generation>.<table>.<run>.json    a mark: a table of a catalog may name the files of this generation

A mark is written before a table is given the files, under a name of its own each time, and deleted when the table has
been without them for the grace and the mark is as old; so a run that knows nothing of the table never removes what
the table's current snapshot names, nor what another run is about to give it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from minutebook.published.generation import GENERATIONS, DayFolder, is_manifest
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStorage


class TableMarks:
    """The marks of one day, below `folder`."""

    def __init__(self, storage: RetryingStorage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def put(self, generation: str, table: str, run: str, body: bytes) -> None:
        """Mark a generation for a table, of which `table` is a short name without dots; `run` is new each time."""
        self._storage.put_if_absent(f"{self._folder}{generation}.{table}.{run}.json", body)

    def keep_only(self, generation: str, table: str, before_ms: int) -> None:
        """Delete the table's marks of other generations that were written before a time."""
        self._storage.delete(
            row.key
            for row in self._storage.list_objects(self._folder)
            if row.key.removeprefix(self._folder).split(".")[1:2] == [table]
            and self._generation(row.key) != generation
            and row.last_modified_ms < before_ms
        )

    def generations(self) -> frozenset[str]:
        """Return the generations that some table may name."""
        return frozenset(self._generation(key) for key in self._storage.keys(self._folder))

    def _generation(self, key: str) -> str:
        return key.removeprefix(self._folder).partition(".")[0]


class Retained(NamedTuple):
    """What a sweep leaves alone: the current objects by key, generations by name, and what is not old.

    A generation of which anything was written at `before_ms` or later is not old.
    """

    current: Iterable[str]
    generations: Iterable[str]
    before_ms: int


class Leftovers(NamedTuple):
    """What nothing retains: files of generations, and what lies beside manifests, these included.

    `all_files` are those that are retained, too.
    """

    files: tuple[ListedObject, ...]
    beside: tuple[ListedObject, ...]
    all_files: tuple[ListedObject, ...]


def leftovers(storage: RetryingStorage, folder: DayFolder, retained: Retained) -> Leftovers:
    """Return what of the day's generations is not retained; what others put there under names of theirs stays."""
    files = [
        (folder.generation_of(row.key), row)
        for begin in GENERATIONS
        for row in storage.list_objects(f"{folder.path}{begin}")
    ]
    beside = [(folder.generation_beside(row.key), row) for row in storage.list_objects(folder.manifests)]
    young = {generation for generation, row in [*files, *beside] if row.last_modified_ms >= retained.before_ms}
    stay, current = {*retained.generations, *young}, frozenset(retained.current)

    def old(rows: Iterable[tuple[str, ListedObject]]) -> tuple[ListedObject, ...]:
        return tuple(
            row
            for generation, row in rows
            if generation not in stay and row.key not in current and folder.is_of_a_run(row.key)
        )

    return Leftovers(old(files), old(beside), tuple(row for _, row in files))


def sweep(storage: RetryingStorage, folder: DayFolder, retained: Retained) -> list[str]:
    """Delete the files of the day's generations but what is retained; returns their keys.

    Manifests go first: a manifest must never name files that are gone. Audits and inventories stay.
    """
    found = leftovers(storage, folder, retained)
    storage.delete(row.key for row in found.beside if is_manifest(row.key))
    swept = [row.key for row in found.files]
    storage.delete(swept)
    return swept
