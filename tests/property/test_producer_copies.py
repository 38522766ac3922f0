"""Any history of repeated ids, any cutting into objects and partitions: of each event the first record stays."""

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from compaction.event_ids.copies import EventCopies, IdConflict, Layout, LineRef, Tallies, find_copies
from compaction.event_ids.dropping import DroppedLines, pack_drops, unpack_drops
from compaction.event_ids.rows import MOST_PAYLOADS, ROW_BYTES, IdCollector, IdOrder
from compaction.parquet.line_tables import LINE_SCHEMA


class Sent(NamedTuple):
    """One record: its event, an id (None: it has none) and the rest of the payload, and its arrival."""

    event: tuple[int, int] | None
    arrival_ms: int


class Copy(NamedTuple):
    """A record that is left out, and the one that stays; or one that conflicts with another one."""

    ref: LineRef
    original: LineRef


class Outcome(NamedTuple):
    """The copies, and the conflicts."""

    copies: list[Copy]
    conflicts: list[Copy]


class Known(NamedTuple):
    """A record that takes part, and the number of its shard."""

    arrival_ms: int
    shard: int
    ref: LineRef


_CHANCE = st.integers(0, 1 << 32).map(random.Random)
"""Seeded, and not Hypothesis' own: that one may stop a history while it is asked, with files open."""
_RECORD = st.builds(
    Sent, st.none() | st.tuples(st.integers(0, 4), st.integers(0, MOST_PAYLOADS - 1)), st.integers(0, 20)
)
_OBJECT = st.lists(_RECORD, max_size=9)
_SHARDS = st.lists(st.lists(_OBJECT, min_size=1, max_size=3), max_size=4)
"""A day: objects of shards, each a run of records in the order of positions."""


def copies_of(
    before: Sequence[Sequence[Sequence[Sent]]],
    day: Sequence[Sequence[Sequence[Sent]]],
    excluded: frozenset[int],
    partitions: int,
    rng: random.Random,
) -> Outcome:
    """Collect, compare and leave out as the job does: a task a shard, chunks in any order, little memory."""
    chunks: dict[int, list[bytes]] = {}
    number = 0
    starts = []
    first_of_day = sum(len(shard) for shard in before)
    for shard in [*before, *day]:
        if number >= first_of_day:
            starts.append(number)
        keys = [f"object-{number + index}" for index in range(len(shard))]
        collector = IdCollector(IdOrder("id", number, partitions), keys, rng.choice([1, 1 << 20]))
        for key, raw_object in zip(keys, shard, strict=True):
            cut = rng.randrange(len(raw_object) + 1)
            for part in (raw_object[:cut], raw_object[cut:]):
                collector.add([payload(sent) for sent in part], [sent.arrival_ms for sent in part], key)
        for partition, rows in collector.rows():
            chunks.setdefault(partition, []).append(rows)
        number += len(shard)
    objects = [raw_object for shard in [*before, *day] for raw_object in shard]
    layout = Layout(first_of_day, tuple(starts), excluded)
    found = Outcome([], [])
    tallies = Tallies(layout)
    for partition in chunks.values():
        rng.shuffle(partition)
        for copies in find_copies(partition, layout, rng.choice([1, 4 * ROW_BYTES, 1 << 20])):
            tallies.add(copies)
            if isinstance(copies, IdConflict):
                assert copies.total == 1
                found.conflicts.append(Copy(copies.first, copies.original))
                continue
            left_out = lines_of(copies, objects[copies.first.number])
            assert (left_out[0], len(left_out)) == (copies.first.line, copies.copies)
            found.copies.extend(Copy(LineRef(copies.first.number, line), copies.original) for line in left_out)
    assert sum(tally.copies.records for _, tally in tallies.shards()) == len(found.copies)
    assert sum(tally.conflicts.records for _, tally in tallies.shards()) == len(found.conflicts)
    return found


def lines_of(copies: EventCopies, raw_object: Sequence[Sent]) -> list[int]:
    """Return the lines that a task leaves out which is told of copies."""
    drops = unpack_drops([pack_drops(copies)], {copies.first.number: "key"})
    rows = [{"partition_key": str(line), "data": payload(sent).decode()} for line, sent in enumerate(raw_object)]
    table = pa.Table.from_pylist(rows, schema=LINE_SCHEMA)
    kept = DroppedLines("id", drops).remaining(table, 0, "key")["partition_key"].to_pylist()
    return [line for line in range(len(raw_object)) if str(line) not in kept]


def payload(sent: Sent) -> bytes:
    """Return the record's payload."""
    return b"no event" if sent.event is None else b'{"id":%d,"x":%d}' % sent.event


@given(_SHARDS, _SHARDS, st.frozensets(st.integers(0, 11), max_size=3), st.integers(1, 7), _CHANCE)
def test_of_each_event_exactly_the_first_record_stays(
    before: list[list[list[Sent]]],
    day: list[list[list[Sent]]],
    excluded: frozenset[int],
    partitions: int,
    rng: random.Random,
) -> None:
    """Events of the day before have none left; of the others one stays, and it is the first. Doubt keeps."""
    copies, conflicts = copies_of(before, day, excluded, partitions, rng)
    dropped = {copy.ref for copy in copies}
    assert len(dropped) == len(copies)
    numbers = itertools.count()
    old = {
        sent.event for shard in before for raw_object in shard if next(numbers) not in excluded for sent in raw_object
    }
    known: dict[tuple[int, int], list[Known]] = {}
    for index, shard in enumerate(day):
        for raw_object in shard:
            number = next(numbers)
            for line, sent in enumerate(raw_object):
                ref = LineRef(number, line)
                if sent.event is None or number in excluded:
                    assert ref not in dropped
                else:
                    known.setdefault(sent.event, []).append(Known(sent.arrival_ms, index, ref))
    for event, records in known.items():
        left = [record for record in records if record.ref not in dropped]
        if event in old:
            assert left == []
            continue
        assert len(left) == 1
        stays = left[0]
        # No earlier position in its shard, and no other shard whose first record of the event arrived before it.
        assert all(stays.ref <= record.ref for record in records if record.shard == stays.shard)
        for other in {record.shard for record in records} - {stays.shard}:
            first = min((record for record in records if record.shard == other), key=lambda record: record.ref)
            assert (stays.arrival_ms, stays.shard) < (first.arrival_ms, other)
    # Of each id, the event that came first is no conflict; of each other event it is the record that stays.
    kept = {event: next(record for record in known[event] if record.ref not in dropped) for event in {*known} - old}
    expected = set()
    for event, stays in kept.items():
        rivals = [other for other in {*kept, *old} - {event, None} if other is not None and other[0] == event[0]]
        if any(rival in old or _came_first(kept[rival], stays) for rival in rivals):
            expected.add(stays.ref)
    assert {conflict.ref for conflict in conflicts} == expected
    assert len(conflicts) == len(expected)


def _came_first(one: Known, other: Known) -> bool:
    return (one.arrival_ms, one.ref) < (other.arrival_ms, other.ref)


@given(_SHARDS, _SHARDS, st.integers(1, 7), _CHANCE)
def test_copies_name_a_record_of_the_same_event_that_stays(
    before: list[list[list[Sent]]], day: list[list[list[Sent]]], partitions: int, rng: random.Random
) -> None:
    """Whoever follows a copy finds its event; whoever follows a conflict, an event that only has its id."""
    copies, conflicts = copies_of(before, day, frozenset(), partitions, rng)
    objects = [raw_object for shard in [*before, *day] for raw_object in shard]
    dropped = {copy.ref for copy in copies}
    for copy in copies:
        assert copy.original not in dropped
        assert (
            objects[copy.ref.number][copy.ref.line].event == objects[copy.original.number][copy.original.line].event
        )
    for ref, original in conflicts:
        event, other = objects[ref.number][ref.line].event, objects[original.number][original.line].event
        assert event is not None
        assert other is not None
        assert event[0] == other[0]
        assert event != other
        assert not dropped & {ref, original}
