"""The JSON objects beside the segments: strict in, readable out."""

import json
from typing import Any

import pytest
from msgspec import Struct

from minutebook.errors import FormatError
from minutebook.format.coverage_markers import OpenedMarker, decode_coverage_marker, encode_coverage_marker
from minutebook.format.markers import ApplicationRecord, EndMarker, StartMarker, decode_marker, encode_marker
from minutebook.format.metadata import ChainStart
from minutebook.format.position import Position
from tests.unit.minutebook.format.test_coverage_markers import MARKERS

START = StartMarker(
    format=1,
    shard="shardId-000000000000",
    sentinel="AFTER_SEQUENCE:4:1",
    first="5:0",
    starting_hash_key="0",
    ending_hash_key="9",
    parents=[],
    writer="w",
    written_at="2026-11-21T10:17:05.000Z",
)
END = EndMarker(
    format=1,
    shard="shardId-000000000000",
    last=None,
    children=["a", "b"],
    proof="expired",
    writer="w",
    written_at="2026-11-21T10:17:05.000Z",
)
APPLICATION = ApplicationRecord(
    format=1,
    stream_arn="arn:aws:kinesis:eu-central-1:000000000000:stream/flights",
    stream_created_ms=1,
    application="app",
    start="oldest",
    start_at_ms=None,
    writer="w",
    written_at_ms=2,
)
each_marker = pytest.mark.parametrize(
    ("marker", "encode", "decode"),
    [
        *((marker, encode_marker, decode_marker) for marker in (START, END, APPLICATION)),
        *((marker, encode_coverage_marker, decode_coverage_marker) for marker in MARKERS),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Struct) else "",
)


@each_marker
def test_round_trip(marker: Any, encode: Any, decode: Any) -> None:  # noqa: ANN401 - of every kind
    """What is written is read back."""
    assert decode(encode(marker), type(marker), "k") == marker


@each_marker
def test_every_missing_or_mistyped_field_is_an_error(marker: Any, encode: Any, decode: Any) -> None:  # noqa: ANN401
    """The error names the object."""
    fields = json.loads(encode(marker))
    damaged = [{name: value for name, value in fields.items() if name != missing} for missing in fields]
    damaged += [{**fields, name: {}} for name in fields]
    for changed in damaged:
        with pytest.raises(FormatError, match=r"some/key\.json"):
            decode(json.dumps(changed).encode(), type(marker), "some/key.json")


@each_marker
def test_a_field_that_a_later_version_added_is_passed_over(marker: Any, encode: Any, decode: Any) -> None:  # noqa: ANN401
    """A rolling upgrade must not stop the processors that are not upgraded yet."""
    fields = json.loads(encode(marker)) | {"evidence": {"from": 1}}
    assert decode(json.dumps(fields).encode(), type(marker), "k") == marker


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000])
@pytest.mark.parametrize(("decode", "kind"), [(decode_marker, StartMarker), (decode_coverage_marker, OpenedMarker)])
def test_what_is_no_json_object_is_an_error(decode: Any, kind: type, body: bytes) -> None:  # noqa: ANN401
    """Torn, foreign or hostile."""
    with pytest.raises(FormatError):
        decode(body, kind, "k")


def test_another_format_is_refused() -> None:
    """By its number, before anything is believed."""
    body = encode_marker(START).replace(b'"format": 1', b'"format": 2')
    with pytest.raises(FormatError, match="format 2"):
        decode_marker(body, StartMarker, "k")


def test_positions_are_parsed_on_demand() -> None:
    """Sentinel, first and last."""
    assert START.chain_start() == ChainStart("AFTER_SEQUENCE", Position(4, 1))
    assert START.first_position() == Position(5)
    assert END.last_position() is None
