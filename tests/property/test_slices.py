"""Level `stream` finds the same, however a shard is cut: what is missing, foreign, altered, or to come."""

import itertools
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.audit.stream.level import ComparisonRequest, StreamResult, compare_with_stream
from compaction.inventory.day_objects import DayListing, list_objects
from compaction.inventory.segments import classify, head_rows, make_row, parse
from compaction.inventory.shard_markers import read_markers
from compaction.shard_groups.grouping import ShardGrouping
from compaction.stream.kinesis import ArchivedStream
from consumer.stream.port import StreamIdentity
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS, minute_of, minute_text
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.held_kinesis import Held, HeldKinesis
from tests.fakes.stream import DAY_MS
from tests.witness.aggregate import aggregate

DAY = Day.parse("2026-11-20")
SHARD = "shardId-000000000000"
NOW_MS = DAY.end_ms + 600 * MINUTE_MS
CREATED_MS = DAY.begin_ms - DAY_MS
KEPT, LOST, ALTERED = 0, 1, 2


class One(NamedTuple):
    """A Kinesis record: how long after the one before it it came, how far its stamp steps back, and its fates.

    Each fate is that of a user record; more than one: they came in an aggregate. `cut`: a segment ends before it.
    """

    after_ms: int
    back_ms: int
    fates: list[int]
    cut: bool
    invented: bool


ones = st.builds(
    One,
    st.sampled_from([0, 1000, 40_000, 20 * MINUTE_MS]),
    st.sampled_from([0, 0, 0, 30_000, 100_000]),
    st.lists(st.sampled_from([KEPT, KEPT, KEPT, KEPT, LOST, ALTERED]), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([False, False, False, True]),
)


class Shard(NamedTuple):
    """What the stream holds, what is archived, and what is to be found of each position, by code."""

    held: list[Held]
    archived: list[tuple[Record, bool]]
    wanted: Counter[tuple[str, str]]
    to_come: int


def shard_of(history: list[One], tail: int, trimmed: int = 0) -> Shard:
    """Make a shard; the last `tail` Kinesis records are not archived yet, the first `trimmed` have left the stream.

    An earlier, shorter retention trimmed them, so that only the first record given shows it.
    """
    held, archived, wanted, to_come = [], list[tuple[Record, bool]](), Counter[tuple[str, str]](), 0
    begin_ms, end = DAY.begin_ms - 10 * MINUTE_MS, len(history) - tail
    at_ms = [begin_ms + after_ms for after_ms in itertools.accumulate(one.after_ms for one in history)]
    in_day = [DAY.begin_ms <= at - one.back_ms < DAY.end_ms for at, one in zip(at_ms, history, strict=True)]
    archivable = [number for number, one in enumerate(history[:end]) if _leaves(one) and in_day[number]]
    last = max(archivable, default=-1)
    for number, one in enumerate(history):
        arrival_ms, sequence = at_ms[number] - one.back_ms, 1000 + 10 * number
        data = [b"%d %d" % (number, sub) for sub in range(len(one.fates))]
        whole = data[0] if len(data) == 1 else aggregate([("k", each) for each in data])
        is_held = number >= trimmed
        if is_held:
            held.append(Held(sequence, arrival_ms, "k", whole))
        if not in_day[number]:
            continue
        minute, position = minute_text(minute_of(arrival_ms)), Position(sequence)
        for sub, fate in enumerate(one.fates):
            if number > last or (number == last and sub > _last_kept(one)):
                to_come += is_held
            elif fate == LOST:
                wanted["missing_in_archive", minute] += is_held
            else:
                body = data[sub] + b"!" * (fate == ALTERED)
                wanted["not_in_stream", minute] += is_held and fate == ALTERED
                archived.append((Record(str(sequence), sub, "k", arrival_ms, body), one.cut and sub == 0))
        if one.invented and number <= last and _leaves(one) and number < last:
            archived.append((Record(str(position.sequence + 5), 0, "k", arrival_ms, b"new"), False))
            wanted["not_in_stream", minute] += is_held
    return Shard(held, archived, +wanted, to_come)


def _leaves(one: One) -> bool:
    return any(fate != LOST for fate in one.fates)


def _last_kept(one: One) -> int:
    return max(sub for sub, fate in enumerate(one.fates) if fate != LOST)


def compared(folder: Path, shard: Shard, slice_bytes: int) -> StreamResult:
    """Compare in slices of so many bytes."""
    clock = ManualClock(NOW_MS)
    client = HeldKinesis(clock, shard.held, created_ms=CREATED_MS, retention_hours=72, arn=STREAM_ARN, most=7)
    context = job_context(folder, clock=clock)._replace(
        stream=lambda: ArchivedStream(client, "corpus", clock, random.Random(1))  # type: ignore[arg-type] # its calls
    )
    listing = DayListing(context.archive, context.place.address, context.group_source(1), ShardGrouping())
    objects = list_objects(listing, DAY, PREFIX)
    rows = [make_row(PREFIX, listed) for listed in context.archive.list_objects(DAY.path(PREFIX))]
    metadata = head_rows(context.archive, rows)
    segments = classify(PREFIX, parse((row, metadata[row.key]) for row in rows), {}).segments
    markers = read_markers(context.archive, PREFIX, [DAY])
    ends = {SHARD: max(segment.metadata.last for segment in segments)} if segments else {}
    return compare_with_stream(context, objects, segments, markers, ends, ComparisonRequest(slice_bytes=slice_bytes))


@settings(max_examples=25)
@given(st.lists(ones, max_size=14), st.integers(0, 3), st.sampled_from([0, 0, 3, 8, 14]))
def test_slices_find_what_a_whole_reading_finds(history: list[One], tail: int, trimmed: int) -> None:
    """And that is what was done to the archive, minute by minute; the number of slices changes nothing."""
    shard = shard_of(history, min(tail, len(history)), trimmed)
    with tempfile.TemporaryDirectory() as name:
        scene = ArchiveScene(open_storage(Address(None, name)), PREFIX)
        scene.settle(StreamIdentity(STREAM_ARN, CREATED_MS, 3 * DAY_MS))
        for (minute, _), group in itertools.groupby(shard.archived, key=_segments()):
            records = [record for record, _ in group]
            scene.segment(SHARD, minute, records, writer=f"w-{records[0].sequence_number}")
        results = [compared(Path(name), shard, slice_bytes) for slice_bytes in (1 << 30, 8, 1)]
    for result in results:
        found = Counter[tuple[str, str]]()
        for about in result.findings:
            found[about.code, about.minute or ""] += about.count
        assert found == shard.wanted
        [(comparison, log)] = result.shards.values()
        assert (comparison.to_come, log.is_broken, log.is_trimmed) == (shard.to_come, False, False)
        assert [(check.id, check.status, check.message) for check in result.checks] == [
            (check.id, check.status, check.message) for check in results[0].checks
        ]


def _segments():  # type: ignore[no-untyped-def] # noqa: ANN202 - a key for groupby
    """Return the key of a record's segment: its minute, and how many cuts came before it."""
    cuts = 0

    def key(row: tuple[Record, bool]) -> tuple[int, int]:
        nonlocal cuts
        cuts += row[1]
        return minute_of(row[0].arrival_ms), cuts

    return key
