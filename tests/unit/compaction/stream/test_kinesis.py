"""The stream as an audit reads it: its shards, their records slice by slice, and aggregates taken apart."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.stream.kinesis import (
    BYTES_A_SECOND,
    CALLS_A_SECOND,
    ArchivedStream,
    ReadLog,
    ReadSpan,
    Sent,
    once_in_vain,
    user_records,
)
from minutebook.errors import StreamRefused, StreamUnavailable
from minutebook.format.aggregate import MAGIC, UserRecord, deaggregate
from minutebook.format.position import Position
from tests.fakes.aggregates import SHAPES
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.held_kinesis import Held, HeldKinesis
from tests.witness.aggregate import aggregate

SHARD = "shardId-000000000000"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
BEGIN_MS, END_MS = START_MS - 10 * HOUR_MS, START_MS - HOUR_MS


def held(count: int, *, begin_ms: int = BEGIN_MS, step_ms: int = 1000, size: int = 10) -> list[Held]:
    """Return records; every tenth is an aggregate of three."""
    inner = [(f"a{sub}", bytes([sub]) * size) for sub in range(3)]
    return [
        Held(
            1000 + 7 * number,
            begin_ms + number * step_ms,
            "k",
            aggregate(inner) if number % 10 == 3 else b"%d" % number + bytes(size),
        )
        for number in range(count)
    ]


class Shard:
    """A shard that is read."""

    def __init__(
        self, records: Sequence[Held], *, share: float = 1.0, most: int = 10_000, page: int = 10_000
    ) -> None:
        self.clock = ManualClock()
        self.client = HeldKinesis(self.clock, records, created_ms=1, most=most)
        self.reader = ArchivedStream(
            self.client,  # type: ignore[arg-type]  # the calls that are made
            "corpus",
            self.clock,
            random.Random(1),
            share=share,
            page_records=page,
        )

    def read(self, reach: ReadSpan) -> tuple[list[Sent], ReadLog]:
        """Read a reach."""
        log = ReadLog()
        return list(self.reader.read(SHARD, reach, log)), log

    def read_slices(self, stops: Sequence[Position], begin_ms: int = BEGIN_MS) -> tuple[list[Sent], list[ReadLog]]:
        """Read the shard in slices that end before these positions, one after another."""
        found, logs, at = list[Sent](), list[ReadLog](), None
        for start, stop in zip([None, *stops], [*stops, None], strict=True):
            sent, log = self.read(ReadSpan(begin_ms, END_MS, start, stop, at, 1))
            found += sent
            logs.append(log)
            at = log.next_sequence
            if at is None:
                break
        return found, logs


def test_slices_are_what_one_reading_is() -> None:
    """Cut anywhere: between records, at one that is not there, within an aggregate, and in a row at one place."""
    whole, _ = Shard(held(60)).read(ReadSpan(BEGIN_MS, END_MS, created_ms=1))
    assert len(whole) == 60 + 2 * 6
    for stop in (Position(1000, 0), Position(1021, 0), Position(1021, 1), Position(1021, 2), Position(1022, 0)):
        found, logs = Shard(held(60), page=7).read_slices([stop, Position(1021, 2), Position(1300, 0)])
        assert found == whole, stop
        assert not any(log.is_broken for log in logs)


def test_a_slice_that_does_not_begin_where_the_one_before_ended_is_broken() -> None:
    """Its first record has left the stream meanwhile: what it begins with is not what comes next."""
    shard = Shard(held(60))
    _, first = shard.read(ReadSpan(BEGIN_MS, END_MS, None, Position(1070, 0), None, 1))
    assert first.next_sequence == 1070
    shard.client.records = [row for row in shard.client.records if row.sequence > 1070]
    found, log = shard.read(ReadSpan(BEGIN_MS, END_MS, Position(1070, 0), None, 1070, 1))
    assert (found, log.is_broken) == ([], True)
    shard.client.records = []
    found, log = shard.read(ReadSpan(BEGIN_MS, END_MS, Position(1070, 0), None, 1070, 1))
    assert (found, log.is_broken) == ([], True)


def test_a_reading_that_retention_overtakes_is_broken() -> None:
    """Its share is so small that records leave the stream in front of it; the service passes over them silently."""
    begin_ms = START_MS - DAY_MS + 2 * 60_000
    records = held(3000, begin_ms=begin_ms, step_ms=100, size=1000)
    found, log = Shard(records, share=0.002).read(ReadSpan(begin_ms, END_MS, created_ms=1))
    assert log.is_broken
    assert len(found) < 3000
    found, log = Shard(records).read(ReadSpan(begin_ms, END_MS, created_ms=1))
    assert (len(found), log.is_broken) == (3000 + 2 * 300, False)


def test_what_has_left_before_is_told_and_not_asked_for() -> None:
    """The first minute behind the edge is left out: it moves."""
    begin_ms = START_MS - DAY_MS - HOUR_MS
    found, log = Shard(held(7200, begin_ms=begin_ms)).read(ReadSpan(begin_ms, END_MS, created_ms=1))
    assert (log.is_trimmed, log.is_broken, log.since_ms) == (True, False, START_MS - DAY_MS + 60_000)
    assert found[0].arrival_ms >= log.since_ms


def test_the_first_record_given_is_named_whatever_the_retention_says() -> None:
    """Raised from a day to a week an hour ago, it tells nothing of what had been trimmed; nor does a silent shard."""
    begin_ms = START_MS - 3 * DAY_MS
    for records, oldest in ((held(60), 1000), (held(60)[20:], 1140), ([], None)):
        shard = Shard(records)
        shard.client.retention_hours = 168
        _, log = shard.read(ReadSpan(begin_ms, begin_ms + DAY_MS, created_ms=1, retention_ms=7 * DAY_MS))
        assert (log.is_trimmed, log.oldest) == (False, oldest)


def test_slices_go_on_where_the_day_began_longer_ago_than_the_stream_keeps() -> None:
    """What the first slice told has left is told once: a further one stands at a record that is held."""
    begin_ms = START_MS - DAY_MS - HOUR_MS
    whole, _ = Shard(held(7200, begin_ms=begin_ms)).read(ReadSpan(begin_ms, END_MS, created_ms=1))
    stops = [Position(1000 + 7 * number, 0) for number in (3700, 5000, 6000)]
    found, logs = Shard(held(7200, begin_ms=begin_ms)).read_slices(stops, begin_ms)
    assert [(log.is_trimmed, log.is_broken) for log in logs] == [(True, False), *[(False, False)] * 3]
    assert found == whole


@pytest.mark.parametrize("share", [0.1, 0.4, 1.0])
@pytest.mark.parametrize("size", [20, 1000, 300_000])
def test_a_reading_takes_its_share_and_no_more(share: float, size: int) -> None:
    """Of calls and of bytes, over any ten seconds; no page is so large that it locks the others out."""
    count = 20_000 if size < 1000 else 4000 if size == 1000 else 40
    shard = Shard(held(count, step_ms=1, size=size), share=share)
    _, log = shard.read(ReadSpan(BEGIN_MS, END_MS, created_ms=1))
    calls = shard.client.calls
    assert not log.is_broken
    for number, first in enumerate(calls):
        within = [call for call in calls[number:] if call.at < first.at + 10]
        assert len(within) <= 10 * CALLS_A_SECOND * share + 1
        assert sum(call.size for call in within[:-1]) <= 10 * BYTES_A_SECOND * share * 1.001
    assert all(call.size <= 1_000_000 or call.records == 1 or call is calls[0] for call in calls)


def test_a_stream_out_of_reach_is_waited_for_once() -> None:
    """Each day of the run is told the same, at once."""
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        raise StreamUnavailable("no answer for 15 s", next_step="look at the endpoint")

    listing = once_in_vain(ask)
    for _ in range(3):
        with pytest.raises(StreamUnavailable, match="no answer"):
            listing()
    assert len(asked) == 1


def test_what_answers_is_asked_each_time() -> None:
    """A refusal costs no wait, and shards may be split between two days."""
    answers = iter([1, 2, StreamRefused("no such stream", next_step="name it"), 3])

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    listing = once_in_vain(ask)
    assert [listing(), listing()] == [1, 2]
    with pytest.raises(StreamRefused):
        listing()
    assert listing() == 3


@given(st.lists(st.tuples(st.text(min_size=1, max_size=20), st.binary(max_size=300)), min_size=1, max_size=20))
def test_an_aggregate_comes_apart_as_it_was_put_together(records: list[tuple[str, bytes]]) -> None:
    """Keys, payloads and order come back; sub-sequence numbers count from 0."""
    expected = [UserRecord(sub, key, data) for sub, (key, data) in enumerate(records)]
    assert user_records("ignored", aggregate(records)) == expected


@given(st.binary(max_size=200))
def test_anything_else_is_a_plain_record(data: bytes) -> None:
    """Bytes that are no aggregate are one record, whole."""
    assert user_records("key", data) == [UserRecord(0, "key", data)]
    assert user_records("key", MAGIC + data) == [UserRecord(0, "key", MAGIC + data)]


@pytest.mark.parametrize("cut", [1, 5, 16, 20])
def test_a_damaged_aggregate_is_a_plain_record(cut: int) -> None:
    """A digest that does not fit means that the producer did not aggregate: nothing is guessed."""
    data = aggregate([("a", b"1"), ("b", b"2")])[:-cut]
    assert user_records("key", data) == [UserRecord(0, "key", data)]


@pytest.mark.parametrize("name", SHAPES)
def test_the_audit_counts_what_kcl_delivers_and_what_it_withholds(name: str) -> None:
    """Under the numbers that KCL gives, so that a loss inside KCL has a position."""
    shape = SHAPES[name]
    delivery = deaggregate("key", shape.data)
    found = user_records("key", shape.data)
    assert [user.sub for user in found] == list(range(len(found)))
    assert [user for user in found if user not in delivery.withheld] == delivery.delivered
