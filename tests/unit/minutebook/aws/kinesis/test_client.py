"""Requests to a stream: pages, filters, places, budgets, and the service's time that every answer tells."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from minutebook.aws.answers import epoch_ms
from minutebook.aws.kinesis.answers import Beginning, ListedShard
from minutebook.aws.kinesis.client import StreamClient
from minutebook.errors import StreamRefused, StreamUnavailable
from tests.fakes.clock import START_MS, ManualClock

DATE, DATE_MS = "Sat, 21 Nov 2026 10:00:00 GMT", START_MS - 16 * 60_000


class Boto:
    """Answers each operation by a function of its parameters, and remembers what it was asked."""

    def __init__(self, **answers: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._answers = answers
        self.requests: list[dict[str, Any]] = []

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        """Return the operation."""

        def request(**parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - boto3's parameters
            self.requests.append(parameters)
            return self._answers[operation](parameters) | {"ResponseMetadata": {"HTTPHeaders": {"date": DATE}}}

        return request


def stream_of(boto: Boto, clock: ManualClock | None = None) -> StreamClient:
    """Return a client of the stream `s`."""
    return StreamClient(lambda: boto, "s", clock or ManualClock(), random.Random(1), budget_seconds=60)  # type: ignore[arg-type,return-value] # what is used of it


def row(number: int, **more: object) -> dict[str, Any]:
    """Return a row of ListShards."""
    keys = {"StartingHashKey": "0", "EndingHashKey": "9"}
    return {"ShardId": f"shard-{number}", "HashKeyRange": keys, "SequenceNumberRange": {}, **more}


def refused(code: str) -> ClientError:
    """Return an error of the service."""
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "GetRecords")  # type: ignore[typeddict-item] # what is read of it


def test_every_page_of_the_listing_is_read() -> None:
    """A further page is asked for by its token alone; parents and ends are told."""
    second = row(2, ParentShardId="shard-1", AdjacentParentShardId="shard-0")
    second["SequenceNumberRange"] = {"EndingSequenceNumber": "7"}
    pages = {None: {"Shards": [row(1)], "NextToken": "more"}, "more": {"Shards": [second]}}
    boto = Boto(list_shards=lambda asked: pages[asked.get("NextToken")])
    assert list(stream_of(boto).shards()) == [
        ListedShard("shard-1", "0", "9", (), closed=False),
        ListedShard("shard-2", "0", "9", ("shard-0", "shard-1"), closed=True),
    ]
    assert boto.requests == [{"StreamName": "s"}, {"NextToken": "more"}]


@pytest.mark.parametrize(
    ("times", "kind"), [({"at_ms": 5000}, "AT_TIMESTAMP"), ({"since_ms": 5000}, "FROM_TIMESTAMP")]
)
def test_shards_are_listed_as_of_a_time(times: dict[str, int], kind: str) -> None:
    """In seconds, as the service wants it."""
    boto = Boto(list_shards=lambda _: {"Shards": []})
    assert list(stream_of(boto).shards(**times)) == []
    assert boto.requests == [{"StreamName": "s", "ShardFilter": {"Type": kind, "Timestamp": 5.0}}]


@pytest.mark.parametrize(
    ("beginning", "place"),
    [
        (Beginning(7, 5000), {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "7"}),
        (Beginning(since_ms=5000), {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 5.0}),
        (Beginning(), {"ShardIteratorType": "TRIM_HORIZON"}),
    ],
)
def test_reading_begins_at_a_number_a_time_or_the_oldest_record(beginning: Beginning, place: dict[str, Any]) -> None:
    """In that order; the answer tells the service's time."""
    boto = Boto(get_shard_iterator=lambda _: {"ShardIterator": "i"})
    answer = stream_of(boto).begin("shard-1", beginning)
    assert (answer.iterator, answer.date_ms) == ("i", DATE_MS)
    assert boto.requests == [{"StreamName": "s", "ShardId": "shard-1", **place}]


def test_the_services_time_goes_on_with_the_clock() -> None:
    """A second later than the Date, which has no parts of one; all budgets of a stream share it."""
    clock = ManualClock()
    stream = stream_of(Boto(get_shard_iterator=lambda _: {"ShardIterator": "i"}), clock)
    assert stream.service_ms() is None
    stream.within(0).begin("shard-1", Beginning())
    clock.advance(5)
    assert stream.service_ms() == DATE_MS + 6000


@pytest.mark.parametrize(
    ("date", "moment"),
    [(DATE, DATE_MS), ("Sat, 21 Nov 2026 10:00:00", DATE_MS), ("yesterday", None), ("", None), (None, None)],
)
def test_a_damaged_date_is_none(date: str | None, moment: int | None) -> None:
    """One without a zone is of UTC."""
    assert epoch_ms(date) == moment


def test_a_throttled_request_is_sent_again_within_its_budget() -> None:
    """And what cannot be answered better is refused at once."""
    codes = ["ProvisionedThroughputExceededException"] * 3

    def throttled(_: dict[str, Any]) -> dict[str, Any]:
        if codes:
            raise refused(codes.pop())
        return {"Records": [], "MillisBehindLatest": 9}

    clock, boto = ManualClock(), Boto(get_records=throttled)
    answer = stream_of(boto, clock).read("shard-1", "i", most=3)
    assert (answer.iterator, answer.records, answer.behind_ms) == (None, (), 9)
    assert (len(boto.requests), len(clock.slept)) == (4, 3)
    codes = ["ProvisionedThroughputExceededException"] * 1000
    with pytest.raises(StreamUnavailable, match="GetRecords of shard-1 of stream 's'"):
        stream_of(boto, clock).read("shard-1", "i")
    codes = ["ExpiredIteratorException"]
    with pytest.raises(StreamRefused, match="ExpiredIteratorException"):
        stream_of(boto, clock).read("shard-1", "i")
