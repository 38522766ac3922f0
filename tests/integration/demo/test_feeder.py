"""The feeder on a real stream: the ledger is what the stream holds, retries included."""

import random
from typing import TYPE_CHECKING

import pytest

from demo.embedded import EmbeddedAws
from demo.feeder import Feeder, Pace
from demo.flights import read_flights
from demo.ledger import Ledger, RecordRef, fingerprint
from minutebook.clock import SystemClock, new_id
from minutebook.errors import MinutebookError
from minutebook.format.position import Position

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


@pytest.fixture
def stream(kinesis_client: "KinesisClient") -> str:
    """Return the name of a fresh stream with two shards."""
    name = f"feeder-{new_id()[:8]}"
    kinesis_client.create_stream(StreamName=name, ShardCount=2)
    kinesis_client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    return name


def new_feeder(aws: EmbeddedAws, stream: str, pace: Pace, ledger: Ledger) -> Feeder:
    """Return a feeder of flights."""
    client = aws.kinesis_client(total_max_attempts=1)
    return Feeder(client, stream, read_flights(), ledger, pace, clock=SystemClock(), rng=random.Random(1))


def test_the_ledger_is_what_the_stream_holds(
    embedded_aws: EmbeddedAws, kinesis_client: "KinesisClient", stream: str
) -> None:
    """Each record under the shard and sequence number that the put returned, byte for byte; retries are records."""
    ledger = Ledger()
    feeder = new_feeder(embedded_aws, stream, Pace(events=300, seconds=0.5, batch=50, retry_share=0.5), ledger)
    feeder.start()
    feeder.join()
    feeder.check()
    assert ledger.records() == _contents(kinesis_client, stream)
    totals = ledger.totals()
    assert totals.events == 300
    assert totals.retries > 0


def test_late_and_recent_retries_repeat_events(embedded_aws: EmbeddedAws, stream: str) -> None:
    """Some of each batch again later, the last ones again on demand: more records, and not one event more."""
    ledger = Ledger()
    feeder = new_feeder(
        embedded_aws,
        stream,
        Pace(events=100, seconds=0.5, batch=20, retry_share=0, late_retries=3, late_seconds=0),
        ledger,
    )
    feeder.start()
    feeder.join()
    feeder.check()
    assert ledger.totals() == (115, 15)
    feeder.retry_recent()
    assert ledger.totals() == (215, 115)
    assert len(set(ledger.events().values())) == 100


def test_a_failure_reaches_the_main_thread(embedded_aws: EmbeddedAws) -> None:
    """A feeder that cannot put is an error, not a silence."""
    feeder = new_feeder(embedded_aws, "no-such-stream", Pace(events=10, seconds=0), Ledger())
    feeder.start()
    feeder.join()
    with pytest.raises(MinutebookError, match="the feeder failed"):
        feeder.check()


def test_stop_ends_a_feeder_that_waits_for_its_pace(embedded_aws: EmbeddedAws, stream: str) -> None:
    """It does not sleep through the request to stop."""
    ledger = Ledger()
    feeder = new_feeder(embedded_aws, stream, Pace(events=10_000, seconds=10_000, batch=10, retry_share=0), ledger)
    feeder.start()
    feeder.stop()
    feeder.check()
    assert not feeder.is_alive()
    assert ledger.totals().records <= 10


def _contents(client: "KinesisClient", stream: str) -> dict[RecordRef, bytes]:
    """Read the whole stream; each shard until it is caught up with."""
    found: dict[RecordRef, bytes] = {}
    for shard in client.list_shards(StreamName=stream)["Shards"]:
        shard_id = shard["ShardId"]
        iterator = client.get_shard_iterator(StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON")[
            "ShardIterator"
        ]
        while True:
            answer = client.get_records(ShardIterator=iterator, Limit=1000)
            for record in answer["Records"]:
                place = RecordRef(shard_id, Position(int(record["SequenceNumber"])))
                found[place] = fingerprint(record["PartitionKey"], record["Data"])
            if answer["MillisBehindLatest"] == 0:
                break
            iterator = answer["NextShardIterator"]
    return found
