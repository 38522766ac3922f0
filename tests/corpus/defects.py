"""Defects: each breaks one shard of a corpus in one way, and says which findings an audit must report, and no others.

A defect is a function of (corpus, shard, index of a segment of the day) that changes the corpus.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from archive.format.keys import duplicates_key, end_marker_key, segment_key, start_marker_key
from archive.format.metadata import SegmentMetadata
from archive.format.minute import MINUTE_MS
from archive.format.position import Position
from archive.format.segment import SegmentWriter
from compaction.verdict.findings import Code
from tests.corpus.model import PREFIX, Corpus, Shard, Stored, body_of, copy_of, make_segment
from tests.fakes.archive_scene import end_marker


class Seen(enum.Flag):
    """At which level a finding is reported."""

    INVENTORY = enum.auto()
    KEYS = enum.auto()
    BOTH = INVENTORY | KEYS


class Expected(NamedTuple):
    """A finding that must be reported. `keys` must be among its keys."""

    code: Code
    shard: str | None
    keys: tuple[str, ...]
    times: int = 1
    severity: str = "defect"
    seen: Seen = Seen.BOTH


Defect = Callable[[Corpus, Shard, int], list[Expected]]


def missing_object(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Delete a segment between two others."""
    del corpus
    before, after = shard.segments[index - 1], shard.segments[index + 1]
    del shard.segments[index]
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (before.key, after.key))]


def missing_day(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Delete every segment of the day, of a shard that goes on in the next one or has an end."""
    del index
    inside = set(shard.in_day(corpus.day))
    shard.segments = [one for number, one in enumerate(shard.segments) if number not in inside]
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (shard.segments[-1].key,))]


def missing_tail(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Delete the last segment of a shard whose end a marker or checkpoint names."""
    del corpus, index
    del shard.segments[-1]
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (shard.segments[-1].key,))]


def copied_object(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Copy a segment to another minute's folder of the same day."""
    one = shard.segments[index]
    minute = corpus.day.first_minute + 300 + corpus.rng.randrange(100)
    key = segment_key(PREFIX, shard.shard_id, minute, one.metadata.first)
    corpus.objects[key] = (one.body, one.fields)
    return [Expected(Code.IDENTICAL_SEGMENT, shard.shard_id, (key, one.key), len(one.records))]


def copied_to_a_foreign_name(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Copy a segment to a key that is none of ours."""
    one = shard.segments[index]
    key = one.key.replace(".jsonl.gz", "-copy.jsonl.gz")
    corpus.objects[key] = (one.body, one.fields)
    return [Expected(Code.IDENTICAL_SEGMENT, shard.shard_id, (key, one.key), len(one.records))]


def copied_from_another_day(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Copy a segment of the day before into the day."""
    del index
    one = shard.segments[0]
    assert one.metadata.minute not in corpus.day
    key = segment_key(PREFIX, shard.shard_id, corpus.day.first_minute + 1000, one.metadata.first)
    corpus.objects[key] = (one.body, one.fields)
    return [Expected(Code.IDENTICAL_SEGMENT, shard.shard_id, (key, one.key), len(one.records))]


def truncated_object(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Cut a body short."""
    del corpus
    one = shard.segments[index]
    one.body = one.body[: len(one.body) // 2]
    return [Expected(Code.UNREADABLE_OBJECT, shard.shard_id, (one.key,), seen=Seen.KEYS)]


def flipped_bit(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Change the CRC in a gzip trailer."""
    del corpus
    one = shard.segments[index]
    one.body = one.body[:-8] + bytes([one.body[-8] ^ 1]) + one.body[-7:]
    return [Expected(Code.UNREADABLE_OBJECT, shard.shard_id, (one.key,), seen=Seen.KEYS)]


def swapped_lines(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Exchange two neighbouring lines."""
    one = shard.segments[index]
    place = corpus.rng.randrange(len(one.records) - 1)
    one.records[place], one.records[place + 1] = one.records[place + 1], one.records[place]
    one.body = body_of(shard.shard_id, one.metadata.minute, one.records)
    return [Expected(Code.OUT_OF_ORDER, shard.shard_id, (one.key,), seen=Seen.KEYS)]


def edited_count(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Change the number of records in the metadata."""
    del corpus
    one = shard.segments[index]
    one.fields["records"] = str(len(one.records) + 2)
    return [Expected(Code.COUNT_MISMATCH, shard.shard_id, (one.key,), 2, seen=Seen.KEYS)]


def edited_payload_bytes(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Change the number of payload bytes in the metadata."""
    del corpus
    one = shard.segments[index]
    one.fields["payload-bytes"] = str(one.metadata.payload_bytes + 1)
    return [Expected(Code.COUNT_MISMATCH, shard.shard_id, (one.key,), seen=Seen.KEYS)]


def lost_line(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Leave a line out of a body."""
    one = shard.segments[index]
    del one.records[corpus.rng.randrange(len(one.records))]
    one.body = body_of(shard.shard_id, one.metadata.minute, one.records)
    return [Expected(Code.COUNT_MISMATCH, shard.shard_id, (one.key,), seen=Seen.KEYS)]


def repeated_line(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Write a line twice, and count it twice."""
    one = shard.segments[index]
    place = corpus.rng.randrange(len(one.records))
    one.records.insert(place, one.records[place])
    payload = one.metadata.payload_bytes + len(one.records[place].data)
    one.metadata = msgspec.structs.replace(one.metadata, records=len(one.records), payload_bytes=payload)
    one.seal()
    return [Expected(Code.DUPLICATE_RECORD, shard.shard_id, (one.key,), seen=Seen.KEYS)]


def overlapping_segments(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let a segment hold the first two records of the next one too."""
    del corpus
    one, following = shard.segments[index], shard.segments[index + 1]
    shared = [
        msgspec.structs.replace(record, arrival_ms=one.records[-1].arrival_ms) for record in following.records[:2]
    ]
    made = make_segment(
        shard.shard_id, one.metadata.minute, one.records + shared, one.metadata.after, one.metadata.writer
    )
    shard.segments[index] = made
    keys = (made.key, following.key)
    return [
        Expected(Code.OVERLAPPING_SEGMENTS, shard.shard_id, keys),
        Expected(Code.DUPLICATE_RECORD, shard.shard_id, keys, 2, seen=Seen.KEYS),
    ]


def forked_chain(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Cut a segment in two that both claim the same predecessor."""
    del corpus
    one = shard.segments[index]
    half = len(one.records) // 2
    halves = [
        make_segment(shard.shard_id, one.metadata.minute, records, one.metadata.after, f"fork-{number}-{one.key}")
        for number, records in enumerate((one.records[:half], one.records[half:]))
    ]
    shard.segments[index : index + 1] = halves
    return [Expected(Code.FORKED_CHAIN, shard.shard_id, (halves[1].key,))]


def edited_arrival(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Change the first arrival time in the metadata."""
    del corpus
    one = shard.segments[index]
    one.fields["arrival-min"] = str(one.metadata.arrival_min_ms - 1)
    return [Expected(Code.METADATA_MISMATCH, shard.shard_id, (one.key,), seen=Seen.KEYS)]


def edited_minute(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Change the minute in the metadata to the one before, within the day."""
    del corpus
    one = shard.segments[index]
    metadata = msgspec.structs.replace(one.metadata, minute=one.metadata.minute + 1)
    one.fields = metadata.encode()
    return [Expected(Code.METADATA_MISMATCH, shard.shard_id, (one.key,))]


def unreadable_metadata(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Break a field of the metadata."""
    del corpus
    one = shard.segments[index]
    one.fields["last"] = "somewhere"
    return [Expected(Code.METADATA_MISMATCH, shard.shard_id, (one.key,))]


def torn_object(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Take the metadata from a segment."""
    del corpus
    one = shard.segments[index]
    one.fields = {}
    return [Expected(Code.FOREIGN_OBJECT, shard.shard_id, (one.key,))]


def foreign_object(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Put something else below the day's folder."""
    del index
    name = corpus.rng.choice(["notes", "7x/a", "11/31/readme", "23/59/x.jsonl.gz"])
    key = f"{corpus.day.path(PREFIX)}{name}-{shard.shard_id}"
    corpus.objects[key] = (b"hello", {})
    return [Expected(Code.FOREIGN_OBJECT, None, (key,))]


def wrong_minute(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let two records of a segment have arrived in the minute after."""
    del corpus
    one = shard.segments[index]
    for place in (-2, -1):
        late = one.records[place].arrival_ms + MINUTE_MS
        one.records[place] = msgspec.structs.replace(one.records[place], arrival_ms=late)
    one.metadata = msgspec.structs.replace(one.metadata, arrival_max_ms=one.records[-1].arrival_ms)
    one.seal()
    return [Expected(Code.WRONG_MINUTE, shard.shard_id, (one.key,), 2, seen=Seen.KEYS)]


def other_shards_line(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let the lines of a segment name another shard."""
    del corpus
    one = shard.segments[index]
    one.body = body_of("shardId-000000000999", one.metadata.minute, one.records)
    return [Expected(Code.METADATA_MISMATCH, shard.shard_id, (one.key,), len(one.records), seen=Seen.KEYS)]


def repeated_event(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let two records of a segment repeat the event of a third: a producer's retries, a moment later."""
    del corpus
    one = shard.segments[index]
    _give_event(one, (0, 2, 4), f"{shard.shard_id} thrice")
    return [Expected(Code.PRODUCER_DUPLICATE, shard.shard_id, (one.key,), 2, "warning", Seen.KEYS)]


def repeated_later(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let the last segment of the shard's day repeat an event of this one."""
    one, last = shard.segments[index], shard.segments[shard.in_day(corpus.day)[-1]]
    for segment in (one, last):
        _give_event(segment, (1,), f"{shard.shard_id} again")
    return [Expected(Code.PRODUCER_DUPLICATE, shard.shard_id, (last.key,), 1, "warning", Seen.KEYS)]


def repeated_after_midnight(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let a segment repeat an event of the day before, twice."""
    one, before = shard.segments[index], shard.segments[0]
    assert before.metadata.minute not in corpus.day
    _give_event(before, (5,), f"{shard.shard_id} yesterday")
    _give_event(one, (0, 3), f"{shard.shard_id} yesterday")
    return [Expected(Code.PRODUCER_DUPLICATE, shard.shard_id, (one.key,), 2, "warning", Seen.KEYS)]


def repeated_in_another_shard(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let a segment repeat an event that arrived earlier, in the last shard."""
    other = corpus.shards[-1]
    assert other is not shard
    one, first = shard.segments[index], other.segments[other.in_day(corpus.day)[0]]
    number = int(shard.shard_id.rpartition("-")[2]) % len(first.records)
    for segment, place in ((one, 2), (first, number)):
        _give_event(segment, (place,), f"{shard.shard_id} elsewhere")
    return [Expected(Code.PRODUCER_DUPLICATE, shard.shard_id, (one.key,), 1, "warning", Seen.KEYS)]


def _give_event(one: Stored, places: Sequence[int], event: str) -> None:
    """Let records carry the event of this id."""
    for place in places:
        one.records[place] = msgspec.structs.replace(one.records[place], data=f'{{"n":"{event}"}}'.encode())
    payload = sum(len(record.data) for record in one.records)
    one.metadata = msgspec.structs.replace(one.metadata, payload_bytes=payload)
    one.seal()


def dropped_without_original(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Drop the first and last record of a segment as copies of a record that lies in a gap of the shard itself."""
    gap = f"corpus/{shard.shard_id}/{shard.segments[index - 1].metadata.last.sequence}:1"
    drop_records(corpus, shard, index, {0: gap, -1: gap})
    return [Expected(Code.DROPPED_WITHOUT_ORIGINAL, shard.shard_id, (shard.segments[index].key,), 2, seen=Seen.KEYS)]


def drop_records(corpus: Corpus, shard: Shard, index: int, originals: Mapping[int, str]) -> None:
    """Drop records of a segment; `originals` maps the number of each to what it is called a duplicate of."""
    one = shard.segments[index]
    by_place = {place % len(one.records): original for place, original in originals.items()}
    made = SegmentWriter(shard.shard_id, one.metadata.minute)
    for place, record in enumerate(one.records):
        if place in by_place:
            made.drop(record, by_place[place])
        else:
            made.extend([record])
    one.metadata = made.metadata(after=one.metadata.after, writer=f"dropper-{shard.shard_id}-{index}")
    one.records = [record for place, record in enumerate(one.records) if place not in by_place]
    one.body, one.fields = made.body(), one.metadata.encode()
    key = duplicates_key(PREFIX, shard.shard_id, one.metadata.minute, one.metadata.first, one.metadata.writer)
    corpus.objects[key] = (made.duplicates_body(), {})


def unproven_continuity(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Mark a segment as one before which records may have been trimmed."""
    del corpus
    one = shard.segments[index]
    one.fields["continuity"] = "unproven"
    return [Expected(Code.UNPROVEN_CONTINUITY, shard.shard_id, (one.key,), severity="unknown")]


def lost_continuity(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Mark a segment as one before which records were trimmed."""
    del corpus
    one = shard.segments[index]
    one.fields["continuity"] = "lost"
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (one.key,))]


def missing_start(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Delete start.json of a shard that begins in the day."""
    del index
    _begin_in_day(corpus, shard)
    shard.has_start = False
    return [Expected(Code.MISSING_START, shard.shard_id, (shard.segments[0].key,))]


def missing_first(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Delete the first segment of a shard that begins in the day."""
    del index
    _begin_in_day(corpus, shard)
    del shard.segments[0]
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (shard.segments[0].key,))]


def unreadable_marker(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Damage start.json of a shard that begins in the day."""
    del index
    _begin_in_day(corpus, shard)
    shard.has_start = False
    key = start_marker_key(PREFIX, shard.shard_id)
    corpus.objects[key] = (b"{", {})
    return [Expected(Code.UNREADABLE_OBJECT, shard.shard_id, (key,))]


def unproven_end(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Take away what proves the end of a shard's day."""
    del index
    shard.segments = [one for one in shard.segments if one.metadata.minute < corpus.day.shift(1).first_minute]
    shard.end, shard.checkpoint = None, None
    tail = shard.segments[-1]
    return [Expected(Code.UNPROVEN_END, shard.shard_id, (tail.key,), severity="unknown")]


def expired_end(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let end.json say that the shard's end could not be read any more."""
    del index
    shard.segments = [one for one in shard.segments if one.metadata.minute < corpus.day.shift(1).first_minute]
    tail = shard.segments[-1]
    written_at = f"{corpus.day.shift(1)}T00:10:00.000Z"
    shard.end = msgspec.structs.replace(
        end_marker(shard.shard_id, tail.metadata.last, written_at=written_at), proof="expired"
    )
    return [Expected(Code.UNPROVEN_END, shard.shard_id, (tail.key,), severity="unknown")]


def unreadable_end(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Damage end.json of a shard that has nothing else to prove its end."""
    unproven_end(corpus, shard, index)
    key = end_marker_key(PREFIX, shard.shard_id)
    corpus.objects[key] = (b"[]", {})
    return [Expected(Code.UNREADABLE_OBJECT, shard.shard_id, (key,))]


def wrong_end(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let the checkpoint lie behind the last segment: one is missing."""
    del index
    unproven_end(corpus, shard, 0)
    tail = shard.segments[-1]
    shard.checkpoint = Position(tail.metadata.last.sequence + 5)
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (tail.key,))]


def _begin_in_day(corpus: Corpus, shard: Shard) -> None:
    """Let the shard begin with its first segment of the day."""
    first = shard.in_day(corpus.day)[0]
    shard.segments = [copy_of(one) for one in shard.segments[first:]]
    start = shard.segments[0]
    fields = {**start.metadata.encode(), "after": "TRIM_HORIZON"}
    start.metadata = SegmentMetadata.decode(fields)
    start.fields = fields


DEFECTS: tuple[Defect, ...] = (
    missing_object,
    missing_day,
    missing_tail,
    copied_object,
    copied_to_a_foreign_name,
    copied_from_another_day,
    truncated_object,
    flipped_bit,
    swapped_lines,
    edited_count,
    edited_payload_bytes,
    lost_line,
    repeated_line,
    dropped_without_original,
    overlapping_segments,
    forked_chain,
    edited_arrival,
    edited_minute,
    unreadable_metadata,
    torn_object,
    foreign_object,
    wrong_minute,
    other_shards_line,
    unproven_continuity,
    lost_continuity,
    missing_start,
    missing_first,
    unreadable_marker,
    unproven_end,
    expired_end,
    unreadable_end,
    wrong_end,
)
PRODUCER_DEFECTS: tuple[Defect, ...] = (
    repeated_event,
    repeated_later,
    repeated_after_midnight,
    repeated_in_another_shard,
)
"""Seen when the audit is told that an event's id stands under `n`."""
SUCCESSOR_ONLY = frozenset({missing_day})
"""Needs a segment in the next day."""
NAMED_END_ONLY = frozenset({missing_tail})
"""Needs an end that a marker or a checkpoint names."""


def break_shard(corpus: Corpus, defect: Defect, number: int) -> list[Expected]:
    """Apply a defect to one shard, at a segment inside the day."""
    shard = corpus.shards[number]
    inside = shard.in_day(corpus.day)
    return defect(corpus, shard, corpus.rng.choice(inside[1:-1]))


def suits(defect: Defect, number: int) -> bool:
    """Tell whether a defect can be applied to the shard of this number; see `Corpus`."""
    if defect in SUCCESSOR_ONLY:
        return number % 3 == 0
    return number % 3 != 0 if defect in NAMED_END_ONLY else True
