"""Defects of single objects: copied, damaged, edited, foreign."""

import msgspec

from archive.format.keys import segment_key
from archive.format.minute import MINUTE_MS
from compaction.verdict.findings import Code
from tests.corpus.expected import Expected, Seen
from tests.corpus.model import PREFIX, Corpus, Shard, body_of


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
