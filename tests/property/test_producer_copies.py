"""Any history with repeated events, any cutting into pieces and partitions: of each event the first record stays."""

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from compaction.tasks.event_ids import Copy, IdCollector, IdOrder, Layout, LineRef, find_copies, unpack_copies


class Sent(NamedTuple):
    """One record: its event (None: it has no id), and its arrival."""

    event: int | None
    arrival_ms: int


_RECORD = st.builds(Sent, st.none() | st.integers(0, 5), st.integers(0, 20))
_PIECE = st.lists(_RECORD, max_size=6)
_SHARDS = st.lists(st.lists(_PIECE, min_size=1, max_size=3), max_size=4)
"""A day: pieces of shards, each a run of records in the order of positions."""


def copies_of(
    before: Sequence[Sequence[Sequence[Sent]]],
    day: Sequence[Sequence[Sequence[Sent]]],
    excluded: frozenset[int],
    partitions: int,
    rng: random.Random,
) -> list[Copy]:
    """Collect and compare as the job does: a task a shard, chunks in any order."""
    chunks: dict[int, list[bytes]] = {}
    number = 0
    starts = []
    first_of_day = sum(len(shard) for shard in before)
    for shard in [*before, *day]:
        if number >= first_of_day:
            starts.append(number)
        keys = [f"piece-{number + index}" for index in range(len(shard))]
        collector = IdCollector(IdOrder("id", number, partitions), keys)
        for key, piece in zip(keys, shard, strict=True):
            cut = rng.randrange(len(piece) + 1)
            for part in (piece[:cut], piece[cut:]):
                collector.add([payload(one) for one in part], [one.arrival_ms for one in part], key)
        for partition, rows in collector.rows():
            chunks.setdefault(partition, []).append(rows)
        number += len(shard)
    layout = Layout(first_of_day, tuple(starts), excluded)
    for dealt in chunks.values():
        rng.shuffle(dealt)
    return sorted(copy for dealt in chunks.values() for copy in unpack_copies(find_copies(dealt, layout)))


def payload(one: Sent) -> bytes:
    """Return the record's payload."""
    return b"no event" if one.event is None else f'{{"id":{one.event}}}'.encode()


@given(_SHARDS, _SHARDS, st.frozensets(st.integers(0, 11), max_size=3), st.integers(1, 7), st.randoms())
def test_of_each_event_exactly_the_first_record_stays(
    before: list[list[list[Sent]]],
    day: list[list[list[Sent]]],
    excluded: frozenset[int],
    partitions: int,
    rng: random.Random,
) -> None:
    """Events of the day before have none left; of the others one stays, and it is the first. Doubt keeps."""
    copies = copies_of(before, day, excluded, partitions, rng)
    dropped = {copy.ref for copy in copies}
    assert len(dropped) == len(copies)
    numbers = itertools.count()
    old = {one.event for shard in before for piece in shard if next(numbers) not in excluded for one in piece}
    known: dict[int, list[tuple[int, int, LineRef]]] = {}
    for index, shard in enumerate(day):
        for piece in shard:
            number = next(numbers)
            for line, one in enumerate(piece):
                place = LineRef(number, line)
                if one.event is None or number in excluded:
                    assert place not in dropped
                else:
                    known.setdefault(one.event, []).append((one.arrival_ms, index, place))
    for event, records in known.items():
        left = [one for one in records if one[2] not in dropped]
        if event in old:
            assert left == []
            continue
        assert len(left) == 1
        arrival, shard_index, place = left[0]
        # No earlier position in its shard, and no other shard whose first record of the event arrived before it.
        assert all(place <= one[2] for one in records if one[1] == shard_index)
        for other in {one[1] for one in records} - {shard_index}:
            first = min((one for one in records if one[1] == other), key=lambda one: one[2])
            assert (arrival, shard_index) < (first[0], other)


@given(_SHARDS, _SHARDS, st.integers(1, 7), st.randoms())
def test_copies_name_a_record_of_the_same_event_that_stays(
    before: list[list[list[Sent]]], day: list[list[list[Sent]]], partitions: int, rng: random.Random
) -> None:
    """Whoever follows a copy finds its event."""
    copies = copies_of(before, day, frozenset(), partitions, rng)
    pieces = [piece for shard in [*before, *day] for piece in shard]
    dropped = {copy.ref for copy in copies}
    for copy in copies:
        assert copy.original not in dropped
        assert pieces[copy.ref.number][copy.ref.line].event == pieces[copy.original.number][copy.original.line].event
