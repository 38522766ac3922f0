"""Evidence on the embedded AWS: what real services answer, and what a real processor writes of it."""

import random
import time

import msgspec
import pytest

from consumer.connections import stream_of
from consumer.daemon.start import settle_start
from consumer.settings.settings import Settings
from consumer.stream.kinesis import KinesisStream
from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.coverage_markers import (
    FirstShards,
    OpenedMarker,
    decode_coverage_marker,
    first_shards_key,
    opened_marker_key,
)
from minutebook.format.metadata import Continuity
from minutebook.format.read_mark import ReadMark, decode_read_mark
from tests.fakes.clock import ManualClock
from tests.fakes.daemon_double import DaemonDouble, Lease
from tests.fakes.shard import SHARD, FakeShard
from tests.integration.archive_site import PREFIX, Site
from tests.integration.process_daemon import ProcessDaemon
from tests.witness.waiting import wait_until


def marks(site: Site) -> list[ReadMark]:
    """Return every read mark once."""
    keys = [row.key for row in site.store.list_objects(f"{PREFIX}_read/")]
    found = [(key, site.store.get(key)) for key in keys]
    return sorted({decode_read_mark(stored.body, PREFIX, key) for key, stored in found if stored is not None})


def has_mark_after_a_tick(processor: ProcessDaemon, site: Site) -> bool:
    """Let the daemon call once; tell whether there is a mark then."""
    processor.tick()
    return bool(marks(site))


def document(site: Site, key: str) -> bytes:
    """Return an object's body."""
    found = site.store.get(key)
    assert found is not None
    return found.body


def test_a_shard_that_holds_nothing_is_opened_and_marked(site: Site) -> None:
    """By a real process, on a stream that nobody has written to; times are the service's own."""
    before_ms = SystemClock().now_ms()
    with site.processor() as processor:
        processor.start()
        wait_until(lambda: has_mark_after_a_tick(processor, site), "a read mark is written")
        processor.request_shutdown()
        assert processor.close() == 0
    [mark] = marks(site)
    assert (mark.continuity, mark.position, mark.undelivered) == (Continuity.PROVEN, None, ())
    # The stream is seconds old, so the mark covers nothing yet; it says that the shard is open.
    assert mark.from_ms == mark.until_ms <= before_ms
    opened = decode_coverage_marker(document(site, opened_marker_key(PREFIX, SHARD)), OpenedMarker, "opened.json")
    assert (opened.sentinel, opened.starting_hash_key, opened.parents) == ("TRIM_HORIZON", "0", [])


def test_a_quiet_shard_is_marked_behind_its_last_record(site: Site) -> None:
    """A record of the real stream: found at the tail, and nothing behind it."""
    answer = site.kinesis.put_record(StreamName=site.name, Data=b"x", PartitionKey="p1")
    clock = ManualClock(SystemClock().now_ms())
    site.shard = FakeShard(first_sequence=int(answer["SequenceNumber"]))
    record = site.shard.put(b"x", clock.now_ms())
    daemon = DaemonDouble(Lease(site.shard), site.processor_here(clock))
    daemon.start()
    daemon.tick()
    assert marks(site) == [], "a record waits behind the tail"
    daemon.deliver()
    clock.advance(66)
    daemon.tick()
    clock.advance(75 * 60)
    for _ in range(15):
        daemon.tick()
        clock.advance(1)
    [mark] = marks(site)
    [segment] = site.segments()
    created_ms = KinesisStream(lambda: site.kinesis, site.name, clock, random.Random(1)).describe().created_ms
    assert (mark.continuity, mark.position) == (Continuity.PROVEN, record.position)
    assert mark.from_ms == max(created_ms, segment.metadata.minute * 60_000 - ARRIVAL_STEP_BACK_MS)
    assert (segment.metadata.continuity, segment.metadata.evidence_ms) == (Continuity.PROVEN, created_ms)


def test_consume_stores_the_first_shards(
    site: Site, embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once: a split later changes nothing."""
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    settings = Settings(
        stream_name=site.name,
        application_name=site.name,
        region=REGION,
        bucket=site.name,
        prefix=PREFIX,
        s3_endpoint=embedded_aws.s3_endpoint,
        kinesis_endpoint=embedded_aws.kinesis_endpoint,
        start="now",
    )
    settle_start(settings, stream_of(settings, SystemClock()), SystemClock())
    stored = document(site, first_shards_key(PREFIX))
    assert [shard.shard for shard in decode_coverage_marker(stored, FirstShards, "first.json").shards] == [SHARD]
    settle_start(settings, stream_of(settings, SystemClock()), SystemClock())
    assert document(site, first_shards_key(PREFIX)) == stored


def test_list_shards_tells_what_was_not_born_yet(site: Site) -> None:
    """A server that ignores the filter would name the child for every time; this one does not."""
    stream = KinesisStream(lambda: site.kinesis, site.name, SystemClock(), random.Random(1))
    time.sleep(2)  # noqa: TID251 - the service's clock decides
    stream.describe()
    before_ms = stream.service_ms()
    assert before_ms is not None, "the server names no Date"
    time.sleep(2)  # noqa: TID251 - the service's clock decides
    site.kinesis.split_shard(StreamName=site.name, ShardToSplit=SHARD, NewStartingHashKey=str(2**127))
    wait_until(lambda: len(stream.all_shards()) == 3, "the shard is split")
    assert list(stream.all_shards(at_ms=before_ms)) == [SHARD]
    assert msgspec.to_builtins(sorted(stream.all_shards(since_ms=before_ms))) == sorted(stream.all_shards())
