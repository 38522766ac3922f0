"""Times as the clocks of languages and tools write them, to the microsecond, in the years 1 to 9999."""

import datetime as dt

import pytest

from compaction.columns.types import DIRECTIVES, parse_type
from minutebook.errors import SettingsError
from tests.fakes.typed_lines import typed

UTC = dt.UTC
AT = dt.datetime(2026, 11, 20, 9, 8, 7, 123456, UTC)
WHOLE = AT.replace(microsecond=0)
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
FIRST = dt.datetime(1, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        # Go: time.Time as JSON is RFC 3339 with up to nine digits; its zero value is the year 1.
        ("timestamp", '"2026-11-20T10:08:07.123456789+01:00"', AT),
        ("timestamp", '"2026-11-20T09:08:07Z"', WHOLE),
        ("timestamp", '"0001-01-01T00:00:00Z"', FIRST),
        ("timestamp(ns)", "1795165687123456789", AT),
        # .NET: seven digits; DateTimeOffset with a zone, DateTime of unknown kind without; MinValue and MaxValue.
        ("timestamp", '"2026-11-20T09:08:07.1234567Z"', AT),
        ("timestamp", '"2026-11-20T10:08:07.1234567+01:00"', AT),
        ("timestamp", '"9999-12-31T23:59:59.9999999Z"', LAST),
        ("local_timestamp", '"2026-11-20T09:08:07.1234567"', AT.replace(tzinfo=None)),
        ("local_timestamp", '"0001-01-01T00:00:00"', FIRST.replace(tzinfo=None)),
        ("timestamp in Europe/Berlin", '"2026-11-20T10:08:07.1234567"', AT),
        # Java: Instant, OffsetDateTime without seconds, Jackson's offset without colon, its decimal seconds, Date.
        ("timestamp", '"2026-11-20T09:08:07.123456789Z"', AT),
        ("timestamp", '"2026-11-20T10:08+01:00"', WHOLE.replace(second=0)),
        ("timestamp", '"2026-11-20T09:08:07.123+0000"', AT.replace(microsecond=123000)),
        ("timestamp(s)", "1795165687.123456789", AT),
        ("timestamp(ms)", "1795165687123", AT.replace(microsecond=123000)),
        ("local_timestamp", '"2026-11-20T09:08"', WHOLE.replace(second=0, tzinfo=None)),
        # Python: isoformat() and str() of aware times, time.time(), time.time_ns().
        ("timestamp", '"2026-11-20T09:08:07.123456+00:00"', AT),
        ("timestamp", '"2026-11-20 09:08:07.123456+00:00"', AT),
        ("timestamp(s)", "1795165687.123456", AT),
        ("timestamp(ns)", "1795165687123456999", AT),
        # JavaScript: toISOString() and Date.now(), which many send as text.
        ("timestamp", '"2026-11-20T09:08:07.123Z"', AT.replace(microsecond=123000)),
        ("timestamp(ms)", "1795165687123.456", AT),
        ("timestamp(ms)", '"1795165687123"', AT.replace(microsecond=123000)),
        # Units as text, with a fraction, with an exponent, and before 1970: the microsecond in which they lie.
        ("timestamp(s)", '"1795165687.1234569"', AT),
        ("timestamp(s)", "1.795165687e9", WHOLE),
        ("timestamp(us)", "1795165687123456", AT),
        ("timestamp(us)", '"1795165687123456.9"', AT),
        ("timestamp(ns)", '"1795165687123456789"', AT),
        ("timestamp(ns)", "-1", dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        ("timestamp", '"0000-12-31T23:30:00-01:00"', FIRST.replace(minute=30)),
        ("timestamp(s)", "-0.0000001", dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        ("timestamp", '"1969-12-31T23:59:59.9999999Z"', dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        ("timestamp(ns)", "-62135596800000000000", FIRST),
        ("timestamp(ns)", "253402300799999999999", LAST),
        ("local_timestamp(ns)", "1795165687123456789", AT.replace(tzinfo=None)),
        # Offsets.
        ("timestamp", '"2026-11-20T14:53:07.123456+05:45"', AT),
        ("timestamp", '"2026-11-20T01:08:07.123456-0800"', AT),
        ("timestamp", '"2026-11-20T10:08:07.123456+01"', AT),
        # Named zones: winter, summer, an hour that is there twice, a format.
        ("timestamp in Europe/Berlin", '"2026-07-20 11:08:07"', dt.datetime(2026, 7, 20, 9, 8, 7, tzinfo=UTC)),
        (
            "timestamp in Europe/Berlin earlier",
            '"2026-10-25T02:30:00"',
            dt.datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
        ),
        (
            "timestamp in Europe/Berlin later",
            '"2026-10-25T02:30:00"',
            dt.datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
        ),
        ("timestamp(%m/%d/%Y %I:%M:%S %p) in America/New_York", '"11/20/2026 04:08:07 AM"', WHOLE),
        ("struct<at: timestamp in Asia/Kolkata>", '{"at":"2026-11-20T14:38:07"}', {"at": WHOLE}),
    ],
)
def test_a_clock_is_read_to_the_microsecond(kind: str, text: str, value: object) -> None:
    """Alone and beside what is no time."""
    assert typed(kind, text) == [(value, None)]
    assert [row for row, _ in typed(kind, text, '"n/a"', text, "true")][::2] == [value, value]
    assert parse_type(kind).text == kind


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("timestamp", '"2026-12-31T23:59:60Z"', 'x: "2026-12-31T23:59:60Z" is not timestamp'),
        ("timestamp", '"2026-11-20T10:00:00.1234567890Z"', 'x: "2026-11-20T10:00:00.1234567890Z" is not timestamp'),
        ("timestamp", '"2026-11-20T10:00:00,123Z"', 'x: "2026-11-20T10:00:00,123Z" is not timestamp'),
        ("timestamp", '"2026-02-30T10:00:00.1234567Z"', 'x: "2026-02-30T10:00:00.1234567Z" is not timestamp'),
        ("timestamp", '"+010000-01-01T00:00:00.000Z"', 'x: "+010000-01-01T00:00:00.000Z" is not timestamp'),
        ("timestamp(ns)", "-62135596800000000001", "x: -62135596800000000001 is out of the range of timestamp(ns)"),
        ("timestamp(ms)", "1e300", "x: 1E+300 is out of the range of timestamp(ms)"),
        ("timestamp(ms)", "1e-999999999", "x: 1E-999999999 is out of the range of timestamp(ms)"),
        ("timestamp(ms)", '"1.7e12"', 'x: "1.7e12" is not timestamp(ms)'),
        ("timestamp(ms)", '"2026-11-20"', 'x: "2026-11-20" is not timestamp(ms)'),
        ("timestamp(s)", '"NaN"', 'x: "NaN" is not timestamp(s)'),
        (
            "timestamp in Europe/Berlin",
            '"2026-10-25T02:30:00"',
            (
                'x: "2026-10-25T02:30:00" is there twice in Europe/Berlin, '
                "and its type does not say `earlier` or `later`"
            ),
        ),
        (
            "timestamp in Europe/Berlin later",
            '"2026-03-29T02:30:00"',
            'x: "2026-03-29T02:30:00" is not there in Europe/Berlin',
        ),
        (
            "timestamp in Europe/Berlin",
            '"2026-11-20T10:00:00Z"',
            'x: "2026-11-20T10:00:00Z" is not timestamp in Europe/Berlin',
        ),
    ],
)
def test_what_is_no_time_of_the_kind_says_why(kind: str, text: str, reason: str) -> None:
    """Its neighbours are read."""
    good = '"2026-11-20T10:00:00Z"' if kind == "timestamp" else '"2026-11-20T10:00:00"' if " in " in kind else "1"
    assert [why for _, why in typed(kind, good, text, good)] == [None, reason, None]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("timestamp(%Y-%m-%d %H:%M:%S.%f)", "%f is not read"),
        ("timestamp(%Y-%m-%d %H:%M:%S %z)", "%z is not read"),
        ("date(%d/%m)", "a format needs year, month and day"),
        ("timestamp(%Y-%m-%d %I:%M)", "%I without %p"),
        ("timestamp(%Y-%m-%d %)", "% is not read"),
        ("timestamp in Europe/Atlantis", "'Europe/Atlantis' is not a time zone of this machine"),
        ("local_timestamp in Europe/Berlin", "'in Europe/Berlin' is too much"),
        ("timestamp(ms) in Europe/Berlin", "'in Europe/Berlin' is too much"),
        ("string from text", "'from text' is too much"),
    ],
)
def test_a_form_that_would_misread_times_is_refused(kind: str, why: str) -> None:
    """When the file is read, not in each row of a night."""
    with pytest.raises(SettingsError) as caught:
        parse_type(kind)
    assert why in str(caught.value)


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_each_directive_is_written_back_as_it_was_read(directive: str) -> None:
    """Only such formats tell a good time from one that does not exist."""
    texts = {"e": " 8", "n": "\\n", "t": "\\t", "I": "04"}
    at = dt.datetime(2026, 2, 8, 4, 5, 6, tzinfo=UTC)
    text = texts.get(directive, at.strftime(f"%{directive}"))
    kind = f"timestamp(%Y-%m-%d %H:%M:%S %p %{directive})"
    assert typed(kind, f'"2026-02-08 04:05:06 AM {text}"') == [(at, None)]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int64 from text", '"9223372036854775807"', 2**63 - 1),
        ("int64 from text", "-7", -7),
        ("int32 from text", '"-007"', -7),
        ("float64 from text", '"-1.5e3"', -1500.0),
        ("struct<id: int64 from text not null>", '{"id":"12"}', {"id": 12}),
        ("list<int64 from text>", '["1",2,null]', [1, 2, None]),
    ],
)
def test_numbers_that_are_written_as_text(kind: str, text: str, value: object) -> None:
    """As many encoders write 64-bit integers; a number is taken, too."""
    assert typed(kind, text) == [(value, None)]
    assert typed(kind, text, '"x"', text)[::2] == [(value, None)] * 2
    assert parse_type(kind).text == kind


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int64 from text", '"9223372036854775808"'),
        ("int64 from text", '"1.0"'),
        ("int64 from text", '""'),
        ("int64 from text", '" 1"'),
        ("int64 from text", '"1_000"'),
        ("int64 from text", "true"),
        ("float64 from text", '"NaN"'),
        ("float64 from text", '"1e400"'),
        ("float64 from text", '"9007199254740993"'),
    ],
)
def test_text_that_is_no_such_number(kind: str, text: str) -> None:
    """Is null, and the row says so."""
    value = "true" if text == "true" else text
    assert typed(kind, "1", text, "2")[1] == (None, f"x: {value} is not {kind}")
