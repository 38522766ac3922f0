"""The JSON objects beside the segments, those of coverage among them: their keys; strict in, readable out."""

import json
from typing import Any

import pytest
from msgspec import Struct

from minutebook.errors import FormatError
from minutebook.format.coverage_markers import (
    AdoptedMarker,
    FirstShard,
    FirstShards,
    OpenedMarker,
    SkippedMarker,
    UndeliveredRecord,
    adopted_marker_key,
    decode_coverage_marker,
    encode_coverage_marker,
    first_shards_key,
    opened_marker_key,
    parse_skipped_key,
    skipped_key,
    undelivered_key,
)
from minutebook.format.keys import parse_segment_key
from minutebook.format.markers import ApplicationRecord, EndMarker, StartMarker, decode_marker, encode_marker
from minutebook.format.metadata import ChainStart
from minutebook.format.position import Position

SHARD = "shardId-000000000000"
AT = "2026-11-21T10:17:05.000Z"
LOGGED = 1_795_256_161_790
MARKERS = [
    FirstShards(
        format=1,
        shards=[FirstShard(shard=SHARD, starting_hash_key="0", ending_hash_key="9", parents=["a"])],
        writer="w",
        written_at=AT,
    ),
    OpenedMarker(
        format=1,
        shard=SHARD,
        sentinel="TRIM_HORIZON",
        starting_hash_key="0",
        ending_hash_key="9",
        parents=["a", "b"],
        writer="w",
        opened_at=AT,
    ),
    AdoptedMarker(format=1, shard=SHARD, position="4:1", held=True, writer="w", written_at=AT),
    SkippedMarker(format=1, shard=SHARD, logged_at_ms=LOGGED, message="skipping", writer="w", written_at=AT),
    UndeliveredRecord(
        format=1,
        shard=SHARD,
        sequence_number="42",
        first_sub=3,
        partition_key="p",
        arrival_ms=LOGGED,
        reason="malformed",
        data_base64="AA==",
        writer="w",
        written_at=AT,
    ),
]
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


@pytest.mark.parametrize(
    ("marker", "field", "value"),
    [
        (MARKERS[0], "shards", [{"shard": "..", "starting_hash_key": "0", "ending_hash_key": "9"}]),
        (MARKERS[1], "parents", ["a/b"]),
        (MARKERS[1], "shard", ""),
        (MARKERS[2], "position", "4"),
        (MARKERS[4], "sequence_number", "042"),
        (MARKERS[4], "reason", "mood"),
        (MARKERS[3], "format", 2),
    ],
)
def test_what_is_no_id_or_position_is_an_error(marker: Any, field: str, value: object) -> None:  # noqa: ANN401
    """Not only of another type: of another form."""
    body = json.dumps({**json.loads(encode_coverage_marker(marker)), field: value}).encode()
    with pytest.raises(FormatError, match=r"some/key\.json"):
        decode_coverage_marker(body, type(marker), "some/key.json")


def test_an_adopted_position_is_parsed_on_demand() -> None:
    """As in other markers."""
    marker = MARKERS[2]
    assert isinstance(marker, AdoptedMarker)
    assert marker.adopted_position() == Position(4, 1)


@pytest.mark.parametrize("shard_id", [SHARD, "a-b-1", "x.y_z"])
def test_the_key_of_a_skipped_marker_is_read_back(shard_id: str) -> None:
    """Whatever hyphens the shard's id holds."""
    key = skipped_key("raw/", shard_id, LOGGED, "w7")
    assert key == f"raw/_skipped/2026-11-21/{shard_id}-{LOGGED}-w7.json"
    assert parse_skipped_key("raw/", key) == (shard_id, LOGGED, "w7")


@pytest.mark.parametrize(
    "key",
    [
        f"raw/_skipped/2026-11-22/{SHARD}-{LOGGED}-w.json",
        f"raw/_skipped/2026-11-21/{SHARD}-0{LOGGED}-w.json",
        f"raw/_skipped/2026-11-21/{SHARD}-{LOGGED}-.json",
        f"raw/_skipped/2026-11-21/{SHARD}-{LOGGED}.json",
        f"raw/_skipped/2026-11-21/..-{LOGGED}-w.json",
        f"raw/_skipped/2026-11-21/{SHARD}-999999999999999-w.json",
        f"_skipped/2026-11-21/{SHARD}-{LOGGED}-w.json",
        f"raw/_skipped/2026-11-21/x/{SHARD}-{LOGGED}-w.json",
    ],
)
def test_the_key_of_another_object_is_refused(key: str) -> None:
    """Another day, other padding, no writer, another prefix."""
    with pytest.raises(FormatError):
        parse_skipped_key("raw/", key)


def test_two_writers_keep_one_undelivered_record_once() -> None:
    """Its key is a function of the record alone."""
    assert undelivered_key("raw/", SHARD, LOGGED, 42) == f"raw/_undelivered/2026-11-21/{SHARD}/{42:056d}.json"


def test_no_marker_looks_like_a_segment() -> None:
    """An inventory cannot mistake them."""
    for key in (
        first_shards_key(""),
        opened_marker_key("", SHARD),
        adopted_marker_key("", SHARD),
        skipped_key("", SHARD, LOGGED, "w"),
        undelivered_key("", SHARD, LOGGED, 1),
    ):
        with pytest.raises(FormatError):
            parse_segment_key("", key)


@pytest.mark.parametrize("shard_id", ["..", "a/b", ""])
def test_what_is_no_shard_id_gets_into_no_key(shard_id: str) -> None:
    """As for segments."""
    for make in (
        lambda: opened_marker_key("", shard_id),
        lambda: adopted_marker_key("", shard_id),
        lambda: skipped_key("", shard_id, LOGGED, "w"),
        lambda: undelivered_key("", shard_id, LOGGED, 1),
    ):
        with pytest.raises(FormatError):
            make()


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
