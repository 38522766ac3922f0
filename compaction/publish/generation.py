"""A generation of a day: the names of its objects, its manifest, and the pointer that makes it current."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from archive.format.day import Day
from compaction.verdict.audit_document import Verdict

FORMAT: Final = 1


class File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One Parquet file: its key below the output's root, rows and bytes."""

    key: str
    rows: int
    bytes: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A generation: its files, and what they were made from. `ends` maps a shard to its last position.

    `removed` counts producer duplicates that were left out, `event_id` says by which path they were recognised;
    `restored` counts dropped lines that were brought back.
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


class Pointer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What readers follow: the current generation and its manifest's key below the output's root."""

    format: int
    day: str
    generation: str
    manifest: str
    rows: int
    verdict: Verdict
    writer: str
    written_at: str


class Current(NamedTuple):
    """The pointer as it was read; both None when the day is not published."""

    pointer: Pointer | None
    etag: str | None


class DayFolder(NamedTuple):
    """Where a day's files are below the output's root."""

    root: str
    day: Day

    @property
    def path(self) -> str:
        """The day's folder."""
        return f"{self.root}dt={self.day}/"

    @property
    def generations(self) -> str:
        """What the keys of the day's files begin with, up to the name of their generation."""
        return f"{self.path}gen="

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
        """Return the folder of a generation's files."""
        return f"{self.path}gen={generation}/"

    def manifest(self, generation: str) -> str:
        """Return the key of a generation's manifest."""
        return f"{self.path}_manifest/{generation}.json"

    def audit(self, generation: str) -> str:
        """Return the key of the audit that allowed a generation."""
        return f"{self.path}_manifest/{generation}.audit.json"

    def inventory(self, generation: str) -> str:
        """Return the key of the inventory that a generation was made from."""
        return f"{self.path}_manifest/{generation}.inventory.jsonl.gz"


def files_of(parts: Sequence[tuple[str, int, int]]) -> tuple[File, ...]:
    """Return the files of (key, rows, bytes), by key."""
    return tuple(File(key=key, rows=rows, bytes=size) for key, rows, size in sorted(parts))
