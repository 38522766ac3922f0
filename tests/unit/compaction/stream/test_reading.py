"""Reading a shard again: slice by slice as in one piece, at its share, and never whole where records have left."""

import random
from collections.abc import Sequence

import pytest

from compaction.stream.kinesis import ArchivedStream, ReadLog, ReadSpan, Sent
from compaction.stream.pace import BYTES_A_SECOND, CALLS_A_SECOND
from minutebook.format.position import Position
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
