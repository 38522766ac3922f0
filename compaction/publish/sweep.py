"""Files that no pointer names any more: which of them must stay, and the removal of the rest.

    dt=D/_tables/<generation>.<table>.json    a mark: a table of a catalog may name the files of this generation

A mark is written before a table is given the files, and deleted after the table has been without them for the grace;
so a run that knows nothing of the table never removes what the table's current snapshot names.
"""

from collections.abc import Iterable
from typing import NamedTuple

from archive.store.retrying import RetryingStorage
from compaction.publish.generation import DayFolder


class TableMarks:
    """The marks of one day, below `folder`."""

    def __init__(self, storage: RetryingStorage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def put(self, generation: str, table: str, body: bytes) -> None:
        """Mark a generation for a table, of which `table` is a short name without dots; the first mark stays."""
        self._storage.put_if_absent(f"{self._folder}{generation}.{table}.json", body)

    def keep_only(self, generation: str, table: str) -> None:
        """Delete the table's marks of all other generations."""
        ours = [key for key in self._storage.keys(self._folder) if key.endswith(f".{table}.json")]
        self._storage.delete(key for key in ours if self._generation(key) != generation)

    def generations(self) -> frozenset[str]:
        """Return the generations that some table may name."""
        return frozenset(self._generation(key) for key in self._storage.keys(self._folder))

    def _generation(self, key: str) -> str:
        return key.removeprefix(self._folder).partition(".")[0]


class Retained(NamedTuple):
    """What a sweep leaves alone: files by key, generations by name, and whatever is younger than `before_ms`."""

    files: Iterable[str]
    generations: Iterable[str]
    before_ms: int


def sweep(storage: RetryingStorage, folder: DayFolder, retained: Retained) -> list[str]:
    """Delete the files of the day's generations but what is retained; returns their keys.

    Manifests go first: a manifest must never name files that are gone, should its generation come again.
    """
    files, marked = frozenset(retained.files), frozenset(retained.generations)

    def name(key: str) -> str:
        return key.removeprefix(folder.generations).partition("/")[0]

    old = [
        row.key
        for row in storage.list_objects(folder.generations)
        if row.key not in files and name(row.key) not in marked and row.last_modified_ms < retained.before_ms
    ]
    replaced = {name(key) for key in old} - {name(key) for key in files}
    storage.delete(folder.manifest(generation) for generation in sorted(replaced))
    storage.delete(old)
    return old
