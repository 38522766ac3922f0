"""Keys of read marks that somebody else made up: refused, or read as exactly what they say."""

from hypothesis import given
from hypothesis import strategies as st

from minutebook.errors import FormatError
from minutebook.format.coverage_markers import parse_skipped_key, skipped_key
from minutebook.format.metadata import Continuity
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark, mark_days, parse_read_mark_key, read_mark_key

_NAME = st.from_regex(r"\A[a-zA-Z0-9_.-]{1,20}\Z").filter(lambda text: text.strip("."))
_TIMES = st.integers(0, 253_370_764_799_999)
_SECOND_DAY_MS = 86_400_000
"""A mark from a shard's birth lies under the day before its `until`, too, and days begin with 1970."""
_MARKS = st.builds(
    lambda times, **fields: ReadMark(from_ms=min(times), until_ms=max(_SECOND_DAY_MS, *times), **fields),
    st.tuples(_TIMES, _TIMES),
    shard_id=_NAME,
    kind=st.sampled_from(MarkKind),
    continuity=st.sampled_from(Continuity),
    position=st.none() | st.builds(Position, st.integers(0, 10**129 - 1), st.integers(0, 10**19 - 1)),
    writer=_NAME,
)


@given(mark=_MARKS, number=st.integers(0, 5))
def test_every_mark_is_read_back_under_its_days(mark: ReadMark, number: int) -> None:
    """Whatever its names hold."""
    days = mark_days(mark._replace(from_ms=max(mark.from_ms, mark.until_ms - 10 * 86_400_000)))
    day = days[max(0, len(days) - 1 - number)]
    key = read_mark_key("p/", day, mark)
    assert parse_read_mark_key("p/", key) == (day, mark)


@given(mark=_MARKS, data=st.data())
def test_a_damaged_key_is_refused_or_read_as_what_it_says(mark: ReadMark, data: st.DataObject) -> None:
    """Never another error, and never a second spelling of the same mark."""
    key = read_mark_key("p/", mark_days(mark._replace(from_ms=mark.until_ms))[0], mark)
    index = data.draw(st.integers(0, len(key)))
    piece = data.draw(st.text(alphabet="0123456789-./_abirth\n\u0661 ", max_size=3))
    damaged = key[:index] + piece + key[index + data.draw(st.integers(0, 3)) :]
    try:
        day, read = parse_read_mark_key("p/", damaged)
    except FormatError:
        return
    assert read_mark_key("p/", day, read) == damaged


@given(text=st.text(max_size=80), shard_id=_NAME, logged_ms=_TIMES, data=st.data())
def test_a_skipped_marker_has_one_spelling(text: str, shard_id: str, logged_ms: int, data: st.DataObject) -> None:
    """A key that is read is the key that would be written."""
    key = skipped_key("p/", shard_id, logged_ms, "w")
    assert parse_skipped_key("p/", key) == (shard_id, logged_ms, "w")
    index = data.draw(st.integers(0, len(key)))
    for damaged in (text, f"p/_skipped/{text}", key[:index] + text[:2] + key[index:]):
        try:
            found = parse_skipped_key("p/", damaged)
        except FormatError:
            continue
        assert skipped_key("p/", found.shard_id, found.logged_ms, found.writer) == damaged
