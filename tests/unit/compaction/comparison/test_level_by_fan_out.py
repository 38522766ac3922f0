"""Level `stream` says the same of the same stream, polled and by enhanced fan-out."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archive.access import PLAIN
from archive.aws import client_config, make_kinesis_client
from archive.format.day import Day
from archive.format.minute import MINUTE_MS
from archive.format.record import Record
from archive.retry import Backoff
from archive.store.places import open_storage
from archive.store.storage import Address
from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.stream.consumers import FanOut
from compaction.stream.kinesis import StreamReader
from compaction.verdict.audit_document import Audit
from consumer.stream.port import StreamIdentity
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.fan_out_kinesis import SHARD, FanOutKinesis, FanOutServer, Fault
from tests.fakes.held_kinesis import Held
from tests.fakes.stream import DAY_MS

pytestmark = pytest.mark.usefixtures("credentials")
DAY = Day.parse("2026-11-20")
BEGIN_MS = DAY.begin_ms - DAY_MS
NOW_MS = DAY.begin_ms + 720 * MINUTE_MS


def sent(minute: int) -> Held:
    """Return the record of a minute of the day."""
    return Held(1000 + minute, DAY.begin_ms + minute * MINUTE_MS, "k", b"%d" % minute)


def audited(folder: Path, missing: int, *, fan_out: bool) -> Audit:
    """Audit an archive that lacks `missing` and holds one that the stream does not."""
    scene = ArchiveScene(open_storage(Address(None, str(folder))), PREFIX)
    scene.settle(StreamIdentity(STREAM_ARN, BEGIN_MS, DAY_MS))
    scene.first(SHARD)
    scene.begin(SHARD, first="1010:0")
    held = [sent(minute) for minute in range(10, 700, 30)]
    for row in sorted([*held, sent(311)]):
        if row.sequence != 1000 + missing:
            minute = DAY.first_minute + row.sequence - 1000
            scene.segment(SHARD, minute, [Record(str(row.sequence), 0, "k", row.arrival_ms, row.data)])
    service = FanOutKinesis(
        ManualClock(NOW_MS),
        held,
        created_ms=BEGIN_MS,
        arn=STREAM_ARN,
        most=3,
        faults=[Fault(2, "cut"), Fault(1, "crc")],
        retention_hours=72,
    )
    with served(service) as (reader, consumer):
        context = job_context(folder, clock=service.clock)._replace(stream=lambda: reader, shards=reader.listed)
        if fan_out:
            context = context._replace(fan_out=consumer.lent)
        audit = audit_day(context, DAY, AuditOptions(level="stream", so_far_ms=NOW_MS - 5 * MINUTE_MS)).audit
        consumer.close()
    asked = {name for name, _ in service.asked}
    assert ("SubscribeToShard" in asked, "GetRecords" in asked) == (fan_out, not fan_out)
    assert all(each.is_deleting for each in service.consumers.values())
    return audit


@contextmanager
def served(service: FanOutKinesis) -> Iterator[tuple[StreamReader, FanOut]]:
    """Yield a reader of the stream, and a run's consumer."""
    server = FanOutServer(service)
    rng = random.Random(1)
    client = make_kinesis_client("us-east-1", server.endpoint, PLAIN, client_config(read_timeout=2))

    def waits() -> Backoff:
        return Backoff(service.clock, rng, budget_seconds=60)

    yield StreamReader(client, "corpus", service.clock, rng), FanOut(client, "audit", waits, waits)
    server.close()


def test_both_ways_find_the_same(tmp_path: Path) -> None:
    """What is missing, what is foreign, the checks and the verdict; subscriptions are torn on the way."""
    polled, pushed = (audited(tmp_path / str(way), 220, fan_out=way) for way in (False, True))
    assert {found.code for found in pushed.findings} >= {"missing_in_archive", "not_in_stream"}
    assert pushed.verdict == polled.verdict == "defects"
    assert pushed.findings == polled.findings
    assert pushed.checks == polled.checks
    assert pushed.equation == polled.equation


def test_a_consumer_that_cannot_be_had_leaves_the_stream_unread(tmp_path: Path) -> None:
    """It is named, and accuses the archive of nothing."""
    scene = ArchiveScene(open_storage(Address(None, str(tmp_path))), PREFIX)
    scene.settle(StreamIdentity(STREAM_ARN, BEGIN_MS, DAY_MS))
    service = FanOutKinesis(ManualClock(NOW_MS), [], created_ms=BEGIN_MS, arn=STREAM_ARN)
    service.refusals["RegisterStreamConsumer"] = ["AccessDeniedException"]
    with served(service) as (reader, consumer):
        context = job_context(tmp_path, clock=service.clock)
        context = context._replace(stream=lambda: reader, shards=reader.listed, fan_out=consumer.lent)
        audit = audit_day(context, DAY, AuditOptions(level="stream", so_far_ms=NOW_MS - 5 * MINUTE_MS)).audit
    [check] = [check for check in audit.checks if check.id == "stream_readable"]
    assert (check.status, "AccessDeniedException" in (check.message or "")) == ("unknown", True)
