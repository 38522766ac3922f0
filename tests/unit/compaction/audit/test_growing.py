"""An archive that grows while it is audited: what was committed meanwhile is not missing."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from archive.clock import SystemClock
from archive.format.day import Day
from archive.format.minute import MINUTE_MS
from archive.index.names import ArchiveIndex, SegmentName
from archive.store.places import open_storage
from archive.store.storage import Address, Storage
from compaction.audit import audit as module
from compaction.audit.audit import audit_day
from compaction.comparison.level import StreamResult
from compaction.comparison.records import Comparison
from compaction.job.context import AuditOptions
from compaction.stream.kinesis import ReadLog
from compaction.verdict.audit_document import Audit
from consumer.stream.port import StreamIdentity
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = Day.parse("2026-11-20")
QUIET, BUSY = "shardId-000000000000", "shardId-000000000001"


class Growing:
    """A quiet shard and a busy one, each written by one run; minutes are counted from the day's first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scene: ArchiveScene[Storage] = ArchiveScene(open_storage(Address(None, str(folder))), PREFIX)
        self.scene.settle(StreamIdentity(STREAM_ARN, DAY.begin_ms - DAY_MS, DAY_MS))
        self.scene.first(QUIET, BUSY)
        for shard_id, minutes in ((QUIET, (-60, 700, 1380)), (BUSY, (-60, 700, 1439, 1442, 1503))):
            self.scene.begin(shard_id)
            self.commit(shard_id, *minutes)

    def commit(self, shard_id: str, *minutes: int) -> None:
        """Append segments."""
        for minute in minutes:
            self.scene.segment(shard_id, DAY.first_minute + minute, writer=f"run-{minute + 100}")

    def audit(self, level: str = "inventory") -> Audit:
        """Audit the day an hour and a half after its end."""
        context = job_context(self.folder, clock=ManualClock(DAY.end_ms + 90 * MINUTE_MS))
        return audit_day(context._replace(stream=SystemClock), DAY, AuditOptions(level=level)).audit  # type: ignore[arg-type]


def test_what_is_committed_between_two_listings_behind_the_day_is_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader catches up: the hour that was listed first lacks what a segment of the next hour stands on."""
    growing = Growing(tmp_path)
    hours: Callable[[ArchiveIndex, int, int], list[list[SegmentName]]] = ArchiveIndex.in_hours
    listed: list[int] = []

    def list_and_grow(index: ArchiveIndex, begin_ms: int, until_ms: int) -> list[list[SegmentName]]:
        found = hours(index, begin_ms, until_ms)
        listed.append(begin_ms)
        if listed.count(DAY.end_ms) == 2 and len(listed) == 3:
            growing.commit(QUIET, 1470, 1499, 1501)
        return found

    monkeypatch.setattr(ArchiveIndex, "in_hours", list_and_grow)
    assert growing.audit().verdict == "clean"
    assert len(listed) > 3


def test_what_is_committed_while_the_stream_is_read_is_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark of now stands on a segment that the day had not when it was listed: the next audit will tell."""
    growing = Growing(tmp_path)

    def read_and_grow(*_: object) -> StreamResult:
        growing.commit(QUIET, 1400)
        growing.scene.read_on(QUIET, DAY.end_ms - 10 * MINUTE_MS)
        return StreamResult((), (), 0, {QUIET: (Comparison((), 0, 0), ReadLog())})

    monkeypatch.setattr(module, "check_stream", read_and_grow)
    found = growing.audit("stream")
    assert found.verdict == "unknown"
    assert "day_at_rest" in {check.id for check in found.checks}
