"""A day that was published twice, and vacuum on it."""

import random
from collections.abc import Iterable
from pathlib import Path

from compaction.commands.vacuum.command import PublishedOutput, VacuumReport, vacuum_output
from compaction.publish.publisher import GRACE_MS
from minutebook.clock import SystemClock
from minutebook.published.generation import FACTS_FOLDER
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Storage
from tests.corpus.desk import OUT, Desk
from tests.corpus.model import PREFIX
from tests.fakes.refusing_storage import Refuse, refusing


def twice_published(tmp_path: Path) -> Desk:
    """Return a day that was published twice: a segment came late."""
    desk = Desk(tmp_path)
    desk.compact()
    desk.archive_more()
    desk.compact()
    return desk


def vacuum(
    desk: Desk, *, apply: bool = True, storage: Storage | None = None, later: int = 0, refuse: Refuse = lambda _: None
) -> VacuumReport:
    """Vacuum when all that is there is older than the grace."""
    context = refusing(desk.context(), refuse)
    retrying = RetryingStorage(
        storage or desk.storage, lambda: Backoff(desk.clock, random.Random(1), budget_seconds=10)
    )
    output = PublishedOutput(context.archive, PREFIX, retrying, desk.out.prefix)
    return vacuum_output(output, desk.after_grace_ms() + later, GRACE_MS, apply=apply)


def generation(desk: Desk) -> str:
    """Return the generation that the pointer names."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    return pointer.generation


def keys(desk: Desk) -> set[str]:
    """Return the keys of the output."""
    return {row.key for row in desk.storage.list_objects(OUT)}


def named(desk: Desk) -> set[str]:
    """Return what of the day stays: pointer, manifest and what is beside it, files with their facts, symlinks."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    manifest = desk.publisher().manifest(pointer)
    assert manifest is not None
    folder = desk.publisher().folder
    beside = pointer.manifest.removesuffix(".json")
    return {
        folder.pointer,
        folder.symlinks,
        pointer.manifest,
        pointer.audit,
        f"{beside}.inventory.jsonl.gz",
        f"{beside}.ends.jsonl.gz",
        *(file.key for file in manifest.files),
        *_facts(desk, pointer.generation),
    }


def _facts(desk: Desk, generation: str) -> list[str]:
    folder = f"{desk.publisher().folder.generation(generation)}{FACTS_FOLDER}"
    return [
        key for key in desk.publisher().storage.keys(folder) if len(key.removeprefix(folder)) > len(".parquet") + 64
    ]


def put(desk: Desk, names: Iterable[str], *, age_ms: int = 0) -> list[str]:
    """Write objects below the day's folder; returns their keys."""
    written = [f"{desk.publisher().folder.path}{name}" for name in names]
    for key in written:
        desk.storage.put_if_absent(key, b"left", {}, "x/y")
        desk.age(key, SystemClock().now_ms() - age_ms)
    return written
