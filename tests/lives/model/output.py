"""What nights publish, in memory: of each day the pointer, and what lies below its folder; and a table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from compaction.audit.shards.known import EarlierReading
from compaction.publish.publisher import GRACE_MS
from compaction.publish.sweep import Retained, leftovers_of
from compaction.tasks.finished import Reading
from compaction.verdict.audit_document import Audit
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder, File, Manifest, Pointer, audit_key, is_manifest
from minutebook.published.inventory import PublishedRow
from minutebook.store.objects import ListedObject
from tests.lives.model.world import Name

OUT: Final = "tables/"


class PartFile(NamedTuple):
    """A Parquet file: its rows, and when it was written."""

    rows: Mapping[Name, bytes]
    stored_ms: int


class Facts(NamedTuple):
    """A file of facts."""

    readings: tuple[Reading, ...]
    is_later: bool
    stored_ms: int


@dataclass
class DayOutput:
    """One day below the output's root."""

    folder: DayFolder
    pointer: Pointer | None = None
    etag: int = 0
    manifests: dict[str, tuple[Manifest, int]] = field(default_factory=dict)
    inventories: dict[str, tuple[PublishedRow, ...]] = field(default_factory=dict)
    audits: dict[str, tuple[Audit, int]] = field(default_factory=dict)
    files: dict[str, PartFile] = field(default_factory=dict)
    facts: dict[str, dict[str, Facts]] = field(default_factory=dict)
    """By generation and key."""
    symlinks: tuple[str, ...] = ()
    table_marks: dict[tuple[str, str], int] = field(default_factory=dict)
    """When a table was marked, by generation and run."""

    @property
    def manifest(self) -> Manifest | None:
        """The manifest that the pointer names."""
        stored = None if self.pointer is None else self.manifests.get(self.pointer.manifest)
        return None if stored is None else stored[0]

    @property
    def audit(self) -> Audit | None:
        """The audit of the pointer's verdict."""
        stored = None if self.pointer is None else self.audits.get(audit_key(self.pointer))
        return None if stored is None else stored[0]

    def rows(self, manifest: Manifest) -> dict[Name, bytes]:
        """Return the rows of those of a manifest's files that are there."""
        files = [self.files[file.key] for file in manifest.files if file.key in self.files]
        return {name: data for file in files for name, data in file.rows.items()}

    def damage(self, manifest: Manifest, facts: int) -> str:
        """Return what is missing of a published day."""
        gone = [file.key for file in manifest.files if file.key not in self.files]
        if gone:
            return f"{gone[0]} is gone"
        left = len(self.facts.get(manifest.generation, {}))
        return f"facts are gone: {facts - left} of {facts}" if left < facts else ""

    def earlier(self, generation: str, *, is_published: bool) -> list[EarlierReading]:
        """Return the readings that lie in the folder of a generation."""
        return [
            EarlierReading(reading, is_published, facts.is_later)
            for facts in self.facts.get(generation, {}).values()
            for reading in facts.readings
        ]

    def keep(self, generation: str, run: str, readings: Iterable[Reading], stored_ms: int, *, is_later: bool) -> None:
        """Store facts. What is there already is not stored again."""
        new, of_generation = tuple(readings), self.facts.setdefault(generation, {})
        if new and all(new != facts.readings for facts in of_generation.values()):
            key = f"{self.folder.generation(generation)}_facts/{run}-{len(of_generation)}.parquet"
            of_generation[key] = Facts(new, is_later, stored_ms)

    def swap(self, pointer: Pointer, etag: int) -> bool:
        """Swap the pointer, if nobody else has."""
        if etag != self.etag:
            return False
        self.pointer, self.etag = pointer, etag + 1
        return True

    def sweep(self, now_ms: int) -> int:
        """Delete what nothing retains; return how many files."""
        manifest, pointer = self.manifest, self.pointer
        if pointer is None or manifest is None:
            return 0
        if len(self.manifests) == len(self.facts) == 1 and len(self.files) == len(manifest.files):
            return 0  # there is nothing else
        current = [pointer.manifest, *(file.key for file in manifest.files), *self.symlinks]
        marked = {generation for generation, _ in self.table_marks}
        stored: list[tuple[str, PartFile | Facts]] = [*self.files.items()]
        stored += [each for of_generation in self.facts.values() for each in of_generation.items()]
        files = [ListedObject(key, 1, "", each.stored_ms) for key, each in stored]
        beside = [
            ListedObject(key, 1, "", stored_ms)
            for key, (_, stored_ms) in (*self.manifests.items(), *self.audits.items())
        ]
        left = leftovers_of(self.folder, Retained(current, marked, now_ms - GRACE_MS, pointer), files, beside)
        for row in left.beside:
            if is_manifest(row.key):
                del self.manifests[row.key]
        for row in left.files:
            self.files.pop(row.key, None)
            for facts in self.facts.values():
                facts.pop(row.key, None)
        self.facts = {generation: facts for generation, facts in self.facts.items() if facts}
        return len(left.files)


class Outputs:
    """The days."""

    def __init__(self) -> None:
        self.days: dict[Day, DayOutput] = {}

    def of(self, day: Day) -> DayOutput:
        """Return a day."""
        if day not in self.days:
            self.days[day] = DayOutput(DayFolder(OUT, day))
        return self.days[day]


class InTable(NamedTuple):
    """A day in the table."""

    files: tuple[File, ...]
    generation: str
    committed_ms: int


@dataclass
class Table:
    """A table: its days, how many snapshots it had, and until when its catalog does not answer."""

    days: dict[Day, InTable] = field(default_factory=dict)
    snapshots: int = 0
    away_until_ms: int = 0
