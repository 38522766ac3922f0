"""Producers' retries: repeated events that stayed, and records that were dropped as copies of nothing."""

from collections.abc import Mapping, Sequence

import msgspec

from compaction.verdict.findings import Code
from minutebook.compression import compression_of
from minutebook.coverage.evidence import run_of
from minutebook.format.keys import duplicates_key
from minutebook.format.record import numbered
from minutebook.format.segment import SegmentWriter
from tests.corpus.model import PREFIX, Corpus, Expected, Seen, Shard, Stored


def repeated_event(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let two records of a segment repeat the event of a third: a producer's retries, a moment later."""
    chosen = shard.segments[index]
    _give_event(chosen, (0, 2, 4), f"{shard.shard_id} thrice")
    return [Expected(Code.PRODUCER_DUPLICATE, shard.shard_id, (chosen.key,), 2, "warning", Seen.KEYS)]


def repeated_later(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let the last segment of the shard's day repeat an event of this one."""
    chosen, last = shard.segments[index], shard.segments[shard.in_day(corpus.day)[-1]]
    for segment in (chosen, last):
        _give_event(segment, (1,), f"{shard.shard_id} again")
    return [Expected(Code.PRODUCER_DUPLICATE, shard.shard_id, (last.key,), 1, "warning", Seen.KEYS)]


def repeated_after_midnight(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let a segment repeat an event of the day before, twice."""
    chosen, before = shard.segments[index], shard.segments[0]
    assert before.metadata.minute not in corpus.day
    _give_event(before, (5,), f"{shard.shard_id} yesterday")
    _give_event(chosen, (0, 3), f"{shard.shard_id} yesterday")
    return [Expected(Code.PRODUCER_DUPLICATE, shard.shard_id, (chosen.key,), 2, "warning", Seen.KEYS)]


def repeated_in_another_shard(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let a segment repeat an event that arrived earlier, in the last shard."""
    other = corpus.shards[-1]
    assert other is not shard
    chosen, first = shard.segments[index], other.segments[other.in_day(corpus.day)[0]]
    number = int(shard.shard_id.rpartition("-")[2]) % len(first.records)
    for segment, place in ((chosen, 2), (first, number)):
        _give_event(segment, (place,), f"{shard.shard_id} elsewhere")
    return [Expected(Code.PRODUCER_DUPLICATE, shard.shard_id, (chosen.key,), 1, "warning", Seen.KEYS)]


def other_events_with_an_id(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let a record have the id of an earlier one and another payload; both come again, a moment later."""
    chosen = shard.segments[index]
    _give_event(chosen, (0, 3), f"{shard.shard_id} shared")
    _give_event(chosen, (1, 4), f"{shard.shard_id} shared", "other")
    return [
        Expected(Code.PRODUCER_DUPLICATE, shard.shard_id, (chosen.key,), 2, "warning", Seen.KEYS),
        Expected(Code.ID_CONFLICT, shard.shard_id, (chosen.key,), 1, "warning", Seen.KEYS),
    ]


def other_event_after_midnight(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let a record have the id of an event of the day before, and another payload."""
    chosen, before = shard.segments[index], shard.segments[0]
    _give_event(before, (4,), f"{shard.shard_id} shared")
    _give_event(chosen, (2,), f"{shard.shard_id} shared", "other")
    return [Expected(Code.ID_CONFLICT, shard.shard_id, (chosen.key,), 1, "warning", Seen.KEYS)]


def _give_event(chosen: Stored, places: Sequence[int], event: str, rest: str = "") -> None:
    """Let records carry the event of this id."""
    data = f'{{"n":"{event}","x":"{rest}"}}' if rest else f'{{"n":"{event}"}}'
    for place in places:
        chosen.records[place] = msgspec.structs.replace(chosen.records[place], data=data.encode())
    payload = sum(len(record.data) for record in chosen.records)
    chosen.metadata = msgspec.structs.replace(chosen.metadata, payload_bytes=payload)
    chosen.seal()


def dropped_without_original(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Drop the first and last record of a segment as copies of a record that lies in a gap of the shard itself."""
    gap = f"corpus/{shard.shard_id}/{shard.segments[index - 1].metadata.last.sequence}:1"
    drop_records(corpus, shard, index, {0: gap, -1: gap})
    return [Expected(Code.DROPPED_WITHOUT_ORIGINAL, shard.shard_id, (shard.segments[index].key,), 2, seen=Seen.KEYS)]


def dropped_by_number(corpus: Corpus, shard: Shard, index: int, earlier: int = 0) -> list[Expected]:
    """Drop three records by the number of one that lies `earlier` segments before: two events, and a copy of it."""
    chosen = shard.segments[index]
    _give_event(shard.segments[index - earlier], (0,), "7")
    _give_event(chosen, (3,), "7")
    _give_event(chosen, (2, 4), "7", "other")
    drop_records(corpus, shard, index, dict.fromkeys((2, 3, 4), numbered("", 7)))
    return [Expected(Code.ID_CONFLICT, shard.shard_id, (chosen.key,), 2, "warning", Seen.KEYS)]


def drop_records(corpus: Corpus, shard: Shard, index: int, originals: Mapping[int, str]) -> None:
    """Drop records of a segment; `originals` maps the number of each to what it is called a duplicate of."""
    chosen = shard.segments[index]
    by_place = {place % len(chosen.records): original for place, original in originals.items()}
    compression = compression_of(chosen.key)
    made = SegmentWriter(shard.shard_id, chosen.metadata.minute, compression)
    for place, record in enumerate(chosen.records):
        if place in by_place:
            made.drop(record, by_place[place])
        else:
            made.extend([record])
    chosen.metadata = made.metadata(
        after=chosen.metadata.after, writer=f"{run_of(chosen.metadata.writer)}-dropper{index}"
    )
    chosen.records = [record for place, record in enumerate(chosen.records) if place not in by_place]
    chosen.body, chosen.fields = made.body(), chosen.metadata.encode()
    key = duplicates_key(
        PREFIX, shard.shard_id, chosen.metadata.minute, chosen.metadata.first, chosen.metadata.writer, compression
    )
    corpus.objects[key] = (made.duplicates_body(), {})
