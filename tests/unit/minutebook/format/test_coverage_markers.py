"""The markers of coverage: keys, and what is no id or position. test_markers has what all markers have in common."""

import json
from typing import Any

import pytest

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
