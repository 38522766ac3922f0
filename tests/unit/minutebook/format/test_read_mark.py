"""Read marks: keys that say everything, bodies that say the same, and names that somebody else made up."""

import json

import pytest

from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.format.metadata import Continuity
from minutebook.format.position import Position
from minutebook.format.read_mark import (
    BIRTH,
    MarkKind,
    ReadMark,
    decode_read_mark,
    encode_read_mark,
    mark_days,
    parse_read_mark_key,
    read_mark_folder,
    read_mark_key,
)

SHARD = "shardId-000000000000"
DAY = Day.parse("2026-11-21")
HOUR = 3_600_000
MARK = ReadMark(
    SHARD, MarkKind.READ, Continuity.PROVEN, DAY.begin_ms, DAY.begin_ms + HOUR, Position(49, 3), "run-7", (50, 51)
)
KEY = f"raw/_read/2026-11-21/{SHARD}/{DAY.begin_ms}-{DAY.begin_ms + HOUR}-49.3-read-proven-run-7.json"
MARKS = [
    MARK,
    MARK._replace(position=None, from_ms=BIRTH, undelivered=()),
    MARK._replace(kind=MarkKind.END, continuity=Continuity.UNPROVEN),
    MARK._replace(kind=MarkKind.STREAM, continuity=Continuity.LOST, position=Position(10**128, 10**18)),
    MARK._replace(shard_id="a-b.c_d", writer="x-1-2-proven.json"),
]


def test_the_key_says_everything() -> None:
    """One LIST of a date reads all marks of it."""
    assert read_mark_key("raw/", DAY, MARK) == KEY
    assert KEY.startswith(read_mark_folder("raw/", DAY))


@pytest.mark.parametrize("prefix", ["", "raw/", "_read/", "a/b=c/"])
@pytest.mark.parametrize("mark", MARKS)
def test_keys_are_read_back(prefix: str, mark: ReadMark) -> None:
    """Under any prefix, whatever hyphens ids and writers hold."""
    assert parse_read_mark_key(prefix, read_mark_key(prefix, DAY, mark)) == (DAY, mark._replace(undelivered=()))


@pytest.mark.parametrize(
    "key",
    [
        "",
        KEY.removeprefix("raw/"),
        f"x{KEY}",
        f"{KEY}~",
        f"{KEY}\n",
        KEY.replace("2026-11-21", "2026-11-31"),
        KEY.replace("2026-11-21", "2026-11-22"),
        KEY.replace("2026-11-21", "0000-11-21"),
        KEY.replace(SHARD, ".."),
        KEY.replace(SHARD, "a" * 129),
        KEY.replace("-49.3-", "-049.3-"),
        KEY.replace("-49.3-", "-49:3-"),
        KEY.replace("-49.3-", "--"),
        KEY.replace("-read-", "-write-"),
        KEY.replace("-proven-", "-sure-"),
        KEY.replace(f"/{DAY.begin_ms}-", f"/0{DAY.begin_ms}-"),
        KEY.replace(f"/{DAY.begin_ms}-", "/0-"),
        KEY.replace(f"/{DAY.begin_ms}-", f"/{DAY.begin_ms + 2 * HOUR}-"),
        KEY.replace(f"-{DAY.begin_ms + HOUR}-", "-999999999999999-"),
        KEY.replace(f"/{DAY.begin_ms}-", "/\u0661-"),
        KEY.replace("run-7", "run/7"),
        KEY.replace("run-7", ""),
    ],
)
def test_a_key_that_we_do_not_make_is_refused(key: str) -> None:
    """Padding, signs, other digits, another day, an interval that ends before it begins."""
    with pytest.raises(FormatError):
        parse_read_mark_key("raw/", key)


@pytest.mark.parametrize("writer", ["", "a/b", "a b", "\u00e9", "a" * 129])
def test_what_no_key_can_hold_is_never_written(writer: str) -> None:
    """The name would not be read back."""
    with pytest.raises(FormatError):
        read_mark_key("raw/", DAY, MARK._replace(writer=writer))


@pytest.mark.parametrize("mark", MARKS)
def test_bodies_are_read_back(mark: ReadMark) -> None:
    """With what KCL would not deliver, which the key does not hold."""
    key = read_mark_key("raw/", DAY, mark)
    assert decode_read_mark(encode_read_mark(mark), "raw/", key) == mark


def test_a_later_version_may_add_fields() -> None:
    """Older readers pass over them."""
    body = json.dumps({**json.loads(encode_read_mark(MARK)), "added": 1}).encode()
    assert decode_read_mark(body, "raw/", KEY) == MARK


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", 2),
        ("shard", "shardId-000000000001"),
        ("from", "1"),
        ("until", str(DAY.begin_ms)),
        ("position", "49:4"),
        ("position", None),
        ("kind", "end"),
        ("kind", "write"),
        ("continuity", "unproven"),
        ("undelivered", ["05"]),
        ("undelivered", 5),
        ("writer", 7),
    ],
)
def test_a_body_that_says_other_than_its_key_is_refused(field: str, value: object) -> None:
    """The error names the object."""
    body = json.dumps({**json.loads(encode_read_mark(MARK)), field: value}).encode()
    with pytest.raises(FormatError, match="run-7"):
        decode_read_mark(body, "raw/", KEY)


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_an_error(body: bytes) -> None:
    """Torn, foreign or hostile."""
    with pytest.raises(FormatError):
        decode_read_mark(body, "raw/", KEY)


def days(mark: ReadMark) -> list[str]:
    """Return the days of a mark as text."""
    return [*map(str, mark_days(mark))]


def test_a_proven_mark_lies_under_every_day_that_it_covers() -> None:
    """Whoever judges a day lists that day alone."""
    mark = MARK._replace(from_ms=DAY.begin_ms - 30 * HOUR)
    assert days(mark) == ["2026-11-19", "2026-11-20", "2026-11-21"]


def test_a_mark_that_is_not_proven_lies_under_its_last_day() -> None:
    """It covers nothing backwards."""
    mark = MARK._replace(from_ms=DAY.begin_ms - 30 * HOUR, continuity=Continuity.UNPROVEN)
    assert days(mark) == ["2026-11-21"]


def test_a_mark_from_birth_lies_under_the_days_since_the_shard_may_have_been_born() -> None:
    """The day before, too: a proof from birth is younger than a day."""
    assert days(MARK._replace(from_ms=BIRTH)) == ["2026-11-20", "2026-11-21"]


def test_the_proof_of_an_end_lies_under_the_day_after_too() -> None:
    """The shard may have closed behind its `until`, just after midnight."""
    assert days(MARK._replace(kind=MarkKind.END)) == ["2026-11-21", "2026-11-22"]


@pytest.mark.parametrize("mark", [*MARKS, MARK._replace(kind=MarkKind.END)])
def test_a_mark_has_a_key_under_each_of_its_days(mark: ReadMark) -> None:
    """Each is read back as the same mark."""
    for day in mark_days(mark):
        assert parse_read_mark_key("", read_mark_key("", day, mark)) == (day, mark._replace(undelivered=()))


def test_a_lost_mark_of_the_stream_lies_under_each_day_of_its_interval() -> None:
    """A judgement of any of them lists it."""
    lost = MARK._replace(
        kind=MarkKind.STREAM, continuity=Continuity.LOST, until_ms=DAY.end_ms, position=None, undelivered=()
    )
    assert mark_days(lost) == [DAY, DAY.shift(1)]
    for day in mark_days(lost):
        assert parse_read_mark_key("raw/", read_mark_key("raw/", day, lost)) == (day, lost)
