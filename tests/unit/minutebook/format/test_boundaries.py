"""The objects about boundaries: their keys, and what a damaged one says."""

import pytest

from minutebook.errors import FormatError
from minutebook.format.boundaries import (
    CompleteMarker,
    MarkerKey,
    NamedGap,
    RowsObject,
    ShardRow,
    ShardState,
    Since,
    Withdrawal,
    decode_complete,
    decode_rows,
    decode_since,
    decode_withdrawal,
    encode_boundary,
    marker_key,
    parse_marker_key,
    parse_rows_key,
    rows_key,
    rows_prefix,
    success_key,
    withdrawal_key,
)
from tests.fakes.boundary_scene import S0, T0

GAP = NamedGap.of(S0, T0, T0 + 1000, ["skipped"])
MARKER = CompleteMarker(
    since="2026-11-21T10:00:00.000Z",
    boundary="2026-11-21T10:15:00.000Z",
    shards={S0: ShardState(T0, T0, "7:0", "open")},
    gaps=(GAP,),
    writer="w",
)


def test_keys_hold_no_colon() -> None:
    """It is not safe in them; a boundary is written without."""
    assert marker_key("raw/", T0) == "raw/_complete/2026-11-21T1015Z.json"
    assert rows_key("raw/", T0, "run", 7) == "raw/_until/2026-11-21T1015Z/run-7.json"
    assert success_key("raw/", T0 - T0 % 3_600_000) == "raw/_complete/2026-11-21/10/_SUCCESS"


def test_keys_are_parsed_as_they_were_made() -> None:
    """And one hour's rows begin alike."""
    withdrawal = Withdrawal(boundary=MARKER.boundary, gaps=(GAP,), why="")
    key = withdrawal_key("raw/", withdrawal)

    assert parse_marker_key("raw/", marker_key("raw/", T0)) == MarkerKey(T0, None)
    parsed = parse_marker_key("raw/", key)
    assert parsed is not None
    assert parsed.withdrawal is not None
    assert withdrawal_key("raw/", withdrawal) == key
    assert parse_rows_key("raw/", rows_key("raw/", T0, "run", 7)) == (T0, "run", 7)
    assert rows_key("raw/", T0, "run", 7).startswith(rows_prefix("raw/", T0 - T0 % 3_600_000))


@pytest.mark.parametrize(
    "key", ["raw/_complete/since.json", "raw/_complete/2026-13-45T9999Z.json", "raw/x", "_complete/2"]
)
def test_other_keys_are_no_markers(key: str) -> None:
    """Also those of a later version."""
    assert parse_marker_key("raw/", key) is None


def test_objects_are_read_as_they_were_written() -> None:
    """And fields that a later version adds are ignored."""
    rows = RowsObject(worker="w", run="run", rows={S0: [ShardRow(1, 2, 2, None), ShardRow(5, 9, 0, "7:0", "proven")]})

    assert decode_complete(encode_boundary(MARKER), "k") == MARKER
    assert decode_rows(encode_boundary(rows), "k") == rows
    assert decode_complete(encode_boundary(MARKER).replace(b'"writer"', b'"later":1,"writer"'), "k") == MARKER


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        encode_boundary(MARKER)[:-20],
        encode_boundary(MARKER).replace(b'"7:0"', b'"7"'),
        encode_boundary(MARKER).replace(b"10:15", b"25:15"),
        encode_boundary(MARKER).replace(b'"format":1', b'"format":2'),
    ],
)
def test_a_damaged_marker_is_named(body: bytes) -> None:
    """With a next step; nothing is guessed."""
    with pytest.raises(FormatError, match="k") as refused:
        decode_complete(body, "k")
    assert refused.value.next_step


def test_rows_that_end_before_they_begin_are_refused() -> None:
    """They could cover what nobody has read."""
    rows = RowsObject(worker="w", run="run", rows={S0: [ShardRow(9, 5, 5, None)]})

    with pytest.raises(FormatError, match="ends before it begins"):
        decode_rows(encode_boundary(rows), "k")


@pytest.mark.parametrize(
    ("begin", "until"),
    [
        ("0001-01-01T00:00:00+14:00", "2026-11-21T10:00:00.000Z"),
        ("1960-01-01T00:00:00.000Z", "2026-11-21T10:00:00.000Z"),
        ("2026-11-21T10:00:00.000Z", "9999-12-31T23:59:59-23:00"),
    ],
)
def test_times_that_no_clock_has_are_damage(begin: str, until: str) -> None:
    """A publisher would list each hour of them, and a reader could not print them."""
    gap = NamedGap(shard=S0, begin=begin, until=until, reasons=("skipped",))
    with pytest.raises(FormatError, match="outside the years"):
        decode_withdrawal(encode_boundary(Withdrawal(boundary=MARKER.boundary, gaps=(gap,), why="")), "k")
    with pytest.raises(FormatError, match="outside the years"):
        decode_since(encode_boundary(Since(since="0001-01-01T00:00:00+14:00", writer="w")), "k")
