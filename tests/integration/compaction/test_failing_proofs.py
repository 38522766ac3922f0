"""What proves days and takes them away, when its own writes fail: marks of level `stream`, tombstones, deletes."""

import random
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.stream.kinesis import ArchivedStream
from consumer.expire.command import Archive, expire_days, expiry_age_ms
from consumer.stream.port import StreamIdentity
from demo.embedded import REGION
from minutebook.errors import StoreError
from minutebook.format.day import Day
from minutebook.format.metadata import Continuity
from minutebook.format.read_mark import FOLDER, MarkKind, decode_read_mark, encode_read_mark, read_mark_key
from minutebook.format.tombstone import decode_tombstone
from minutebook.store.storage import Address
from minutebook.terminal import TerminalConsole
from tests.corpus.desk import DAY, OUT, Desk
from tests.corpus.model import BEGIN_MS, PREFIX, STREAM_ARN, Corpus, Shape
from tests.fakes.archive_scene import APPLICATION
from tests.fakes.failing_s3 import CHOSEN, IS_FINAL, FailingS3, WriteFault, serve
from tests.searching import IS_DEEP

_SMALL = Shape(minutes=(-1, 0, 1, 1441))
_FAULTS = pytest.mark.parametrize("fault", WriteFault if IS_DEEP else CHOSEN, ids=lambda fault: fault.name.lower())


@pytest.fixture
def s3(aws_environment: None) -> Iterator[FailingS3]:  # noqa: ARG001 - used for its effect
    """Return a bucket in memory, behind a real server; writes of the output are not counted."""
    with serve(FailingS3(counted=PREFIX)) as bucket:
        yield bucket


def _desk(s3: FailingS3) -> Desk:
    return Desk(Address("bucket", region=REGION, endpoint=s3.endpoint), Corpus(DAY, shape=_SMALL))


class _Seconds(float):
    """A time in epoch seconds that answers like a datetime."""

    def timestamp(self) -> float:
        return self


class _Kinesis:
    """A client of a stream that still holds all that the corpus ever held."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._shards = {shard.shard_id: shard for shard in desk.corpus.shards}

    def describe_stream_summary(self, **_: object) -> dict[str, Any]:
        created = _Seconds(BEGIN_MS / 1000)
        return self._dated(
            StreamDescriptionSummary={
                "StreamARN": STREAM_ARN,
                "StreamCreationTimestamp": created,
                "RetentionPeriodHours": 8760,
            }
        )

    def list_shards(self, **_: object) -> dict[str, Any]:
        keys = {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)}
        row = {"HashKeyRange": keys, "SequenceNumberRange": {"StartingSequenceNumber": "0"}}
        return self._dated(Shards=[row | {"ShardId": shard_id} for shard_id in self._shards])

    def get_shard_iterator(self, *, ShardId: str, **_: object) -> dict[str, Any]:  # noqa: N803 - boto3's name
        return self._dated(ShardIterator=f"{ShardId} begin")

    def get_records(self, *, ShardIterator: str, Limit: int) -> dict[str, Any]:  # noqa: ARG002, N803 - boto3's names
        shard_id, _, at = ShardIterator.partition(" ")
        records = [
            {
                "SequenceNumber": record.sequence_number,
                "ApproximateArrivalTimestamp": _Seconds(record.arrival_ms / 1000),
                "PartitionKey": record.partition_key,
                "Data": record.data,
            }
            for segment in self._shards[shard_id].segments
            for record in segment.records
            if at == "begin"
        ]
        return self._dated(Records=records, MillisBehindLatest=0, NextShardIterator=f"{shard_id} tip")

    def _dated(self, **answer: object) -> dict[str, Any]:
        date = formatdate(self._desk.clock.now_ms() / 1000, usegmt=True)
        return {**answer, "ResponseMetadata": {"HTTPHeaders": {"date": date}}}


def _audit(desk: Desk, level: str) -> str:
    client = _Kinesis(desk)
    context = desk.context()._replace(
        stream=lambda: ArchivedStream(client, "corpus", desk.clock, random.Random(1))  # type: ignore[arg-type] # the part of it that is used
    )
    return audit_day(context, DAY, AuditOptions(level=level)).audit.verdict  # type: ignore[arg-type]


@_FAULTS
def test_a_mark_of_level_stream_that_fails_is_never_half_a_proof(s3: FailingS3, fault: WriteFault) -> None:
    """Either the marks are stored and prove the day for good, or the audit answers unknown, and the next clean."""
    desk = _desk(s3)
    _doubt(desk, desk.corpus.shards[2].shard_id)
    before = dict(s3.objects)
    s3.heal()
    assert (_audit(desk, "keys"), _audit(desk, "stream")) == ("unknown", "clean")
    marks = len(s3.written)
    assert marks >= len(desk.corpus.shards)
    for number in (1, marks):
        s3.objects.clear()
        s3.objects.update(before)
        s3.fail_at(number, fault)
        verdict = _audit(desk, "stream")
        assert FOLDER in s3.failed[0][0]
        assert verdict == ("unknown" if fault in IS_FINAL else "clean")
        s3.heal()
        assert _audit(desk, "stream") == "clean"
        assert _audit(desk, "keys") == "clean"
        _assert_marks_parse(s3)


def _doubt(desk: Desk, shard_id: str) -> None:
    """Let the shard's marks say that it is open, and prove nothing."""
    found = [row.key for row in desk.storage.list_objects(f"{PREFIX}{FOLDER}") if shard_id in row.key]
    for key in found:
        stored = desk.storage.get(key)
        assert stored is not None
        mark = decode_read_mark(stored.body, PREFIX, key)._replace(continuity=Continuity.UNPROVEN)
        day = Day.parse(key.removeprefix(f"{PREFIX}{FOLDER}")[:10])
        desk.storage.put_if_absent(read_mark_key(PREFIX, day, mark), encode_read_mark(mark), {}, "application/json")
    desk.storage.delete(found)


def _assert_marks_parse(s3: FailingS3) -> None:
    kinds = {
        decode_read_mark(stored.body, PREFIX, key).kind
        for key, stored in s3.objects.items()
        if key.startswith(f"{PREFIX}{FOLDER}")
    }
    assert MarkKind.STREAM in kinds


@_FAULTS
def test_a_loss_whose_mark_fails_is_reported_all_the_same(s3: FailingS3, fault: WriteFault) -> None:
    """What the audit saw does not depend on what it may store."""
    desk = _desk(s3)
    shard = desk.corpus.shards[0]
    s3.heal()
    del s3.objects[shard.segments[shard.in_day(DAY)[0]].key]
    s3.fail_at(1, fault)
    assert _audit(desk, "stream") == "defects"
    assert FOLDER in s3.failed[0][0]
    s3.heal()
    assert (_audit(desk, "stream"), _audit(desk, "keys")) == ("defects", "defects")


@_FAULTS
def test_nothing_goes_before_its_tombstone_is_known_to_be_stored(s3: FailingS3, fault: WriteFault) -> None:
    """`expire` ends, or ends with the store's error and is ended by the next run; what must stay always stays."""
    desk = _desk(s3)
    assert desk.compact().verdict == "clean"
    desk.clock.advance(40 * 86_400)
    before, key = dict(s3.objects), f"{PREFIX}_expired/{DAY}.json"
    segments = _segments(s3)
    s3.heal()
    assert _expire(desk) in {0, 6}
    kept = decode_tombstone(s3.objects[key].body, key).kept_keys()
    writes = len(s3.written)
    assert writes >= 2  # the tombstone, and the segments
    for number in _writes(writes, fault):
        s3.objects.clear()
        s3.objects.update(before)
        s3.fail_at(number, fault)
        code = _expire(desk)
        left = _segments(s3)
        assert set(kept) <= left
        assert left == segments or key in s3.objects
        assert (code in {2, 5}) == (fault in IS_FINAL)
        s3.heal()
        _expire(desk)
        assert _segments(s3) == set(decode_tombstone(s3.objects[key].body, key).kept_keys()) == set(kept)


def _writes(count: int, fault: WriteFault) -> list[int]:
    """Return the writes that meet a fault: the tombstone meets each, any other write by default one, in turn."""
    return [
        number for number in range(1, count + 1) if number == 1 or IS_DEEP or CHOSEN[number % len(CHOSEN)] is fault
    ]


def _segments(s3: FailingS3) -> set[str]:
    return {key for key in s3.objects if key.startswith(DAY.path(PREFIX))}


def _expire(desk: Desk) -> int:
    """Run the command; return its exit code."""
    store = desk.context().archive
    archive = Archive(
        store=store,
        prefix=PREFIX,
        identity=StreamIdentity(STREAM_ARN, BEGIN_MS, 86_400_000),
        application=APPLICATION,
        published=store.within(store.new_backoff),
        published_root=OUT,
        clock=desk.clock,
        new_id=lambda: "writer",
    )
    try:
        return expire_days(archive, expiry_age_ms("30d"), TerminalConsole(quiet=True), 1000).exit_code
    except StoreError as exc:
        return exc.exit_code
