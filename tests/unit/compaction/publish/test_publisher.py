"""Publishing: one winner, nothing doubled, and a crash after any request leaves a day that readers can read."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from archive.clock import SystemClock
from archive.errors import SafetyRefusal
from archive.format.day import Day
from archive.store.places import StorePrefix, open_storage
from archive.store.retrying import RetryingStorage
from archive.store.storage import Address, Storage
from compaction.job.context import AuditOptions, JobContext
from compaction.publish.generation import DayFolder
from compaction.publish.publisher import GRACE_MS, Publisher
from compaction.rewrite import Compacted, CompactOptions, compact_day
from compaction.tasks.task import Order, TaskResult
from tests.corpus.auditing import in_process, job_context
from tests.corpus.chain_defects import overlapping_segments
from tests.corpus.model import PREFIX, Corpus, make_segment
from tests.corpus.object_defects import truncated_object
from tests.fakes.clock import ManualClock
from tests.fakes.failing_storage import Crash, FailingStorage

DAY = Day.parse("2026-11-20")


class Desk:
    """An archive and an output in two folders, and runs on them."""

    def __init__(self, folder: Path, corpus: Corpus | None = None) -> None:
        self.corpus = corpus or Corpus(DAY)
        self.raw = folder / "raw"
        self.out = StorePrefix(Address(None, str(folder / "out")), "tables/events/")
        self.clock = ManualClock()
        self.storage = open_storage(self.out.address)
        self.corpus.write(open_storage(Address(None, str(self.raw))))

    def context(self) -> JobContext:
        """Return the context of one run."""
        return job_context(self.raw, self.corpus.checkpoints, clock=self.clock)

    def compact(
        self, storage: Storage | None = None, *, accept_defects: bool = False, **changes: object
    ) -> Compacted:
        """Compact the day; `changes` replace parts of the context."""
        options = CompactOptions(AuditOptions(), self.out, accept_defects)
        given = self.context()._replace(**changes)  # type: ignore[arg-type]
        return compact_day(given, self._retrying(storage or self.storage), DAY, options)

    def publisher(self) -> Publisher:
        """Return the publisher of the day."""
        return Publisher(self._retrying(self.storage), DayFolder(self.out.prefix, DAY))

    def _retrying(self, storage: Storage) -> RetryingStorage:
        return RetryingStorage(storage, self.context().archive.new_backoff)

    def published_rows(self) -> list[tuple[str, str, int]]:
        """Read the day as a reader does: the pointer, its manifest, its files."""
        pointer = self.publisher().current().pointer
        if pointer is None:
            return []
        manifest = self.publisher().manifest(pointer.generation)
        assert manifest is not None
        rows = []
        for file in manifest.files:
            table = pq.ParquetFile(Path(self.storage.uri(file.key))).read()
            rows += [
                (row["shard_id"], row["sequence_number"], row["sub_sequence_number"]) for row in table.to_pylist()
            ]
        return rows

    def after_grace_ms(self) -> int:
        """Return a time at which all that is there now, by the file system's clock and by ours, is old."""
        return max(SystemClock().now_ms(), self.clock.now_ms()) + GRACE_MS + 60_000

    def archive_more(self) -> None:
        """Let one more segment of the day arrive in the shard whose end the checkpoint proves."""
        shard = self.corpus.shards[2]
        last = shard.segments[-1]
        record = last.records[-1]
        late = msgspec.structs.replace(record, sequence_number=str(int(record.sequence_number) + 9))
        made = make_segment(shard.shard_id, last.metadata.minute, [late], last.metadata.last, "late")
        shard.segments.append(made)
        shard.checkpoint = made.metadata.last
        store = open_storage(Address(None, str(self.raw)))
        store.put_if_absent(made.key, made.body, made.fields, "application/gzip")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a clean day that is not published."""
    return Desk(tmp_path)


def test_a_clean_day_is_published_whole_and_sorted(desk: Desk) -> None:
    """Every record of the day stands in the files once, in the order of shard and position."""
    assert desk.compact().state == "published"
    rows = desk.published_rows()
    assert len(rows) == desk.corpus.records
    assert rows == sorted(set(rows), key=lambda row: (row[0], int(row[1]), row[2]))


def test_rows_carry_exact_payloads(desk: Desk) -> None:
    """Text and bytes come back as they were, in the column of their kind."""
    desk.compact()
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    manifest = desk.publisher().manifest(pointer.generation)
    assert manifest is not None
    tables = [pq.ParquetFile(Path(desk.storage.uri(file.key))).read() for file in manifest.files]
    found = {
        row["sequence_number"]: row["data"].encode() if row["data"] is not None else row["data_bytes"]
        for table in tables
        for row in table.to_pylist()
    }
    expected = {
        record.sequence_number: record.data
        for shard in desk.corpus.shards
        for index in shard.in_day(DAY)
        for record in shard.segments[index].records
    }
    assert found == expected


def test_a_second_run_does_nothing(desk: Desk) -> None:
    """The same input has the same name: nothing is read, written or swapped."""
    first = desk.compact()
    before = {row.key: row.etag for row in desk.storage.list_objects("")}
    second = desk.compact(engine=_no_engine)
    assert (first.state, second.state) == ("published", "already")
    assert {row.key: row.etag for row in desk.storage.list_objects("")} == before


def test_late_objects_make_a_new_generation(desk: Desk) -> None:
    """A segment that arrives after publishing is in the next generation, and the old one's files are gone later."""
    first = desk.compact()
    desk.archive_more()
    second = desk.compact()
    assert first.manifest is not None
    assert second.manifest is not None
    assert first.manifest.generation != second.manifest.generation
    assert len(desk.published_rows()) == desk.corpus.records
    old = [file.key for file in first.manifest.files]
    assert all(desk.storage.head(key) for key in old)
    assert set(old) <= set(desk.publisher().sweep(desk.after_grace_ms()))
    assert not any(desk.storage.head(key) for key in old)
    assert len(desk.published_rows()) == desk.corpus.records


def test_a_sweep_before_the_grace_deletes_nothing(desk: Desk) -> None:
    """Files that nobody names yet may belong to a run at work."""
    desk.compact()
    desk.archive_more()
    desk.compact()
    assert desk.publisher().sweep(SystemClock().now_ms()) == []


def test_a_generation_stays_for_the_grace_after_it_was_replaced(desk: Desk) -> None:
    """However old its files are: a query may have begun on them just before."""
    first = desk.compact()
    desk.clock.advance((desk.after_grace_ms() - desk.clock.now_ms()) / 1000)
    desk.archive_more()
    desk.compact()
    assert first.manifest is not None
    assert all(desk.storage.head(file.key) for file in first.manifest.files)


def test_defects_hold_the_day_back(tmp_path: Path) -> None:
    """An audit with defects is not published: the pointer stays where it is."""
    corpus = Corpus(DAY)
    truncated_object(corpus, corpus.shards[0], 3)
    desk = Desk(tmp_path, corpus)
    done = desk.compact()
    assert (done.state, done.verdict) == ("held", "defects")
    assert desk.published_rows() == []


def test_accepted_defects_are_published_with_their_verdict(tmp_path: Path) -> None:
    """Duplicates are left out, the first in key order stays, and pointer and manifest say `defects`."""
    corpus = Corpus(DAY)
    records = corpus.records
    overlapping_segments(corpus, corpus.shards[0], 3)
    desk = Desk(tmp_path, corpus)
    done = desk.compact(accept_defects=True)
    pointer = desk.publisher().current().pointer
    assert (done.state, done.verdict) == ("published", "defects")
    assert pointer is not None
    assert pointer.verdict == "defects"
    assert len(desk.published_rows()) == len(set(desk.published_rows())) == records


def test_an_expired_day_is_refused(desk: Desk) -> None:
    """Raw objects that were deleted on purpose must not become a smaller day."""
    store = open_storage(Address(None, str(desk.raw)))
    store.put_if_absent(f"{PREFIX}_expired/{DAY}.json", b"{}", {}, "application/json")
    with pytest.raises(SafetyRefusal, match="expired"):
        desk.compact()


def test_the_symlink_manifest_names_the_current_files(desk: Desk) -> None:
    """Hive and Athena read the same files as who follows the pointer."""
    done = desk.compact()
    stored = desk.storage.get(f"tables/events/_symlinks/dt={DAY}/manifest")
    assert stored is not None
    assert done.manifest is not None
    assert stored.body.decode().splitlines() == [desk.storage.uri(file.key) for file in done.manifest.files]


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_crash_at_any_request_leaves_a_readable_day(tmp_path: Path, applied: bool) -> None:  # noqa: FBT001 - a case
    """Readers see the old day or the new one, never a mix; the next run finishes; no row is doubled."""
    for at in itertools.count(1):
        desk = Desk(tmp_path / f"{applied}-{at}")
        desk.compact()
        old = desk.published_rows()
        desk.archive_more()
        failing = FailingStorage(desk.storage, at, applied=applied)
        crashed = False
        try:
            desk.compact(failing)
        except Crash:
            crashed = True
        assert len(desk.published_rows()) in {len(old), desk.corpus.records}
        assert desk.compact().state in {"published", "already"}
        assert len(set(desk.published_rows())) == len(desk.published_rows()) == desk.corpus.records
        stored = desk.storage.get(f"tables/events/_symlinks/dt={DAY}/manifest")
        pointer = desk.publisher().current().pointer
        assert stored is not None
        assert pointer is not None
        assert pointer.generation in stored.body.decode()
        if not crashed:
            assert not failing.reached
            return


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_lost_answer_at_any_request_is_asked_again(tmp_path: Path, applied: bool) -> None:  # noqa: FBT001 - a case
    """An unknown outcome never ends the run and never makes it lose to itself."""
    for at in itertools.count(1):
        desk = Desk(tmp_path / f"{applied}-{at}")
        failing = FailingStorage(desk.storage, at, applied=applied, crash=False)
        assert desk.compact(failing).state == "published"
        assert len(desk.published_rows()) == desk.corpus.records
        if not failing.reached:
            return


def test_two_runs_of_one_generation_have_one_winner(desk: Desk) -> None:
    """The manifest that came first counts; the other run adopts it, and its own files are never named."""
    inner: list[Compacted] = []

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        if not inner:
            inner.append(desk.compact())
        return in_process(orders)

    outer = desk.compact(engine=engine)
    assert (inner[0].state, outer.state) == ("published", "already")
    assert len(desk.published_rows()) == len(set(desk.published_rows())) == desk.corpus.records


def test_a_run_with_an_older_view_never_replaces_a_newer_one(desk: Desk) -> None:
    """A run that listed before a late object, and publishes after who saw it, loses and lists again."""
    inner: list[Compacted] = []

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        if not inner:
            desk.archive_more()
            inner.append(desk.compact(engine=in_process))
        return in_process(orders)

    outer = desk.compact(engine=engine)
    assert (inner[0].state, outer.state) == ("published", "already")
    assert len(desk.published_rows()) == desk.corpus.records


def test_a_task_that_runs_twice_doubles_nothing(desk: Desk) -> None:
    """Retries and speculation leave files that no manifest names."""

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        in_process(orders)
        return in_process(orders)

    done = desk.compact(engine=engine)
    assert done.manifest is not None
    stored = [row.key for row in desk.storage.list_objects(f"tables/events/dt={DAY}/gen=")]
    assert len(stored) == 2 * len(done.manifest.files)
    assert len(desk.published_rows()) == desk.corpus.records


def _no_engine(orders: Sequence[Order]) -> list[TaskResult]:
    raise AssertionError(f"{len(orders)} tasks were run")


def test_a_day_that_is_proven_later_becomes_clean(tmp_path: Path) -> None:
    """A day whose end was open is published as `unknown`; once it is proven a run says `clean`."""
    corpus = Corpus(DAY)
    proof, corpus.shards[2].checkpoint = corpus.shards[2].checkpoint, None
    desk = Desk(tmp_path, corpus)
    assert desk.compact().verdict == "unknown"
    assert desk.compact(engine=_no_engine).verdict == "unknown"
    corpus.shards[2].checkpoint = proof
    assert desk.compact(engine=_no_engine).verdict == "clean"
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    assert pointer.verdict == "clean"
    assert len(desk.published_rows()) == corpus.records


def test_a_generation_that_comes_again_after_its_files_are_swept_is_written_again(desk: Desk) -> None:
    """A late object appears, its day is published, the old files go, the object is deleted: the old day is whole."""
    first = desk.compact()
    records = desk.corpus.records
    desk.archive_more()
    desk.compact()
    desk.publisher().sweep(desk.after_grace_ms())
    shard = desk.corpus.shards[2]
    late = shard.segments.pop()
    shard.checkpoint = shard.segments[-1].metadata.last
    open_storage(Address(None, str(desk.raw))).delete([late.key])
    again = desk.compact()
    assert first.manifest is not None
    assert again.manifest is not None
    assert again.manifest.generation == first.manifest.generation
    assert len(desk.published_rows()) == records


def test_late_objects_are_named(desk: Desk) -> None:
    """The new generation's audit warns of what came after publishing, and stays clean."""
    desk.compact()
    desk.archive_more()
    result = desk.compact().result
    assert result is not None
    assert [(one.code, one.severity, one.keys) for one in result.audit.findings] == [
        ("late_minutes", "warning", (desk.corpus.shards[2].segments[-1].key,))
    ]
    assert result.audit.verdict == "clean"
