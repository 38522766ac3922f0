"""Level `stream` and a consumer that lags: what will still be brought is not lost, and what was passed over is."""

from pathlib import Path
from typing import NamedTuple

import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.verdict.audit_document import EXIT_CODES, Audit
from consumer.stream.port import StreamIdentity
from minutebook.format.coverage_markers import UndeliveredRecord, encode_coverage_marker, undelivered_key
from minutebook.format.day import Day
from minutebook.format.document import FORMAT
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS
from tests.fakes.stream_reader import HeldStream

DAY = Day.parse("2026-11-20")
SHARD = "shardId-000000000000"
BEGIN_MS = DAY.begin_ms - DAY_MS
MINUTES = (5, 300, 600, 700, 701, 900)
"""In which minutes of the day the stream's records arrived."""


def sent(minute: int) -> Record:
    """Return the record of a minute of the day."""
    return Record(str(1000 + minute), 0, "k", DAY.begin_ms + minute * MINUTE_MS, b"%d" % minute)


class Lagging(NamedTuple):
    """An archive of some of the records that a stream holds."""

    folder: Path
    scene: ArchiveScene

    def audit(self, *minutes: int, now: int = 720, checkpoint: Position | None = None) -> Audit:
        """Audit the day so far at level `stream`: the stream holds the records of these minutes."""
        now_ms = DAY.begin_ms + now * MINUTE_MS
        held = HeldStream(STREAM_ARN, BEGIN_MS, {SHARD: [sent(minute) for minute in minutes]}, now_ms)
        given = job_context(self.folder, {SHARD: checkpoint} if checkpoint else {}, clock=ManualClock(now_ms))
        so_far_ms = None if now > 1440 else now_ms - 5 * MINUTE_MS
        options = AuditOptions(level="stream", so_far_ms=so_far_ms)
        given = given._replace(stream=lambda: held, shards=held.listed)  # type: ignore[arg-type,return-value]  # the reader's methods
        return audit_day(given, DAY, options).audit


@pytest.fixture
def lagging(tmp_path: Path) -> Lagging:
    """Return an archive of the first three records."""
    scene = ArchiveScene(open_storage(Address(None, str(tmp_path))), PREFIX)
    scene.settle(StreamIdentity(STREAM_ARN, BEGIN_MS, DAY_MS))
    scene.first(SHARD)
    scene.begin(SHARD, first=str(sent(5).position))
    for minute in MINUTES[:3]:
        scene.segment(SHARD, DAY.first_minute + minute, [sent(minute)])
    return Lagging(tmp_path, scene)


def missing(audit: Audit) -> list[tuple[str, ...]]:
    """Return the positions of the records that are called missing."""
    return [found.positions for found in audit.findings if found.code == "missing_in_archive"]


@pytest.mark.parametrize("now", [706, 720, 899, 1440 + 600])
def test_a_record_behind_the_archives_end_is_to_come(lagging: Lagging, now: int) -> None:
    """However old: the reader has not come so far, and the stream still holds it. Not clean, and no defect."""
    found = lagging.audit(*MINUTES[:4], now=now)
    assert (missing(found), found.verdict, EXIT_CODES[found.verdict]) == ([], "unknown", 4)
    told = {check.id: check.message for check in found.checks if check.status == "unknown"}
    assert "1 record(s) behind the archive's end, the oldest of 2026-11-20T11:40:00.000Z" in told["stream_tail"]
    assert SHARD in told["stream_tail"]


def test_a_record_before_the_archives_end_is_lost(lagging: Lagging) -> None:
    """The chain goes on behind it."""
    found = lagging.audit(5, 300, 400, 600, 700)
    assert (missing(found), found.verdict) == ([(str(sent(400).position),)], "defects")


def test_a_record_that_a_later_days_segment_passes_over_is_lost(lagging: Lagging) -> None:
    """It lies behind the day's last segment, and the shard's reader is further on."""
    late = Record("9000", 0, "k", DAY.end_ms + 30 * MINUTE_MS, b"late")
    lagging.scene.segment(SHARD, DAY.first_minute + 1470, [late])
    found = lagging.audit(*MINUTES[:4], now=1440 + 600)
    assert (missing(found), found.verdict) == ([(str(sent(700).position),)], "defects")


def test_a_record_that_the_checkpoint_is_behind_is_lost(lagging: Lagging) -> None:
    """KCL never delivers it again."""
    found = lagging.audit(*MINUTES[:4], checkpoint=sent(700).position)
    assert (missing(found), found.verdict) == ([(str(sent(700).position),)], "defects")


def test_a_record_behind_the_end_of_a_shard_that_was_read_whole_is_lost(lagging: Lagging) -> None:
    """Nobody reads on."""
    lagging.scene.end(SHARD, sent(600).position)
    found = lagging.audit(*MINUTES[:4])
    assert (missing(found), found.verdict) == ([(str(sent(700).position),)], "defects")


def test_a_shard_of_which_nothing_is_archived_yet_is_to_come(tmp_path: Path) -> None:
    """The stream holds all of it."""
    scene = ArchiveScene(open_storage(Address(None, str(tmp_path))), PREFIX)
    scene.settle(StreamIdentity(STREAM_ARN, BEGIN_MS, DAY_MS))
    scene.first(SHARD)
    found = Lagging(tmp_path, scene).audit(5, 300)
    assert (missing(found), found.verdict) == ([], "unknown")


def test_a_consumer_that_has_caught_up_is_clean(lagging: Lagging) -> None:
    """The same records, all archived."""
    lagging.scene.segment(SHARD, DAY.first_minute + 700, [sent(700)])
    found = lagging.audit(*MINUTES[:4])
    assert (found.verdict, found.findings) == ("clean", ())


def test_what_kcl_would_not_deliver_and_is_kept_is_no_loss(lagging: Lagging) -> None:
    """The reader has passed it. It is kept as it is, and the finding about that changes no verdict."""
    kept = sent(400)
    marker = UndeliveredRecord(
        format=FORMAT,
        shard=SHARD,
        sequence_number=str(kept.position.sequence),
        first_sub=0,
        reason="malformed",
        partition_key="k",
        arrival_ms=kept.arrival_ms,
        data_base64="",
        writer="w",
        written_at="",
    )
    key = undelivered_key(PREFIX, SHARD, kept.arrival_ms, kept.position.sequence)
    lagging.scene.store.put_if_absent(key, encode_coverage_marker(marker), {}, "application/json")
    found = lagging.audit(5, 300, 400, 600)
    assert (missing(found), found.verdict) == ([], "clean")
    assert [about.code for about in found.findings] == ["undelivered"]
