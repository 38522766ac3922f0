"""The audit at level `stream`: the archive against a real stream, KPL aggregates included."""

import itertools
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.stream.kinesis import ArchivedStream
from compaction.verdict.audit_document import Audit
from compaction.verdict.findings import Code
from consumer.stream.kinesis import KinesisStream
from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.format.day import Day, day_of_ms
from minutebook.format.minute import MINUTE_MS, minute_of
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.owner import StreamOwner
from minutebook.store.places import open_storage
from minutebook.store.storage import Address, Storage
from tests.corpus.auditing import answer_later, job_context
from tests.corpus.model import PREFIX
from tests.fakes.archive_scene import ArchiveScene
from tests.witness.aggregate import aggregate
from tests.witness.waiting import is_gone, wait_until

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


SHARD = "shardId-000000000000"


class Stage(NamedTuple):
    """A stream of one shard with what it holds, and an empty bucket."""

    kinesis: "KinesisClient"
    name: str
    storage: Storage
    address: Address
    records: list[Record]
    day: Day

    def archive(self, records: list[Record]) -> None:
        """Archive records as one chain, with the markers of a consumer."""
        scene = ArchiveScene(self.storage, PREFIX)
        scene.settle(KinesisStream(lambda: self.kinesis, self.name, SystemClock(), random.Random(1)).describe())
        for minute, group in itertools.groupby(records, key=lambda record: minute_of(record.arrival_ms)):
            scene.segment(SHARD, minute, list(group))
        scene.begin(SHARD, first=str(records[0].position))

    def audit(self, checkpoint: Position) -> Audit:
        """Audit the day on which the records arrived, two minutes later by the service's own time."""
        clock = SystemClock()
        answer_later(self.kinesis)
        reader = ArchivedStream(self.kinesis, self.name, clock, random.Random(1), page_records=50)
        given = job_context(self.address, {SHARD: checkpoint}, clock=clock)
        # The day is that of the test: judged is what arrived before the minute after the last record.
        so_far_ms = (minute_of(self.records[-1].arrival_ms) + 1) * MINUTE_MS
        options = AuditOptions(level="stream", so_far_ms=so_far_ms)
        owner = StreamOwner(self.name, REGION)
        given = given._replace(stream=lambda: reader, shards=reader.listed, owner=owner)
        return audit_day(given, self.day, options).audit


@pytest.fixture
def stage(embedded_aws: EmbeddedAws, kinesis_client: "KinesisClient", bucket: str) -> Stage:
    """Return a stream that holds 30 plain records and three aggregates of four, one of them with odd bytes."""
    name = f"stream-{bucket}"
    kinesis_client.create_stream(StreamName=name, ShardCount=1)
    wait_until(lambda: is_active(kinesis_client, name), "the stream is ACTIVE")
    for number in range(30):
        kinesis_client.put_record(StreamName=name, PartitionKey=f"k{number}", Data=b"record %d" % number)
    for number in range(3):
        inner = [(f"a{number}-{sub}", bytes([sub, 255, number])) for sub in range(4)]
        kinesis_client.put_record(StreamName=name, PartitionKey="aggregate", Data=aggregate(inner))
    records = list(read_plainly(kinesis_client, name))
    address = Address(bucket, "", REGION, embedded_aws.s3_endpoint)
    day = day_of_ms(records[0].arrival_ms)
    return Stage(kinesis_client, name, open_storage(address), address, records, day)


def read_plainly(client: "KinesisClient", name: str) -> Iterator[Record]:
    """Read the shard with GetRecords alone; the last three records are the aggregates that the fixture made."""
    found = client.get_shard_iterator(StreamName=name, ShardId=SHARD, ShardIteratorType="TRIM_HORIZON")
    rows = client.get_records(ShardIterator=found["ShardIterator"], Limit=100)["Records"]
    assert len(rows) == 33
    for index, row in enumerate(rows):
        arrival_ms = round(row["ApproximateArrivalTimestamp"].timestamp() * 1000)
        if index < 30:
            yield Record(row["SequenceNumber"], 0, row["PartitionKey"], arrival_ms, row["Data"])
            continue
        number = index - 30
        for sub in range(4):
            data = bytes([sub, 255, number])
            yield Record(row["SequenceNumber"], sub, f"a{number}-{sub}", arrival_ms, data)


def is_active(client: "KinesisClient", name: str) -> bool:
    """Tell whether the stream can be used."""
    return client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"


def test_a_whole_archive_is_clean_against_its_stream(stage: Stage) -> None:
    """Every user record of the stream is compared, those inside aggregates too."""
    stage.archive(stage.records)
    audit = stage.audit(stage.records[-1].position)
    assert (audit.verdict, audit.findings) == ("clean", ())
    assert {check.id: check.message for check in audit.checks}["stream_compared"].startswith("42 records of 1 shards")


def test_a_record_that_was_never_archived_is_found(stage: Stage) -> None:
    """A consumer that lost part of an aggregate leaves a chain that looks whole: only the stream knows."""
    lost = stage.records[33]
    stage.archive([record for record in stage.records if record is not lost])
    audit = stage.audit(stage.records[-1].position)
    assert [(finding.code, finding.positions, finding.count) for finding in audit.findings] == [
        (Code.MISSING_IN_ARCHIVE, (str(lost.position),), 1)
    ]
    assert audit.verdict == "defects"


def test_a_record_that_the_stream_never_held_is_found(stage: Stage) -> None:
    """An invented record, and one with other bytes, stand under not_in_stream with their key."""
    invented = Record(str(int(stage.records[3].sequence_number) + 1), 0, "k", stage.records[3].arrival_ms, b"new")
    altered = Record(stage.records[9].sequence_number, 0, "k9", stage.records[9].arrival_ms, b"other")
    stage.archive([*stage.records[:4], invented, *stage.records[4:9], altered, *stage.records[10:]])
    audit = stage.audit(stage.records[-1].position)
    assert {finding.code for finding in audit.findings} == {Code.NOT_IN_STREAM}
    assert {place for finding in audit.findings for place in finding.positions} == {
        str(invented.position),
        str(altered.position),
    }


def test_records_that_are_too_young_are_unknown(stage: Stage) -> None:
    """What lies behind the archive's end and arrived a moment ago is neither lost nor clean."""
    stage.archive(stage.records[:20])
    audit = stage.audit(stage.records[19].position)
    assert audit.verdict == "unknown"
    assert [check.id for check in audit.checks if check.status == "unknown"] == ["unproven_end", "stream_tail"]


def test_another_stream_under_the_name_is_unknown(stage: Stage, kinesis_client: "KinesisClient") -> None:
    """A stream that was deleted and made again proves nothing about this archive."""
    stage.archive(stage.records)
    kinesis_client.delete_stream(StreamName=stage.name)
    wait_until(lambda: is_gone(kinesis_client, stage.name), "the stream is gone")
    kinesis_client.create_stream(StreamName=stage.name, ShardCount=1)
    wait_until(lambda: is_active(kinesis_client, stage.name), "the stream is ACTIVE")
    audit = stage.audit(stage.records[-1].position)
    assert audit.verdict == "unknown"
    assert [check.id for check in audit.checks if check.status == "unknown"] == ["unproven_end", "stream_identity"]
