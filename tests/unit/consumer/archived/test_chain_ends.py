"""Finding the ends of chains from names: what is found, in spite of what, and at what price."""

import random
from collections.abc import Iterable, Mapping
from datetime import date, timedelta

import pytest

from archive.errors import FormatError, StoreUnavailable
from archive.format.keys import segment_key
from archive.format.metadata import ChainStart, SegmentMetadata
from archive.format.position import Position
from archive.retry import Backoff
from archive.store.retrying import RetryingStore
from consumer.archived.chain_ends import ChainEnd, find_ends
from consumer.archived.walk import Window, days_with_objects
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.memory_store import EndlessFault, Fault, MemoryBucket, MemoryStore, PlannedFaults

PREFIX = "raw/"
A, B = "shardId-000000000000", "shardId-000000000001"
NOW = START_MS // 60_000
HOUR, DAY = 60, 1440


def waits() -> Backoff:
    """Return a small budget on a clock that costs no time."""
    return Backoff(ManualClock(), random.Random(1), budget_seconds=5)


def chain(
    bucket: MemoryBucket, shard_id: str, minutes: Iterable[int], *, missing: Iterable[int] = ()
) -> list[Position]:
    """Store one segment in each of these minutes, in this order of positions; returns their last positions."""
    after: Position | ChainStart = ChainStart("TRIM_HORIZON")
    lasts = []
    for number, minute in enumerate(minutes):
        first, last = Position(1000 + 10 * number), Position(1005 + 10 * number)
        metadata = SegmentMetadata(
            shard_id=shard_id,
            minute=minute,
            first=first,
            last=last,
            after=after,
            records=2,
            dropped=0,
            payload_bytes=2,
            arrival_min_ms=minute * 60_000,
            arrival_max_ms=minute * 60_000 + 1,
            writer=f"w{number}",
        )
        if number not in missing:
            bucket.place(segment_key(PREFIX, shard_id, minute, first), b"", metadata.encode())
        after = last
        lasts.append(last)
    return lasts


def ends(store: MemoryStore, shards: Mapping[str, int], newest: int = NOW) -> dict[str, ChainEnd]:
    """Search from `newest` back."""
    return find_ends(RetryingStore(store, waits), PREFIX, shards, newest)


def test_the_tail_is_the_last_segment() -> None:
    """Of each shard, in whatever minute."""
    bucket = MemoryBucket()
    of_a, of_b = chain(bucket, A, [NOW - 3, NOW - 2, NOW]), chain(bucket, B, [NOW - 90, NOW - 70])
    found = ends(MemoryStore(bucket), {A: 0, B: 0})
    assert {shard: one.tail.last for shard, one in found.items()} == {A: of_a[-1], B: of_b[-1]}


def test_the_tail_is_the_greatest_position_not_the_newest_minute() -> None:
    """Arrival times stepped back by an hour and a half: the last segment lies in an older minute."""
    bucket = MemoryBucket()
    lasts = chain(bucket, A, [*range(NOW - 6, NOW), NOW - 90])
    assert ends(MemoryStore(bucket), {A: 0})[A].tail.last == lasts[-1]


def test_a_tail_further_back_than_the_walk_gives_an_older_end() -> None:
    """Which is still the end of a segment, so a start there is right and only costs reading."""
    bucket = MemoryBucket()
    lasts = chain(bucket, A, [NOW - 1, NOW, NOW - 2 * DAY])
    assert ends(MemoryStore(bucket), {A: 0})[A].tail.last == lasts[1]


def test_a_quiet_shard_is_found_across_empty_years() -> None:
    """Empty years, months and days cost a request each: 4 years, and then month, days and hours."""
    bucket = MemoryBucket()
    lasts = chain(bucket, A, [NOW - 4 * 365 * DAY])
    store = MemoryStore(bucket)
    assert ends(store, {A: 0})[A].tail.last == lasts[-1]
    assert store.requests["LIST"] < 100


def test_a_busy_hour_is_listed_once_for_all_shards() -> None:
    """Three probes of year, month and day, and the hours within reach."""
    bucket = MemoryBucket()
    for number in range(20):
        chain(bucket, f"shardId-{number:012d}", range(NOW - 5 * HOUR, NOW))
    store = MemoryStore(bucket)
    assert len(ends(store, {f"shardId-{number:012d}": 0 for number in range(20)})) == 20
    assert store.requests["LIST"] <= 3 + 4 * 2


def test_a_shard_without_segments_is_left_out() -> None:
    """And ends the walk at the oldest minute that it could have."""
    bucket = MemoryBucket()
    chain(bucket, A, range(NOW - 30 * HOUR, NOW))
    store = MemoryStore(bucket)
    assert list(ends(store, {A: 0, B: NOW - 3 * HOUR})) == [A]
    assert store.requests["LIST"] <= 3 + 5


def test_the_end_of_an_older_part_is_found() -> None:
    """The walk begins where it is told: what is newer does not count."""
    bucket = MemoryBucket()
    lasts = chain(bucket, A, range(NOW - 10, NOW))
    assert ends(MemoryStore(bucket), {A: 0}, NOW - 6)[A].tail.last == lasts[4]


def test_foreign_names_are_passed_by() -> None:
    """Notes that somebody left among the minutes."""
    bucket = MemoryBucket()
    lasts = chain(bucket, A, [NOW])
    folder = segment_key(PREFIX, A, NOW, Position(1)).rpartition("/")[0]
    bucket.place(f"{folder}/notes.txt", b"")
    bucket.place(f"{PREFIX}2099/readme", b"")
    assert ends(MemoryStore(bucket), {A: 0})[A].tail.last == lasts[-1]


def test_a_whole_chain_has_no_holes() -> None:
    """Each names the one before it."""
    bucket = MemoryBucket()
    lasts = chain(bucket, A, range(NOW - 10, NOW))
    found = ends(MemoryStore(bucket), {A: 0})[A]
    assert (found.holes, found.before_holes.last) == ((), lasts[-1])


def test_a_missing_segment_is_a_hole() -> None:
    """Known from the `after` of the next one; the place before it is where to read again from."""
    bucket = MemoryBucket()
    lasts = chain(bucket, A, range(NOW - 10, NOW), missing=[8])
    found = ends(MemoryStore(bucket), {A: 0})[A]
    assert (found.holes, found.before_holes.last, found.tail.last) == ((lasts[7],), lasts[7], lasts[9])


def test_a_segment_that_contradicts_its_name_is_refused() -> None:
    """Doubt about a chain's end is not an end."""
    bucket = MemoryBucket()
    chain(bucket, A, [NOW])
    (key,) = bucket.keys(PREFIX)
    bucket.place(key, b"", {**bucket.metadata(key), "first": "999:0"})
    with pytest.raises(FormatError, match="another segment"):
        ends(MemoryStore(bucket), {A: 0})


@pytest.mark.parametrize("verb", ["LIST", "HEAD"])
def test_a_passing_fault_is_asked_again(verb: str) -> None:
    """Reads may be repeated."""
    bucket = MemoryBucket()
    lasts = chain(bucket, A, [NOW])
    store = MemoryStore(bucket, PlannedFaults(Fault.THROTTLED, Fault.ANSWER_LOST, verb=verb))
    assert ends(store, {A: 0})[A].tail.last == lasts[-1]


def test_an_outage_is_an_error_never_an_empty_archive() -> None:
    """Else restore would begin every shard anew."""
    bucket = MemoryBucket()
    chain(bucket, A, [NOW])
    with pytest.raises(StoreUnavailable):
        ends(MemoryStore(bucket, EndlessFault(Fault.THROTTLED)), {A: 0})


def test_days_with_objects_are_found_newest_first() -> None:
    """Empty days are left out."""
    bucket = MemoryBucket()
    chain(bucket, A, [NOW - 40 * DAY, NOW - 3 * DAY, NOW])
    today = date(1970, 1, 1) + timedelta(minutes=NOW)
    found = list(days_with_objects(RetryingStore(MemoryStore(bucket), waits), PREFIX, Window(0, NOW)))
    assert found == [today, today - timedelta(days=3), today - timedelta(days=40)]
