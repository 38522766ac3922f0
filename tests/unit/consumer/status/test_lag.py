"""Lag: what one GetRecords after the archive's end tells, and what is said when it tells nothing."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from consumer.archived.application import KclStart
from consumer.status.facts import LagReader
from consumer.status.report import Lag
from minutebook.format.position import Position
from tests.fakes.clock import START_MS
from tests.witness.aggregate import aggregate

SHARD = "shardId-000000000000"
ITERATOR = {"ShardIterator": "next"}
TAIL = Position(4968, 7)


class Stream:
    """botocore's own client with planned answers."""

    def __init__(self) -> None:
        client = boto3.session.Session().client(
            "kinesis", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        self.stub = Stubber(client)
        self.reader = LagReader(client, "flights")

    def lag(self, tail: Position | KclStart = TAIL) -> Lag:
        """Return the lag behind `tail`."""
        return self.reader.read({}, {SHARD: tail}, START_MS)[SHARD]

    def iterator(self, **position: Any) -> None:  # noqa: ANN401 - request fields
        """Expect GetShardIterator."""
        self.stub.add_response(
            "get_shard_iterator", ITERATOR, {"StreamName": "flights", "ShardId": SHARD, **position}
        )

    def records(self, *arrivals_ms: int, behind_ms: int = 0, tail: bytes | None = b"x", limit: int = 2) -> None:
        """Answer GetRecords, first with the tail's own record, which arrived ten seconds ago."""
        rows = [
            {
                "SequenceNumber": sequence,
                "Data": data,
                "PartitionKey": "p",
                "ApproximateArrivalTimestamp": dt.datetime.fromtimestamp(arrival / 1000, dt.UTC),
            }
            for sequence, data, arrival in [
                *([] if tail is None else [("4968", tail, START_MS - 10_000)]),
                *(("4969", b"x", arrival) for arrival in arrivals_ms),
            ]
        ]
        expected = {"ShardIterator": "next", "Limit": limit}
        self.stub.add_response("get_records", {"Records": rows, "MillisBehindLatest": behind_ms}, expected)


@pytest.fixture
def stream() -> Iterator[Stream]:
    """Return a stream whose planned answers must all be taken."""
    made = Stream()
    with made.stub:
        yield made
        made.stub.assert_no_pending_responses()


def at_tail(stream: Stream) -> None:
    """Expect the iterator at the tail."""
    stream.iterator(ShardIteratorType="AT_SEQUENCE_NUMBER", StartingSequenceNumber="4968")


def test_the_lag_is_the_age_of_the_oldest_record_behind_the_tail(stream: Stream) -> None:
    """Whatever MillisBehindLatest says."""
    at_tail(stream)
    stream.records(START_MS - 41_000, behind_ms=1)
    assert stream.lag() == Lag(41.0, "record")


def test_an_idle_shard_has_no_lag(stream: Stream) -> None:
    """Nothing lies behind the tail."""
    at_tail(stream)
    stream.records()
    assert stream.lag() == Lag(0.0, "stream")


def test_an_empty_answer_on_the_way_is_taken_at_its_word(stream: Stream) -> None:
    """Kinesis may answer without records while it is behind."""
    at_tail(stream)
    stream.records(behind_ms=90_000)
    assert stream.lag() == Lag(90.0, "stream")


def test_a_slow_clock_gives_no_negative_lag(stream: Stream) -> None:
    """The arrival is the stream's time."""
    at_tail(stream)
    stream.records(START_MS + 500)
    assert stream.lag().seconds == 0


@pytest.mark.parametrize(
    ("start", "position"),
    [
        (KclStart(None), {"ShardIteratorType": "TRIM_HORIZON"}),
        (KclStart(START_MS // 1000), {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": START_MS // 1000}),
    ],
)
def test_a_shard_without_an_archive_is_read_from_its_start(
    stream: Stream, start: KclStart, position: dict[str, Any]
) -> None:
    """What lies before the application's start is not behind."""
    stream.iterator(**position)
    stream.records(START_MS - 5000, tail=None, limit=1)
    assert stream.lag(start) == Lag(5.0, "record")


@pytest.mark.parametrize(("users", "lag"), [(8, Lag(0.0, "stream")), (9, Lag(10.0, "record"))])
def test_the_rest_of_an_aggregate_is_behind(stream: Stream, users: int, lag: Lag) -> None:
    """A segment may end within one, by size or age; then its reader died. The tail is the eighth user record."""
    at_tail(stream)
    stream.records(tail=aggregate([("p", b"x")] * users))
    assert stream.lag() == lag


def test_a_tail_that_the_stream_holds_no_more_hides_nothing(stream: Stream) -> None:
    """What comes first then lies behind it."""
    at_tail(stream)
    stream.records(START_MS - 7_000, tail=None)
    assert stream.lag() == Lag(7.0, "record")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("InvalidArgumentException", "older than the stream's retention"),
        ("ResourceNotFoundException", "older than the stream's retention"),
        ("ProvisionedThroughputExceededException", "throttled"),
        ("AccessDeniedException", "AccessDenied"),
    ],
)
def test_what_cannot_be_read_is_unknown_with_its_reason(stream: Stream, code: str, words: str) -> None:
    """Never zero."""
    stream.stub.add_client_error("get_shard_iterator", code)
    lag = stream.lag()
    assert (lag.seconds, words in lag.note) == (None, True)
