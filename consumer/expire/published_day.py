"""Read a published day for `expire`: pointer, manifest and inventory, which must agree with each other.

Unknown fields are ignored, so that later versions may add some.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Final, NamedTuple

from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.published.generation import (
    DayFolder,
    Manifest,
    Pointer,
    contradiction,
    inventory_beside,
    is_judged_by_these_rules,
    is_judged_today,
)
from minutebook.published.inventory import inventory_digest
from minutebook.published.reading import PublishedReader
from minutebook.store.retrying import RetryingStore

_NEXT_STEP: Final = "run minutebook compact for the day"


class JudgedGeneration(NamedTuple):
    """A day's current generation. `inventory` maps the keys of the raw objects that it was made from to (ETag, size).

    `until` is the end of the verdict's scope if it is within the day. `missing_file` is a published file that is gone
    or is another one, by its size, or by its ETag and bytes. `manifest` is the manifest's key. If `rules` are older
    than ours, only generation and verdict are read.
    """

    generation: str
    verdict: str
    rules: int
    until: str | None = None
    inventory: Mapping[str, tuple[str, int]] = {}
    missing_file: str | None = None
    manifest: str = ""


def read_judged_generation(store: RetryingStore, root: str, day: dt.date) -> JudgedGeneration | None:
    """Return the current generation of `day` below `root` (empty, or ending in `/`); None if there is none.

    Raises FormatError if pointer, manifest or inventory is missing, does not parse, or contradicts another.
    """
    folder = DayFolder(root, Day.parse(day.isoformat()))
    reader = PublishedReader(store, folder, is_tolerant=True, next_step=_NEXT_STEP)
    pointer = reader.current().pointer
    if pointer is None:
        return None
    if pointer.day != folder.name:
        raise FormatError(f"{folder.pointer} is of day {pointer.day}", next_step=_NEXT_STEP)
    if not is_judged_today(pointer):
        return JudgedGeneration(pointer.generation, pointer.verdict, pointer.rules)
    if not pointer.manifest.startswith(f"{folder.manifests}{pointer.generation}-"):
        raise FormatError(
            f"{folder.pointer} names {pointer.manifest!r}, which is not its manifest", next_step=_NEXT_STEP
        )
    manifest = reader.manifest(pointer)
    if manifest is None:
        raise FormatError(f"{pointer.manifest} is missing", next_step=_NEXT_STEP)
    rows = reader.inventory(pointer)
    if rows is None:
        raise FormatError(f"{inventory_beside(pointer.manifest)} is missing", next_step=_NEXT_STEP)
    inventory = {key: (etag, size) for key, etag, size, _ in rows}
    if not _agree(folder, pointer, manifest, inventory):
        raise FormatError(
            f"{pointer.manifest} contradicts the pointer, its own files, or the inventory beside it",
            next_step=_NEXT_STEP,
        )
    missing = reader.missing_file(manifest) or reader.other_file(pointer, manifest)
    return JudgedGeneration(
        pointer.generation, pointer.verdict, pointer.rules, pointer.until, inventory, missing, pointer.manifest
    )


def _agree(folder: DayFolder, pointer: Pointer, manifest: Manifest, inventory: Mapping[str, tuple[str, int]]) -> bool:
    own = folder.generation(manifest.generation)
    objects = sorted(inventory, key=str.encode)
    return (
        is_judged_by_these_rules(pointer, manifest)
        and not contradiction(folder, pointer, manifest)
        and all(file.key.startswith(own) for file in manifest.files)
        and manifest.inventory == inventory_digest((key, *inventory[key]) for key in objects)
    )
