"""A generation of a day: the names of its objects, its manifest, and the pointer that makes it current."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from minutebook.format.day import Day
from minutebook.published.verdict import CLEAN, RULES, Verdict

FORMAT: Final = 1
OUTPUT_FOLDER: Final = "_parquet/"
"""Where days are published by default: below the archive's prefix."""
GENERATION: Final = "_gen-"
"""The prefix of a generation's folder, below the day's."""
FACTS_FOLDER: Final = "_facts/"
"""The folder below a generation's where facts about its objects lie (`compaction.tasks.finished`)."""
GENERATIONS: Final = (GENERATION, "gen=")
"""The prefixes of generations' folders: today's layout, and the one before it."""
_MANIFEST, _AUDIT = ".json", ".audit.json"
_INVENTORY, _ENDS = ".inventory.jsonl.gz", ".ends.jsonl.gz"
_COLUMNS: Final = ".columns.json"
_NAME_BYTES: Final = 200
"""Longer than any name beside a manifest. S3 refuses keys above 1,024 bytes, file systems names above 255."""
_OF_A_RUN: Final = re.compile(
    r"(_hours/[0-9]{2}/)?((_gen-|gen=)[^/]+/((part-[^/]+|_[^/]+/.+)\.parquet|_events/[^/]+\.json)"
    r"|_manifest/([^/.-]+-[^/.]+|[0-9a-f]{16})\.(json|(audit|tasks|columns)\.json|(inventory|ends)\.jsonl\.gz))"
    r"|_hours/[0-9]{2}/_current\.json"
)
"""The names of runs' objects below the day's folder; manifests of earlier versions have no writer in theirs.

Earlier versions also published single hours, below `_hours/`."""


class File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One Parquet file: its key below the output's root, rows and bytes."""

    key: str
    rows: int
    bytes: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A generation: its files and their sources. `ends` maps a shard to its last position of the day.

    `removed` counts producer duplicates left out, recognised by the path `event_id`; `restored` counts dropped lines
    that were restored. `rules` is the version of the verdict's rules (`minutebook.published.verdict`). `until` is the
    end of a day so far, in ISO 8601; null: the whole day. `columns` maps the payloads' columns to their types; null:
    the envelope alone.
    """

    format: int
    day: str
    generation: str
    files: tuple[File, ...]
    rows: int
    inventory: str
    verdict: Verdict
    audit: str
    ends: dict[str, str]
    writer: str
    written_at: str
    removed: int = 0
    restored: int = 0
    event_id: str | None = None
    rules: int = 1
    until: str | None = None
    columns: dict[str, str] | None = None


class Pointer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pointer: the current generation, and its manifest's key below the output's root.

    `verdict` is the latest one, `audit` the key of its audit; in days published by earlier versions `audit` is empty,
    and the audit lies beside the manifest.
    """

    format: int
    day: str
    generation: str
    manifest: str
    rows: int
    verdict: Verdict
    writer: str
    written_at: str
    rules: int = 1
    until: str | None = None
    audit: str = ""


class PointerVerdict(NamedTuple):
    """A verdict, and the key of its audit."""

    verdict: Verdict
    audit: str


class Current(NamedTuple):
    """The pointer and its ETag; both None if the day is not published."""

    pointer: Pointer | None
    etag: str | None


class DayFolder(NamedTuple):
    """The keys of a day's objects, below the output's root."""

    root: str
    day: Day

    @property
    def name(self) -> str:
        """The day as in its pointer and manifest."""
        return str(self.day)

    @property
    def path(self) -> str:
        """The folder. Engines that read it ignore those of generations."""
        return f"{self.root}dt={self.day}/"

    @property
    def hours(self) -> str:
        """The folder of the hours that earlier versions published; only vacuum reads it."""
        return f"{self.path}_hours/"

    @property
    def tables(self) -> str:
        """The folder of marks of tables: which table may refer to which generations."""
        return f"{self.path}_tables/"

    @property
    def pointer(self) -> str:
        """The key of the pointer."""
        return f"{self.path}_current.json"

    @property
    def symlinks(self) -> str:
        """The key of the symlink manifest."""
        return f"{self.root}_symlinks/dt={self.day}/manifest"

    def generation(self, generation: str) -> str:
        """Return the folder of a generation's files.

        Engines that read the day's folder must not read all generations: they ignore names that begin with `_`, Spark
        only those without `=`.
        """
        return f"{self.path}{GENERATION}{generation}/"

    def events(self, generation: str) -> str:
        """Return the folder of a generation's rows by the day of their events (`compaction.tables.events`)."""
        return f"{self.generation(generation)}_events/"

    def is_file(self, key: str, generation: str) -> bool:
        """Return whether a key belongs to a file of the generation, in today's layout or the one before."""
        folder, _, name = key.rpartition("/")
        return bool(name) and folder in {f"{self.path}{begin}{generation}" for begin in GENERATIONS}

    @property
    def manifests(self) -> str:
        """The folder of manifests, and of the objects beside them."""
        return f"{self.path}_manifest/"

    def manifest(self, generation: str, writer: str) -> str:
        """Return the key of a run's manifest: two runs never share one."""
        return f"{self.manifests}{generation}-{writer}{_MANIFEST}"

    def audit(self, generation: str, evidence: str) -> str:
        """Return the key of the audit of a generation with an evidence digest."""
        return f"{self.manifests}{generation}-{evidence}{_AUDIT}"

    def is_beside(self, key: str) -> bool:
        """Return whether a key may be that of a manifest, or of an object beside one: a name as runs make them."""
        name = key.removeprefix(self.manifests)
        return name != key and "/" not in name and name.isprintable() and len(name.encode()) <= _NAME_BYTES

    def generation_of(self, key: str) -> str:
        """Return the generation of a file, by its key."""
        folder = key.removeprefix(self.path).partition("/")[0]
        return next((folder.removeprefix(begin) for begin in GENERATIONS if folder.startswith(begin)), "")

    def is_of_a_run(self, key: str) -> bool:
        """Return whether runs write such a key, so vacuum may delete it."""
        return _OF_A_RUN.fullmatch(key.removeprefix(self.path)) is not None

    def generation_beside(self, key: str) -> str:
        """Return the generation of a manifest, or of an object beside one, by its key."""
        return key.removeprefix(self.manifests).partition(".")[0].partition("-")[0]


def is_manifest(key: str) -> bool:
    """Return whether the key is a manifest's, not that of an object beside one."""
    return key.endswith(_MANIFEST) and not key.endswith((_AUDIT, _COLUMNS))


def is_audit(key: str) -> bool:
    """Return whether the key is an audit's."""
    return key.endswith(_AUDIT)


def is_inventory(key: str) -> bool:
    """Return whether the key is an inventory's."""
    return key.endswith(_INVENTORY)


def audit_key(pointer: Pointer) -> str:
    """Return the key of the audit with a pointer's verdict: beside the manifest in earlier versions."""
    return pointer.audit or pointer.manifest.removesuffix(_MANIFEST) + _AUDIT


def inventory_beside(manifest_key: str) -> str:
    """Return the key of a manifest's inventory."""
    return manifest_key.removesuffix(_MANIFEST) + _INVENTORY


def manifest_beside(inventory_key: str) -> str:
    """Return the key of the manifest that an inventory lies beside."""
    return inventory_key.removesuffix(_INVENTORY) + _MANIFEST


def ends_beside(manifest_key: str) -> str:
    """Return the key of the last segments of each shard at the end of a manifest's day."""
    return manifest_key.removesuffix(_MANIFEST) + _ENDS


def columns_beside(manifest_key: str) -> str:
    """Return the key of the columns that the payloads of a manifest's day were read into."""
    return manifest_key.removesuffix(_MANIFEST) + _COLUMNS


def contradiction(folder: DayFolder, pointer: Pointer, manifest: Manifest) -> str:
    """Return how a manifest contradicts itself or the pointer that names it; empty if it does not.

    This neither checks that its files exist nor compares it with the day's objects.
    """
    pairs = {
        "day": (folder.name, pointer.day, manifest.day),
        "generation": (pointer.generation, manifest.generation),
        "end of the scope": (pointer.until, manifest.until),
        "rows": (pointer.rows, manifest.rows, sum(file.rows for file in manifest.files)),
    }
    if manifest.rules > 1:
        pairs["key"] = (pointer.manifest, folder.manifest(manifest.generation, manifest.writer))
    for what, values in pairs.items():
        if len(set(values)) > 1:
            return f"its {what}: {' and '.join(map(str, values))}"
    keys = [file.key for file in manifest.files]
    if not all(folder.is_file(key, manifest.generation) for key in keys) or len(set(keys)) < len(keys):
        return "it names files outside of its generation, or one of them twice"
    return ""


def is_judged_by_these_rules(pointer: Pointer, manifest: Manifest) -> bool:
    """Return whether pointer and manifest were judged by today's rules: an older verdict is no proof."""
    return pointer.rules == manifest.rules == RULES


def is_judged_today(pointer: Pointer) -> bool:
    """Return whether a pointer's verdict follows today's rules."""
    return pointer.rules == RULES


def proven_verdict(pointer: Pointer, *, has_audit: bool = True) -> Verdict:
    """Return what a pointer's verdict counts for: `clean` by older rules, or without the audit of it, is unknown."""
    is_proven = has_audit and is_judged_today(pointer)
    return pointer.verdict if is_proven or pointer.verdict != CLEAN else "unknown"


def files_of(parts: Sequence[tuple[str, int, int]]) -> tuple[File, ...]:
    """Return the files of (key, rows, bytes), by key."""
    return tuple(File(key=key, rows=rows, bytes=size) for key, rows, size in sorted(parts))
