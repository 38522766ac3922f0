"""Object keys."""

import pytest

from minutebook.errors import FormatError
from minutebook.format.keys import (
    check_shard_id,
    duplicates_key,
    end_marker_key,
    minute_prefix,
    parse_segment_key,
    segment_key,
    segment_sort_key,
    start_marker_key,
)
from minutebook.format.position import Position

SHARD = "shardId-000000000000"
MINUTE = 29_920_936
KEY = f"raw/2026/11/21/10/16/{SHARD}/{42:056d}-{3:08d}.jsonl.gz"


def test_the_key_is_made_of_the_first_record_alone() -> None:
    """Minute, shard, sequence in 56 digits, sub in 8."""
    assert segment_key("raw/", SHARD, MINUTE, Position(42, 3)) == KEY


@pytest.mark.parametrize("prefix", ["", "raw/", "a/b=c/", "2026/11/21/10/16/"])
@pytest.mark.parametrize(
    "first", [Position(0), Position(42, 3), Position(10**56 - 1), Position(10**56), Position(10**128, 10**8)]
)
def test_round_trip(prefix: str, first: Position) -> None:
    """Keys are read back under any prefix, with numbers longer than their padding too."""
    parsed = parse_segment_key(prefix, segment_key(prefix, SHARD, MINUTE, first))
    assert (parsed.minute, parsed.shard_id, parsed.first) == (MINUTE, SHARD, first)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "raw/",
        KEY.removeprefix("raw/"),
        f"x{KEY}",
        f"{KEY}~",
        KEY.replace(".gz", ""),
        KEY.replace("/10/16/", "/10/61/"),
        KEY.replace(f"{42:056d}", "42"),
        KEY.replace(f"{42:056d}", f"{42:057d}"),
        KEY.replace(f"{3:08d}", f"{3:09d}"),
        KEY.replace(SHARD, "shard/0"),
        KEY.replace(SHARD, ".."),
        "raw/_shards/shardId-000000000000/start.json",
    ],
)
def test_a_key_that_we_do_not_make_is_refused(key: str) -> None:
    """Another prefix, other padding and other objects are errors."""
    with pytest.raises(FormatError):
        parse_segment_key("raw/", key)


def test_two_first_records_never_share_a_key() -> None:
    """Sequence and sub stand apart: 1-23 is not 12-3."""
    assert segment_key("", SHARD, MINUTE, Position(1, 23)) != segment_key("", SHARD, MINUTE, Position(12, 3))


def test_keys_of_one_minute_and_shard_share_a_folder() -> None:
    """The LIST of a minute sees this shard only, not one whose id begins alike."""
    folder = minute_prefix("raw/", "shardId-1", MINUTE)
    assert segment_key("raw/", "shardId-1", MINUTE, Position(1)).startswith(folder)
    assert not segment_key("raw/", "shardId-10", MINUTE, Position(1)).startswith(folder)


def test_segments_are_ordered_by_number() -> None:
    """A longer number sorts later, although its key's text may sort earlier."""
    keys = [segment_key("", SHARD, MINUTE, Position(n)) for n in (2 * 10**55, 10**56)]
    parsed = [parse_segment_key("", key) for key in keys]
    assert keys != sorted(keys)
    assert sorted(parsed, key=segment_sort_key) == parsed


@pytest.mark.parametrize("shard_id", ["", ".", "..", "a/b", "a b", "a" * 129, "\u00e9", "a\n"])
def test_what_is_no_shard_id_never_gets_into_a_key(shard_id: str) -> None:
    """A path step or a blank in a shard id is an error."""
    with pytest.raises(FormatError):
        check_shard_id(shard_id)


def test_markers_and_duplicates_stay_outside_the_minutes() -> None:
    """Their keys are no segment keys, so an inventory cannot mistake them."""
    for key in (
        start_marker_key("", SHARD),
        end_marker_key("", SHARD),
        duplicates_key("", SHARD, MINUTE, Position(1), "w"),
    ):
        with pytest.raises(FormatError):
            parse_segment_key("", key)
