"""Whatever a producer sends: no payload stops a night, and each row is there with what is true of it."""

import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.typed_lines import typed, widened

KINDS = (
    "string",
    "bool",
    "int32",
    "int64",
    "float64",
    "json",
    "decimal(10,2)",
    "decimal(38,38)",
    "date",
    "date(days)",
    "date(%d.%m.%Y)",
    "timestamp",
    "timestamp(s)",
    "timestamp(us)",
    "timestamp(%Y-%m-%d %H:%M:%S)",
    "local_timestamp",
    "list<int64 not null>",
    "list<list<date>>",
    "struct<a: int64 not null, b: struct<c: list<decimal(4,1)>>>",
)
COLUMNS = {f"c{number}": {"path": "x", "type": kind} for number, kind in enumerate(KINDS)}
TEXTS = st.sampled_from(
    [
        *("1e-999999999", "1e999999999", "1E400", "-0", "0.1e1", "1" * 400, "NaN", "Infinity", "-Infinity", "1.0"),
        *(
            '"1e-999999999"',
            '"2026-02-29"',
            '"2024-02-29"',
            '"0000-01-01T00:00:00Z"',
            '"9999-12-31T23:59:59.999999Z"',
        ),
        *('"2026-11-22T10:00:00+23:59"', '"2026-11-22T24:00:00Z"', '"31.02.2024"', '"\\ud800"', '"\\u0000"', "[[]]"),
        *(
            '{"a":1,"a":2}',
            '{"a":1,"b":{"c":["0.05"]}}',
            '{"a":1,"b":{"c":["1.5"]}}',
            "[" * 101 + "]" * 101,
            "[1,null]",
        ),
        *(
            "{",
            "",
            "nul",
            "9223372036854775807",
            "-9223372036854775809",
            '"' + "é" * 300 + '"',
            "1e18446744073709551616",
        ),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=5,
)
PAYLOADS = (
    st.binary(max_size=30)
    | TEXTS.map(lambda text: f'{{"x":{text}}}'.encode())
    | VALUES.map(lambda value: json.dumps({"x": value}).encode(errors="surrogatepass"))
)


@settings(max_examples=60, deadline=None)
@given(st.lists(PAYLOADS, min_size=1, max_size=12))
def test_every_row_is_there_and_counted(payloads: list[bytes]) -> None:
    """In each column either filled, empty, or unfit with a reason; and the neighbours change nothing of it."""
    rows, counts = widened(COLUMNS, payloads)
    assert counts.rows == len(rows) == len(payloads)
    assert counts.unfit == sum(row["_unfit"] is not None for row in rows)
    assert {each.filled + each.empty + each.unfit for each in counts.columns} == {len(payloads)}
    alone: list[dict[str, Any]] = [widened(COLUMNS, [payload])[0][0] for payload in payloads]
    assert repr(rows) == repr(alone)


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_what_is_filled_says_what_the_payload_says(value: object) -> None:
    """Read back as JSON: the same value, not a rounded or a cast one."""
    payload = json.dumps({"x": value}, allow_nan=True).encode(errors="surrogatepass")
    rows, _ = widened(
        {"i": {"path": "x", "type": "int64"}, "f": {"path": "x", "type": "float64"}, "x": "json"}, [payload]
    )
    row = rows[0]
    if row["i"] is not None:
        assert (type(value), row["i"]) == (int, value)
    if row["f"] is not None:
        assert type(value) in {int, float}
        assert row["f"] == value
    if row["x"] is not None:
        assert json.loads(row["x"]) == value


def test_a_long_integer_is_never_rounded() -> None:
    """Also where Python reads the row, for another key's sake: what it makes of 81 digits and more is no int."""
    for digits in (80, 81, 308):
        whole = "1" * digits
        for further in ("", ',"y":NaN', ',"y":1,"y":2'):
            rows, _ = widened({"x": "float64"}, [f'{{"x":{whole}{further}}}'.encode()])
            assert rows[0]["x"] is None
            assert "would lose digits as float64" in rows[0]["_unfit"]
    rows, _ = widened({"x": "float64"}, [f'{{"x":{2**200},"y":NaN}}'.encode(), f'{{"x":{2**300},"y":NaN}}'.encode()])
    assert [row["x"] for row in rows] == [2.0**200, 2.0**300]


@pytest.mark.parametrize("kind", ["decimal(10,2)", "float64", "int64"])
def test_a_number_of_a_million_digits_takes_no_object_for_each(kind: str) -> None:
    """A few copies of its text are taken, and none of them is kept."""
    text = f"0.{'9' * 1_000_000}"
    typed(kind, "1.234")
    tracemalloc.start()
    try:
        ((_, reason),) = typed(kind, text)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (reason is None) == (kind == "float64")
    assert peak < 12 * len(text)
    assert kept < len(text)


def test_a_string_without_an_end_is_passed_over_once() -> None:
    """Not once from each of its quotes: 120 kB took more than a minute, and twice as much four times as long."""
    begin = time.process_time()
    for end in ("", "\\"):
        rows, counts = widened({"x": "json"}, [("[" * 101 + '"' + '\\"' * 60_000 + end).encode()])
        assert (rows[0]["_unfit"], counts.unfit) == ("payload: nested deeper than 100", 1)
    assert time.process_time() - begin < 10
