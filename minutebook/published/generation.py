"""A generation of a day: the names of its objects, its manifest, and the pointer that makes it current.

Nothing here is believed because it lies where it should: `contradiction` compares a manifest with the pointer that
names it and with itself, `PublishedReader` looks for its files, and a run compares it with the day's inventory.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from minutebook.format.day import Day, Hour
from minutebook.published.verdict import RULES, Verdict

FORMAT: Final = 1
GENERATION: Final = "_gen-"
"""What the folder of a generation begins with, below the day's."""
GENERATIONS: Final = (GENERATION, "gen=")
"""What the folders of generations begin with: today's layout, and the one before it."""
HOURS: Final = "_hours/"
"""The folder of a day's hours; each of them looks as a day's folder does."""
_MANIFEST, _AUDIT, _TASKS = ".json", ".audit.json", ".tasks.json"
_INVENTORY, _ENDS = ".inventory.jsonl.gz", ".ends.jsonl.gz"
_OF_A_RUN: Final = re.compile(
    r"(_gen-|gen=)[^/]+/((part-[^/]+|_[^/]+/.+)\.parquet|_events/[^/]+\.json)"
    r"|_manifest/([^/.-]+-[^/.]+|[0-9a-f]{16})\.(json|(audit|tasks)\.json|(inventory|ends)\.jsonl\.gz)"
)
"""Names that runs give, below the day's folder; manifests of earlier versions have no writer in theirs."""


class File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One Parquet file: its key below the output's root, rows and bytes."""

    key: str
    rows: int
    bytes: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A generation: its files, and what they were made from. `ends` maps a shard to its last position of the day.

    `removed` counts producer duplicates that were left out, `event_id` says by which path they were recognised;
    `restored` counts dropped lines that were brought back. `rules` are those that the verdict was given by
    (`minutebook.published.verdict`); 1 where none are named. `until` ends the scope of a day so far, in
    ISO 8601; null: the whole day. `columns` maps the payloads' columns to their types; null: the envelope is all.
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
    """What readers follow: the current generation and its manifest's key below the output's root.

    `verdict` is the latest, and `audit` the key of what it was given in. Days that were published by earlier versions
    name none: theirs lies beside the manifest.
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
    """A verdict, and the key of the audit that it was given in."""

    verdict: Verdict
    audit: str


class Current(NamedTuple):
    """The pointer as it was read; both None when the day is not published."""

    pointer: Pointer | None
    etag: str | None


class DayFolder(NamedTuple):
    """Where a day's files are below the output's root, or those of one hour of it."""

    root: str
    day: Day
    hour: Hour | None = None

    @property
    def name(self) -> str:
        """What pointer and manifest call it."""
        return str(self.hour or self.day)

    @property
    def hours(self) -> str:
        """The folder of the day's hours."""
        return f"{self.root}dt={self.day}/{HOURS}"

    @property
    def path(self) -> str:
        """Its folder. Readers of the day's folder pass over that of an hour, as over those of generations."""
        return f"{self.root}dt={self.day}/" if self.hour is None else f"{self.hours}{self.hour.name}/"

    @property
    def tables(self) -> str:
        """The folder of marks: which tables may name which generations."""
        return f"{self.path}_tables/"

    @property
    def pointer(self) -> str:
        """Key of the pointer."""
        return f"{self.path}_current.json"

    @property
    def symlinks(self) -> str:
        """Key of the symlink manifest."""
        return f"{self.root}_symlinks/dt={self.day}/manifest"

    def generation(self, generation: str) -> str:
        """Return the folder of a generation's files.

        Engines that are given the day's folder must not read it, or they would read each generation of the day:
        they pass over names that begin with `_`, Spark unless there is a `=` in it.
        """
        return f"{self.path}{GENERATION}{generation}/"

    def events(self, generation: str) -> str:
        """Return the folder of a generation's rows by the day of their events (`compaction.tables.events`)."""
        return f"{self.generation(generation)}_events/"

    def is_file(self, key: str, generation: str) -> bool:
        """Return whether a key is that of a file of the generation, in today's layout or the one before."""
        folder, _, name = key.rpartition("/")
        return bool(name) and folder in {f"{self.path}{begin}{generation}" for begin in GENERATIONS}

    @property
    def manifests(self) -> str:
        """The folder of manifests, and of what lies beside each."""
        return f"{self.path}_manifest/"

    def manifest(self, generation: str, writer: str) -> str:
        """Return the key of the manifest that a run writes: no two runs share one."""
        return f"{self.manifests}{generation}-{writer}{_MANIFEST}"

    def audit(self, generation: str, evidence: str) -> str:
        """Return the key of the audit of a generation by some evidence."""
        return f"{self.manifests}{generation}-{evidence}{_AUDIT}"

    def generation_of(self, key: str) -> str:
        """Return the generation of a file, by its key."""
        folder = key.removeprefix(self.path).partition("/")[0]
        return next((folder.removeprefix(begin) for begin in GENERATIONS if folder.startswith(begin)), "")

    def is_of_a_run(self, key: str) -> bool:
        """Return whether a key is one that a run gives, and so ours to delete."""
        return _OF_A_RUN.fullmatch(key.removeprefix(self.path)) is not None

    def generation_beside(self, key: str) -> str:
        """Return the generation of a manifest, or of an object beside one, by its key."""
        return key.removeprefix(self.manifests).partition(".")[0].partition("-")[0]


def is_manifest(key: str) -> bool:
    """Tell a manifest's key from the keys beside it."""
    return key.endswith(_MANIFEST) and not key.endswith((_AUDIT, _TASKS))


def audit_key(pointer: Pointer) -> str:
    """Return the key of the audit that gave a pointer's verdict: beside the manifest in earlier versions."""
    return pointer.audit or pointer.manifest.removesuffix(_MANIFEST) + _AUDIT


def inventory_beside(manifest_key: str) -> str:
    """Return the key of the inventory that the generation of a manifest was made from."""
    return manifest_key.removesuffix(_MANIFEST) + _INVENTORY


def tasks_beside(manifest_key: str) -> str:
    """Return the key of what an hour's manifest has beside it: by which tasks its files were written."""
    return manifest_key.removesuffix(_MANIFEST) + _TASKS


def ends_beside(manifest_key: str) -> str:
    """Return the key of what says where each shard's chain stood at the end of a manifest's day."""
    return manifest_key.removesuffix(_MANIFEST) + _ENDS


def contradiction(folder: DayFolder, pointer: Pointer, manifest: Manifest) -> str:
    """Return what speaks against a manifest that a pointer names; empty when nothing does.

    Whether its files exist, and whether it was made of what the day holds now, is not known here.
    """
    said = {
        "day": (folder.name, pointer.day, manifest.day),
        "generation": (pointer.generation, manifest.generation),
        "end of the scope": (pointer.until, manifest.until),
        "rows": (pointer.rows, manifest.rows, sum(file.rows for file in manifest.files)),
    }
    if manifest.rules > 1:
        said["key"] = (pointer.manifest, folder.manifest(manifest.generation, manifest.writer))
    for what, values in said.items():
        if len(set(values)) > 1:
            return f"its {what}: {' and '.join(map(str, values))}"
    keys = [file.key for file in manifest.files]
    if not all(folder.is_file(key, manifest.generation) for key in keys) or len(set(keys)) < len(keys):
        return "it names files outside of its generation, or one of them twice"
    return ""


def is_judged_by_these_rules(pointer: Pointer, manifest: Manifest) -> bool:
    """Return whether the verdict was given by today's rules: an older one is no proof, and the day is judged again."""
    return pointer.rules == manifest.rules == RULES


def is_judged_today(pointer: Pointer) -> bool:
    """Return whether a pointer's verdict was given by today's rules."""
    return pointer.rules == RULES


def files_of(parts: Sequence[tuple[str, int, int]]) -> tuple[File, ...]:
    """Return the files of (key, rows, bytes), by key."""
    return tuple(File(key=key, rows=rows, bytes=size) for key, rows, size in sorted(parts))
