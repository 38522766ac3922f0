"""The stored example of format 2, which is format 1 with zstd for gzip, is read by every version, for ever."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from minutebook.compression import Compression, compression_of
from minutebook.errors import FormatError
from minutebook.format.keys import DUPLICATES, parse_segment_key, slot_beside, slot_of
from minutebook.format.markers import ApplicationRecord, StartMarker, decode_marker
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.segment import inflate, read_dropped, read_records

_FOLDER = Path(__file__).parents[3] / "data" / "format-2"


def stored(name: str) -> Any:  # noqa: ANN401 - JSON
    """Return one of the JSON files."""
    return json.loads((_FOLDER / name).read_bytes())


@pytest.fixture
def metadata() -> SegmentMetadata:
    """Return the segment's metadata, decoded."""
    return SegmentMetadata.decode(stored("segment.json")["metadata"])


def expected() -> list[tuple[str, int, str, int, bytes]]:
    """Return what must be read: the records of format 1's example."""
    names = ("sequence_number", "sub_sequence_number", "partition_key", "arrival_ms")
    rows = stored("../format-1/records.json")
    return [(*(row[name] for name in names), base64.b64decode(row["data"])) for row in rows]


def test_the_body_is_read_byte_for_byte(metadata: SegmentMetadata) -> None:
    """Every record, and every payload exactly."""
    body = (_FOLDER / "segment.jsonl.zst").read_bytes()
    found = [record for _, record in read_records(body, metadata.shard_id, Compression.ZSTD)]
    assert [
        (one.sequence_number, one.sub_sequence_number, one.partition_key, one.arrival_ms, one.data) for one in found
    ] == expected()


def test_the_dropped_duplicates_are_read(metadata: SegmentMetadata) -> None:
    """Each with the record that was kept."""
    body = (_FOLDER / "duplicates.jsonl.zst").read_bytes()
    found = list(read_dropped(body, metadata.shard_id, Compression.ZSTD))
    assert [record.data for _, record, _ in found] == [row[-1] for row in expected()]
    assert {duplicate_of for _, _, duplicate_of in found} == {"flights/shardId-000000000007/1:0"}


@pytest.mark.parametrize("size", [1000, 1 << 30])
def test_a_long_body_is_read(metadata: SegmentMetadata, size: int) -> None:
    """Several blocks, and a frame that does not say how long its content is."""
    body = (_FOLDER / "long.jsonl.zst").read_bytes()
    assert len(list(inflate([body[at : at + size] for at in range(0, len(body), size)], Compression.ZSTD))) == 1600
    payloads = b"".join(record.data for _, record in read_records(body, metadata.shard_id, Compression.ZSTD))
    assert hashlib.sha256(payloads).hexdigest() == stored("content.json")["payloads"]


def test_the_keys_name_the_slot_and_the_compression(metadata: SegmentMetadata) -> None:
    """Minute, shard and position; what lies beside belongs to the same slot."""
    segment = stored("segment.json")
    parsed = parse_segment_key(segment["prefix"], segment["key"])
    assert parsed == (metadata.minute, metadata.shard_id, metadata.first, Compression.ZSTD)
    assert compression_of(segment["duplicates"]) is Compression.ZSTD
    assert slot_beside(segment["prefix"], DUPLICATES, segment["duplicates"]) == slot_of(segment["key"])


def test_the_application_record_says_it() -> None:
    """Under a format of its own: who knows no other compression stops there."""
    body = (_FOLDER / "application.json").read_bytes()
    assert decode_marker(body, ApplicationRecord, "application.json").compression is Compression.ZSTD
    with pytest.raises(FormatError, match="format 2"):
        decode_marker(body, StartMarker, "start.json")
