"""The stored example of format 1 is read by every version, for ever."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from minutebook.format.keys import parse_segment_key
from minutebook.format.markers import ApplicationRecord, EndMarker, StartMarker, decode_marker
from minutebook.format.metadata import ChainStart, SegmentMetadata
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.format.segment import read_records

_FOLDER = Path(__file__).parents[3] / "data" / "format-1"


def stored(name: str) -> Any:  # noqa: ANN401 - JSON
    """Return one of the JSON files."""
    return json.loads((_FOLDER / name).read_bytes())


@pytest.fixture
def metadata() -> SegmentMetadata:
    """Return the segment's metadata, decoded."""
    return SegmentMetadata.decode(stored("segment.json")["metadata"])


def test_the_body_is_read_byte_for_byte(metadata: SegmentMetadata) -> None:
    """Every record with its position, and every payload exactly."""
    body = (_FOLDER / "segment.jsonl.gz").read_bytes()
    expected = [
        Record(
            row["sequence_number"],
            row["sub_sequence_number"],
            row["partition_key"],
            row["arrival_ms"],
            base64.b64decode(row["data"]),
        )
        for row in stored("records.json")
    ]
    assert list(read_records(body, metadata.shard_id)) == [(record.position, record) for record in expected]


def test_the_metadata_says_what_the_body_holds(metadata: SegmentMetadata) -> None:
    """Field by field."""
    records = stored("records.json")
    arrivals = [row["arrival_ms"] for row in records]
    assert metadata == SegmentMetadata(
        shard_id="shardId-000000000007",
        minute=29_920_936,
        first=Position(int(records[0]["sequence_number"])),
        last=Position(int(records[-1]["sequence_number"]), 2),
        after=ChainStart("TRIM_HORIZON"),
        records=11,
        dropped=0,
        payload_bytes=sum(len(base64.b64decode(row["data"])) for row in records),
        arrival_min_ms=min(arrivals),
        arrival_max_ms=max(arrivals),
        writer="0f" * 16,
    )


def test_the_key_names_the_first_record(metadata: SegmentMetadata) -> None:
    """Minute, shard and position."""
    segment = stored("segment.json")
    parsed = parse_segment_key(segment["prefix"], segment["key"])
    assert (parsed.minute, parsed.shard_id, parsed.first) == (metadata.minute, metadata.shard_id, metadata.first)


def test_the_markers_are_read(metadata: SegmentMetadata) -> None:
    """Start, end and application."""
    start = decode_marker((_FOLDER / "start.json").read_bytes(), StartMarker, "start.json")
    end = decode_marker((_FOLDER / "end.json").read_bytes(), EndMarker, "end.json")
    application = decode_marker((_FOLDER / "application.json").read_bytes(), ApplicationRecord, "application.json")
    assert (start.first_position(), start.chain_start()) == (metadata.first, ChainStart("TRIM_HORIZON"))
    assert (end.last_position(), end.proof) == (metadata.last, "read")
    assert application.stream_arn == "arn:aws:kinesis:eu-central-1:000000000000:stream/flights"
