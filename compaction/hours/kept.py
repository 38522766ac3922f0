"""The tasks that wrote an hour's files, stored so that the night need not read the hour's lines again.

    dt=D/_hours/HH/_manifest/G-W.tasks.json   each task: its first object, its facts, its part

Facts and part are checked when they are reused (`compaction.tasks.finished`), and a list that does not fit the hour's
objects is ignored.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from minutebook.format.document import decode_document, encode_document
from minutebook.published.generation import DayFolder, Manifest, tasks_beside
from minutebook.store.retrying import RetryingStorage

_FORMAT: Final = 1


class DoneTask(NamedTuple):
    """A finished task: the keys of its first object, its facts (empty: none) and its part."""

    first: str
    facts: str
    part: str


class KeptTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task. `facts` empty: its part is not published, or does not hold all of its objects."""

    first: str
    facts: str = ""


class KeptTasks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All tasks that read an hour's objects, in the order of shard and position."""

    format: int
    generation: str
    tasks: tuple[KeptTask, ...]


def keep_tasks(out: RetryingStorage, folder: DayFolder, manifest: Manifest, done: Iterable[DoneTask]) -> None:
    """Store the tasks beside a manifest, without facts where it does not name the part."""
    parts = frozenset(file.key for file in manifest.files)
    tasks = tuple(KeptTask(task.first, task.facts if task.part in parts else "") for task in done)
    key = tasks_beside(folder.manifest(manifest.generation, manifest.writer))
    out.put_if_absent(key, encode_document(KeptTasks(_FORMAT, manifest.generation, tasks)))


def kept_tasks(out: RetryingStorage, manifest_key: str) -> KeptTasks | None:
    """Read the tasks beside a manifest; None: there are none. Raises FormatError."""
    key = tasks_beside(manifest_key)
    stored = out.get(key)
    return None if stored is None else decode_document(stored.body, KeptTasks, key)
