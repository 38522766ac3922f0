"""An archive that grows while it is audited: what was committed meanwhile is not missing."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.stream.kinesis import ReadLog, ReadSpan, Sent
from consumer.stream.port import StreamIdentity
from minutebook.format.day import Day, Hour
from minutebook.format.minute import MINUTE_MS
from minutebook.format.record import Record
from minutebook.store.places import open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, Storage
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS
from tests.fakes.stream_reader import HeldStream

T = TypeVar("T")
U = TypeVar("U")
DAY = Day.parse("2026-11-20")
NOW_MS = DAY.end_ms + 90 * MINUTE_MS
UNPROVEN = {"broken_chain", "day_at_rest", "stream_tail"}
QUIET, BUSY = "shardId-000000000000", "shardId-000000000001"


class Growing:
    """A quiet shard and a busy one, each written by one run; minutes are counted from the day's first."""

    def __init__(self, folder: Path) -> None:
        self.sent: dict[str, list[Record]] = {QUIET: [], BUSY: []}
        self.context = job_context(folder, clock=ManualClock(NOW_MS))
        self.scene: ArchiveScene[Storage] = ArchiveScene(open_storage(Address(None, str(folder))), PREFIX)
        self.scene.settle(StreamIdentity(STREAM_ARN, DAY.begin_ms - DAY_MS, DAY_MS))
        self.scene.first(QUIET, BUSY)
        for shard_id, minutes in ((QUIET, (-60, 700, 1380)), (BUSY, (-60, 700, 1439, 1442, 1503))):
            self.scene.begin(shard_id)
            self.commit(shard_id, *minutes)

    def commit(self, shard_id: str, *minutes: int) -> None:
        """Append segments of a record each, which the stream still holds."""
        for minute in minutes:
            record = Record(str(1000 + minute), 0, "k", DAY.begin_ms + minute * MINUTE_MS, b"%d" % minute)
            self.sent[shard_id].append(record)
            self.scene.segment(shard_id, DAY.first_minute + minute, [record], writer=f"run-{minute + 100}")


class GrowingStream(HeldStream):
    """While the quiet shard is read, its consumer commits one more segment, and reads on."""

    grow: Callable[[], None]

    def read(self, shard_id: str, reach: ReadSpan, log: ReadLog) -> Iterator[Sent]:
        """Read a shard."""
        if shard_id == QUIET:
            self.grow()
        return super().read(shard_id, reach, log)


def test_what_is_committed_between_two_listings_behind_the_day_is_no_gap(tmp_path: Path) -> None:
    """A reader catches up: the hour that was listed first lacks what a segment of the next hour stands on."""
    growing = Growing(tmp_path)
    before, behind = Hour(DAY.shift(-1), 23), Hour(DAY.shift(1), 0)
    listed: list[object] = []

    def read_and_grow(work: Callable[[T], U], items: Sequence[T], /) -> list[U]:
        rows = [work(item) for item in items]
        if items and isinstance(items[0], Hour):
            listed.append(items[0])
            if listed == [before, behind, behind]:
                growing.commit(QUIET, 1470, 1499, 1501)
        return rows

    archive = growing.context.archive
    archive = RetryingStorage(archive.storage, archive.new_backoff, read_and_grow)
    context = growing.context._replace(archive=archive)
    assert audit_day(context, DAY, AuditOptions()).audit.verdict == "clean"
    assert len(listed) > 3


def test_what_is_committed_while_the_stream_is_read_is_no_gap(tmp_path: Path) -> None:
    """A mark of now stands on a segment that the day had not when it was listed: the next audit will tell."""
    growing, minutes = Growing(tmp_path), itertools.count(1400)

    def grow() -> None:
        growing.commit(QUIET, next(minutes))
        growing.scene.read_on(QUIET, DAY.end_ms - 10 * MINUTE_MS)

    stream = GrowingStream(STREAM_ARN, DAY.begin_ms - DAY_MS, growing.sent, NOW_MS)
    stream.grow = grow
    context = growing.context._replace(stream=lambda: stream, shards=stream.listed)  # type: ignore[arg-type,return-value]  # the reader's methods
    found = audit_day(context, DAY, AuditOptions(level="stream")).audit
    assert found.verdict == "unknown"
    assert {check.id for check in found.checks if check.status == "unknown"} == UNPROVEN
