"""Archives that an earlier release wrote and published, under this one; and what it reads of this one's days.

The release is d9dabdff: see `tests/data/published-1`.
"""

import tarfile
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compaction.job.context import AuditOptions, JobContext
from compaction.night.days.run import row_of_due
from compaction.night.due import DueDay, do_due, find_due, pointer_word
from compaction.night.rewrite import Compacted, CompactOptions
from minutebook.format.position import Position
from minutebook.published.generation import DayFolder, File, Manifest, Pointer
from minutebook.published.reading import PublishedReader
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.desk import DAY, OUT
from tests.corpus.model import Corpus
from tests.fakes.clock import ManualClock

ARCHIVES: Final = Path(__file__).parents[3] / "data" / "published-1" / "archives.tar.xz"
READ_THEN: Final[dict[type[msgspec.Struct], frozenset[str]]] = {
    Pointer: frozenset(
        (
            "format", "day", "generation", "manifest", "rows", "verdict", "writer", "written_at", "rules", "until",
            "audit",
        )
    ),
    Manifest: frozenset(
        (
            "format", "day", "generation", "files", "rows", "inventory", "verdict", "audit", "ends", "writer",
            "written_at", "removed", "restored", "event_id", "rules", "until", "columns",
        )
    ),
    File: frozenset(("key", "rows", "bytes")),
}  # fmt: skip
"""The fields that d9dabdff knows; it refuses a document with any other one."""


class Found(NamedTuple):
    """An archive and an output, as they were left."""

    folder: Path
    options: CompactOptions
    checkpoints: dict[str, Position]
    clock: ManualClock

    def context(self) -> JobContext:
        """Return the context of a run."""
        return job_context(Address(None, str(self.folder / "raw")), self.checkpoints, clock=self.clock)

    def due(self) -> DueDay:
        """Return what is due of the day."""
        return find_due(self.context(), self.options.out, self.options.audit, 1).by_day[DAY]

    def night(self) -> tuple[DueDay, Compacted, tuple[str, tuple[str, ...], int]]:
        """Do what is due; return what it was, what came of it, and pointer, done and exit code of the day's row."""
        each, context = self.due(), self.context()
        done = do_due(context, each, self.options)
        pointer = pointer_word(context.open(self.options.out.address), OUT, DAY)
        row = row_of_due(each, done, pointer, "unknown")
        return each, done, (row.pointer, tuple(row.done or ()), row.exit_code)

    def rows(self) -> list[tuple[str, str, int]]:
        """Return the rows that readers see."""
        storage = self.context().open(self.options.out.address)
        _, manifest = PublishedReader(storage, DayFolder(OUT, DAY)).published()
        rows = []
        for file in () if manifest is None else manifest.files:
            stored = storage.get(file.key)
            assert stored is not None
            table = pq.ParquetFile(pa.BufferReader(stored.body)).read()
            names = ("shard_id", "sequence_number", "sub_sequence_number")
            rows += [tuple(row[name] for name in names) for row in table.to_pylist()]
        return rows


def found(tmp_path: Path, name: str, event_id: str | None = None) -> Found:
    """Return one of the archives."""
    with tarfile.open(ARCHIVES) as archives:
        archives.extractall(tmp_path, [each for each in archives if each.name.startswith(f"{name}/")], filter="data")
    out = StorePrefix(Address(None, str(tmp_path / name / "out")), OUT)
    audit = AuditOptions(event_id=event_id, published=out, drop_producer_duplicates=event_id is not None)
    checkpoints = dict(Corpus(DAY).checkpoints)
    if name == "unknown":
        checkpoints.pop("shardId-000000000002")
    return Found(tmp_path / name, CompactOptions(audit, out), checkpoints, ManualClock())


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("clean", "clean", ("clean", ("judged again",), 0)),
        ("unknown", "unknown", ("unknown", ("judged again",), 4)),
        ("accepted", "defects", ("defects", ("judged again",), 3)),
        ("lost", "none", ("none", ("blocked",), 3)),
        ("hour", "none", ("clean", ("published",), 0)),
    ],
)
def test_every_verdict_is_equal_or_named(tmp_path: Path, name: str, then: str, now: tuple[object, ...]) -> None:
    """What was published with defects says so until somebody gives a reason; the rows stay."""
    archive = found(tmp_path, name)
    before = archive.rows()
    due, _, row = archive.night()
    assert (due.pointer, row) == (then, now)
    assert due.why
    assert archive.rows() == before or name == "hour"
    assert bool(archive.due().why) == (row[2] != 0)


def test_a_day_without_repeated_events_is_written_again_as_it_was(tmp_path: Path) -> None:
    """What its tasks left has another format; the rows are the same."""
    archive = found(tmp_path, "copies", "n")
    before = archive.rows()
    due, done, row = archive.night()
    assert (due.pointer, row, done.verdict) == ("clean", ("clean", ("rewritten",), 0), "clean")
    assert archive.rows() == before
    assert not archive.due().why


def test_that_release_reads_what_this_one_publishes() -> None:
    """It refuses unknown fields: a new one here has to wait until lenient readers are everywhere."""
    assert {kind: frozenset(kind.__struct_fields__) for kind in READ_THEN} == READ_THEN
