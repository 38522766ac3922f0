"""Delete the files that no pointer names any more, except those that must stay.

    dt=D/_tables/<generation>.<table>.<run>.json    a mark: a table of a catalog may name the files of this generation

A mark is written, under a new name each time, before a table gets the files, and deleted when the table has not named
them for the grace and the mark is as old. So a run that does not know the table never deletes files that the table's
current snapshot names or that another run is about to commit.
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
        """Mark a generation for a table; `table` is a short name without dots, `run` is new each time."""
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
        """Return the generations that a table may name."""
        return frozenset(self._generation(key) for key in self._storage.keys(self._folder))

    def _generation(self, key: str) -> str:
        return key.removeprefix(self._folder).partition(".")[0]


class Retained(NamedTuple):
    """What a sweep keeps: `current` objects by key, `generations` by name, and those written since `before_ms`."""

    current: Iterable[str]
    generations: Iterable[str]
    before_ms: int


class Leftovers(NamedTuple):
    """What nothing retains: files of generations, and manifests with the objects beside them.

    `all_files` also includes the retained files.
    """

    files: tuple[ListedObject, ...]
    beside: tuple[ListedObject, ...]
    all_files: tuple[ListedObject, ...]


def leftovers(storage: RetryingStorage, folder: DayFolder, retained: Retained) -> Leftovers:
    """Return what of the day's generations is not retained. Objects under names that no run writes stay."""
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
    """Delete the files of the day's generations that are not retained; return their keys.

    Manifests go first, so that none names missing files. Audits and inventories stay.
    """
    left = leftovers(storage, folder, retained)
    storage.delete(row.key for row in left.beside if is_manifest(row.key))
    files = [row.key for row in left.files]
    storage.delete(files)
    return files
