"""Files that no pointer names any more: which of them must stay, and the removal of the rest.

    dt=D/_tables/<generation>.<table>.json    a mark: a table of a catalog may name the files of this generation

A mark is written before a table is given the files, and deleted after the table has been without them for the grace;
so a run that knows nothing of the table never removes what the table's current snapshot names.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from archive.retry import Backoff, until_known
from archive.store.storage import Storage

_TYPE = "application/json"


class Marks:
    """The marks of one day, below `folder`."""

    def __init__(self, storage: Storage, folder: str, waits: Callable[[], Backoff]) -> None:
        self._storage = storage
        self._folder = folder
        self._waits = waits

    def put(self, generation: str, table: str, body: bytes) -> None:
        """Mark a generation for a table, of which `table` is a short name without dots; the first mark stays."""
        key = f"{self._folder}{generation}.{table}.json"
        until_known(lambda: self._storage.put_if_absent(key, body, {}, _TYPE), self._waits(), f"PUT {key}")

    def keep_only(self, generation: str, table: str) -> None:
        """Delete the table's marks of all other generations."""
        ours = [key for key in self._keys() if key.endswith(f".{table}.json")]
        stale = [key for key in ours if self._generation(key) != generation]
        if stale:
            until_known(lambda: self._storage.delete(stale), self._waits(), f"DELETE {self._folder}")

    def generations(self) -> frozenset[str]:
        """Return the generations that some table may name."""
        return frozenset(self._generation(key) for key in self._keys())

    def _keys(self) -> list[str]:
        folder = self._folder
        listed = until_known(lambda: list(self._storage.list_objects(folder)), self._waits(), f"LIST {folder}")
        return [row.key for row in listed]

    def _generation(self, key: str) -> str:
        return key.removeprefix(self._folder).partition(".")[0]


class Kept(NamedTuple):
    """What a sweep leaves alone: files by key, generations by name, and whatever is younger than `before_ms`."""

    files: Iterable[str]
    generations: Iterable[str]
    before_ms: int


def sweep(
    storage: Storage,
    generations: str,
    manifest_key: Callable[[str], str],
    kept: Kept,
    waits: Callable[[], Backoff],
) -> list[str]:
    """Delete the files below `generations` (a prefix that ends where a generation's name begins) but what is kept.

    Manifests go first: a manifest must never name files that are gone, should its generation come again.
    """
    files, marked = frozenset(kept.files), frozenset(kept.generations)
    listed = until_known(lambda: list(storage.list_objects(generations)), waits(), f"LIST {generations}")

    def name(key: str) -> str:
        return key.removeprefix(generations).partition("/")[0]

    old = [
        row.key
        for row in listed
        if row.key not in files and name(row.key) not in marked and row.last_modified_ms < kept.before_ms
    ]
    if old:
        current = {name(key) for key in files}
        manifests = [manifest_key(one) for one in sorted({name(key) for key in old} - current)]
        until_known(lambda: storage.delete(manifests), waits(), "DELETE manifests")
        until_known(lambda: storage.delete(old), waits(), f"DELETE {generations}")
    return old
