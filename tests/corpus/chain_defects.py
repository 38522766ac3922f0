"""Defects of chains: segments that are missing, overlap or fork; beginnings, links and ends that prove nothing."""

import msgspec

from compaction.verdict.findings import Code
from minutebook.compression import compression_of
from minutebook.format.keys import end_marker_key, start_marker_key
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.position import Position
from tests.corpus.model import BEGIN_MS, PREFIX, Corpus, Expected, Seen, Shard, copy_of, make_segment
from tests.fakes.archive_scene import end_marker


def missing_object(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Delete a segment between two others."""
    before, after = shard.segments[index - 1], shard.segments[index + 1]
    del shard.segments[index]
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (before.key, after.key))]


def missing_day(corpus: Corpus, shard: Shard, _index: int) -> list[Expected]:
    """Delete every segment of the day, of a shard that goes on in the next one or has an end."""
    inside = set(shard.in_day(corpus.day))
    shard.segments = [segment for number, segment in enumerate(shard.segments) if number not in inside]
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (shard.segments[-1].key,))]


def missing_tail(_corpus: Corpus, shard: Shard, _index: int) -> list[Expected]:
    """Delete the last segment of a shard whose end a marker or checkpoint names."""
    del shard.segments[-1]
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (shard.segments[-1].key,))]


def overlapping_segments(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let a segment hold the first two records of the next one too."""
    segment, following = shard.segments[index], shard.segments[index + 1]
    shared = [
        msgspec.structs.replace(record, arrival_ms=segment.records[-1].arrival_ms) for record in following.records[:2]
    ]
    made = make_segment(
        shard.shard_id,
        segment.metadata.minute,
        segment.records + shared,
        segment.metadata.after,
        segment.metadata.writer,
        compression=compression_of(segment.key),
    )
    shard.segments[index] = made
    keys = (made.key, following.key)
    return [
        Expected(Code.OVERLAPPING_SEGMENTS, shard.shard_id, keys),
        Expected(Code.DUPLICATE_RECORD, shard.shard_id, keys, 2, seen=Seen.KEYS),
    ]


def forked_chain(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Cut a segment in two that both claim the same predecessor."""
    segment = shard.segments[index]
    half = len(segment.records) // 2
    halves = [
        make_segment(
            shard.shard_id,
            segment.metadata.minute,
            records,
            segment.metadata.after,
            f"fork-{number}-{segment.key}",
            compression=compression_of(segment.key),
        )
        for number, records in enumerate((segment.records[:half], segment.records[half:]))
    ]
    shard.segments[index : index + 1] = halves
    return [Expected(Code.FORKED_CHAIN, shard.shard_id, (halves[1].key,))]


def unproven_continuity(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Mark a segment as one before which records may have been trimmed."""
    segment = shard.segments[index]
    segment.fields["continuity"] = "unproven"
    return [Expected(Code.UNPROVEN_CONTINUITY, shard.shard_id, (segment.key,), severity="unknown")]


def lost_continuity(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Mark a segment as one before which records were trimmed."""
    segment = shard.segments[index]
    segment.fields["continuity"] = "lost"
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (segment.key,))]


def missing_start(corpus: Corpus, shard: Shard, _index: int) -> list[Expected]:
    """Delete start.json of a shard that begins in the day."""
    _begin_in_day(corpus, shard)
    shard.has_start = False
    return [Expected(Code.MISSING_START, shard.shard_id, (shard.segments[0].key,))]


def missing_first(corpus: Corpus, shard: Shard, _index: int) -> list[Expected]:
    """Delete the first segment of a shard that begins in the day."""
    _begin_in_day(corpus, shard)
    del shard.segments[0]
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (shard.segments[0].key,))]


def unproven_end(corpus: Corpus, shard: Shard, _index: int) -> list[Expected]:
    """Take away what proves the end of a shard's day."""
    shard.segments = [
        segment for segment in shard.segments if segment.metadata.minute < corpus.day.shift(1).first_minute
    ]
    shard.end, shard.checkpoint = None, None
    tail = shard.segments[-1]
    return [Expected(Code.UNPROVEN_END, shard.shard_id, (tail.key,), severity="unknown")]


def expired_end(corpus: Corpus, shard: Shard, _index: int) -> list[Expected]:
    """Let end.json say that the shard's end could not be read any more."""
    shard.segments = [
        segment for segment in shard.segments if segment.metadata.minute < corpus.day.shift(1).first_minute
    ]
    tail = shard.segments[-1]
    written_at = f"{corpus.day.shift(1)}T00:10:00.000Z"
    shard.end = msgspec.structs.replace(
        end_marker(shard.shard_id, tail.metadata.last, written_at=written_at), proof="expired"
    )
    return [Expected(Code.UNPROVEN_END, shard.shard_id, (tail.key,), severity="unknown")]


def wrong_end(corpus: Corpus, shard: Shard, _index: int) -> list[Expected]:
    """Let the checkpoint lie behind the last segment: one is missing."""
    unproven_end(corpus, shard, 0)
    tail = shard.segments[-1]
    shard.checkpoint = Position(tail.metadata.last.sequence + 5)
    return [Expected(Code.BROKEN_CHAIN, shard.shard_id, (tail.key,))]


def _begin_in_day(corpus: Corpus, shard: Shard) -> None:
    """Let the shard begin with its first segment of the day."""
    first = shard.in_day(corpus.day)[0]
    shard.segments = [copy_of(segment) for segment in shard.segments[first:]]
    start = shard.segments[0]
    fields = {**start.metadata.encode(), "after": "TRIM_HORIZON", "continuity": "proven", "evidence": str(BEGIN_MS)}
    start.metadata = SegmentMetadata.decode(fields)
    start.fields = fields


def unreadable_marker(corpus: Corpus, shard: Shard, _index: int) -> list[Expected]:
    """Damage start.json of a shard that begins in the day."""
    _begin_in_day(corpus, shard)
    shard.has_start = False
    key = start_marker_key(PREFIX, shard.shard_id)
    corpus.objects[key] = (b"{", {})
    return [Expected(Code.UNREADABLE_OBJECT, shard.shard_id, (key,))]


def unreadable_end(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Damage end.json of a shard that has nothing else to prove its end."""
    unproven_end(corpus, shard, index)
    key = end_marker_key(PREFIX, shard.shard_id)
    corpus.objects[key] = (b"[]", {})
    return [Expected(Code.UNREADABLE_OBJECT, shard.shard_id, (key,))]
