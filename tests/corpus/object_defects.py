"""Defects of single objects: copied, damaged, edited, foreign."""

import msgspec

from compaction.verdict.findings import Code
from minutebook.compression import Compression, compression_of
from minutebook.format.keys import segment_key, slot_of
from minutebook.format.minute import MINUTE_MS
from tests.corpus.model import PREFIX, Corpus, Expected, Seen, Shard, body_of, copy_of


def copied_object(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Copy a segment to another minute's folder of the same day."""
    segment = shard.segments[index]
    minute = corpus.day.first_minute + 300 + corpus.rng.randrange(100)
    key = segment_key(PREFIX, shard.shard_id, minute, segment.metadata.first, compression_of(segment.key))
    corpus.objects[key] = (segment.body, segment.fields)
    return [Expected(Code.IDENTICAL_SEGMENT, shard.shard_id, (key, segment.key), len(segment.records))]


def copied_to_a_foreign_name(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Copy a segment to a key that is none of ours."""
    segment = shard.segments[index]
    key = segment.key.replace(".jsonl", "-copy.jsonl")
    corpus.objects[key] = (segment.body, segment.fields)
    return [Expected(Code.IDENTICAL_SEGMENT, shard.shard_id, (key, segment.key), len(segment.records))]


def copied_from_another_day(corpus: Corpus, shard: Shard, _index: int) -> list[Expected]:
    """Copy a segment of the day before into the day."""
    segment = shard.segments[0]
    assert segment.metadata.minute not in corpus.day
    minute = corpus.day.first_minute + 1000
    key = segment_key(PREFIX, shard.shard_id, minute, segment.metadata.first, compression_of(segment.key))
    corpus.objects[key] = (segment.body, segment.fields)
    return [Expected(Code.IDENTICAL_SEGMENT, shard.shard_id, (key, segment.key), len(segment.records))]


def truncated_object(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Cut a body short."""
    segment = shard.segments[index]
    segment.body = segment.body[: len(segment.body) // 2]
    return [Expected(Code.UNREADABLE_OBJECT, shard.shard_id, (segment.key,), seen=Seen.KEYS)]


def flipped_bit(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Change the checksum behind the content."""
    segment = shard.segments[index]
    at = 8 if compression_of(segment.key) is Compression.GZIP else 4
    segment.body = segment.body[:-at] + bytes([segment.body[-at] ^ 1]) + segment.body[1 - at :]
    return [Expected(Code.UNREADABLE_OBJECT, shard.shard_id, (segment.key,), seen=Seen.KEYS)]


def swapped_lines(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Exchange two neighbouring lines."""
    segment = shard.segments[index]
    place = corpus.rng.randrange(len(segment.records) - 1)
    segment.records[place], segment.records[place + 1] = segment.records[place + 1], segment.records[place]
    segment.pack()
    return [Expected(Code.OUT_OF_ORDER, shard.shard_id, (segment.key,), seen=Seen.KEYS)]


def edited_count(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Change the number of records in the metadata."""
    segment = shard.segments[index]
    segment.fields["records"] = str(len(segment.records) + 2)
    return [Expected(Code.COUNT_MISMATCH, shard.shard_id, (segment.key,), 2, seen=Seen.KEYS)]


def edited_payload_bytes(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Change the number of payload bytes in the metadata."""
    segment = shard.segments[index]
    segment.fields["payload-bytes"] = str(segment.metadata.payload_bytes + 1)
    return [Expected(Code.COUNT_MISMATCH, shard.shard_id, (segment.key,), seen=Seen.KEYS)]


def lost_line(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Leave a line out of a body."""
    segment = shard.segments[index]
    del segment.records[corpus.rng.randrange(len(segment.records))]
    segment.pack()
    return [Expected(Code.COUNT_MISMATCH, shard.shard_id, (segment.key,), seen=Seen.KEYS)]


def repeated_line(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Write a line twice, and count it twice."""
    segment = shard.segments[index]
    place = corpus.rng.randrange(len(segment.records))
    segment.records.insert(place, segment.records[place])
    payload = segment.metadata.payload_bytes + len(segment.records[place].data)
    segment.metadata = msgspec.structs.replace(segment.metadata, records=len(segment.records), payload_bytes=payload)
    segment.seal()
    return [Expected(Code.DUPLICATE_RECORD, shard.shard_id, (segment.key,), seen=Seen.KEYS)]


def edited_arrival(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Change the first arrival time in the metadata."""
    segment = shard.segments[index]
    segment.fields["arrival-min"] = str(segment.metadata.arrival_min_ms - 1)
    return [Expected(Code.METADATA_MISMATCH, shard.shard_id, (segment.key,), seen=Seen.KEYS)]


def edited_minute(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Change the minute in the metadata to the one before, within the day."""
    segment = shard.segments[index]
    metadata = msgspec.structs.replace(segment.metadata, minute=segment.metadata.minute + 1)
    segment.fields = metadata.encode()
    return [Expected(Code.METADATA_MISMATCH, shard.shard_id, (segment.key,))]


def unreadable_metadata(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Break a field of the metadata."""
    segment = shard.segments[index]
    segment.fields["last"] = "somewhere"
    return [Expected(Code.METADATA_MISMATCH, shard.shard_id, (segment.key,))]


def torn_object(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Take the metadata from a segment."""
    segment = shard.segments[index]
    segment.fields = {}
    return [Expected(Code.FOREIGN_OBJECT, shard.shard_id, (segment.key,))]


def foreign_object(corpus: Corpus, shard: Shard, _index: int) -> list[Expected]:
    """Put something else below the day's folder."""
    name = corpus.rng.choice(["notes", "7x/a", "11/31/readme", "23/59/x.jsonl.gz"])
    key = f"{corpus.day.path(PREFIX)}{name}-{shard.shard_id}"
    corpus.objects[key] = (b"hello", {})
    return [Expected(Code.FOREIGN_OBJECT, None, (key,))]


def wrong_minute(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let two records of a segment have arrived in the minute after."""
    segment = shard.segments[index]
    for place in (-2, -1):
        late = segment.records[place].arrival_ms + MINUTE_MS
        segment.records[place] = msgspec.structs.replace(segment.records[place], arrival_ms=late)
    segment.metadata = msgspec.structs.replace(segment.metadata, arrival_max_ms=segment.records[-1].arrival_ms)
    segment.seal()
    return [Expected(Code.WRONG_MINUTE, shard.shard_id, (segment.key,), 2, seen=Seen.KEYS)]


def other_shards_line(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Let the lines of a segment name another shard."""
    segment = shard.segments[index]
    segment.body = body_of(
        "shardId-000000000999", segment.metadata.minute, segment.records, compression_of(segment.key)
    )
    return [Expected(Code.METADATA_MISMATCH, shard.shard_id, (segment.key,), len(segment.records), seen=Seen.KEYS)]


def other_compression(_corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Store a segment in the compression that the archive is not of, as a writer with a setting of its own would."""
    segment = shard.segments[index]
    segment.key = other_name(segment.key)
    segment.pack()
    return [Expected(Code.METADATA_MISMATCH, shard.shard_id, (segment.key,))]


def slot_held_twice(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Store the records of a segment in the other compression, too: both conditional writes succeeded."""
    segment = shard.segments[index]
    other = copy_of(segment, key=other_name(segment.key))
    other.metadata = msgspec.structs.replace(segment.metadata, writer="zombie-1")
    other.seal()
    corpus.objects[other.key] = (other.body, other.fields)
    keys = (segment.key, other.key)
    return [
        Expected(Code.METADATA_MISMATCH, shard.shard_id, (other.key,)),
        Expected(Code.OVERLAPPING_SEGMENTS, shard.shard_id, keys),
        Expected(Code.FORKED_CHAIN, shard.shard_id, (max(keys),)),
        Expected(Code.DUPLICATE_RECORD, shard.shard_id, keys, len(segment.records), seen=Seen.KEYS),
    ]


def copied_to_the_other_name(corpus: Corpus, shard: Shard, index: int) -> list[Expected]:
    """Copy a segment, byte for byte, to the name that it would have in the other compression."""
    segment = shard.segments[index]
    key = other_name(segment.key)
    corpus.objects[key] = (segment.body, segment.fields)
    return [Expected(Code.IDENTICAL_SEGMENT, shard.shard_id, (key, segment.key), len(segment.records))]


def other_name(key: str) -> str:
    """Return the name of a slot in the other compression."""
    (other,) = set(Compression) - {compression_of(key)}
    return f"{slot_of(key)}.jsonl{other.extension}"
