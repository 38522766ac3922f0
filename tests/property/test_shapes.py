"""Payloads that are read by their shape give what they give when each is read by itself."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compaction.typed.documents import MAX_BYTES, DocumentReader
from compaction.typed.payload_columns import PayloadColumns
from compaction.typed.places import places
from tests.fakes.typed_lines import lines_of, mapping

COLUMNS = {
    "n": {"type": "int64"},
    "x": {"type": "float64"},
    "price": {"path": "fare.price", "type": "decimal(10,2)"},
    "fare": {"type": "json"},
    "deep": {"path": "meta.at.ms", "type": "timestamp(ms)"},
    "tags": {"type": "list<string>"},
    "who": {"type": "struct<a: int64, b: string>"},
    "none": {"path": "meta.none", "type": "string"},
}
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**64), 2**64), st.floats(), st.text(max_size=6), st.just('"a":1')
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
)
GOOD: dict[str, Any] = {
    "n": 7,
    "x": 0.5,
    "fare": {"price": "1.50", "tax": [{"a": 1}]},
    "meta": {"at": {"ms": 1_795_256_161_790}, "v": "é"},
    "tags": ["a", "b"],
    "who": {"a": 1, "b": "x"},
    "unasked": [1, 2],
}
names = st.sampled_from([*GOOD, "other", "a", '"', "é"])


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Return a payload: most are alike, some lack keys, have others, or one twice, or are no JSON at all."""
    how = draw(st.integers(0, 14))
    whole = dict(GOOD, n=draw(st.integers(-5, 5)))
    if how == 0:
        whole.pop(draw(st.sampled_from(list(GOOD))))
    if how == 1:
        whole[draw(names)] = draw(values)
    if how == 2:
        whole["meta"] = draw(values)
    text = json.dumps(
        whole, separators=(",", draw(st.sampled_from([":", " :", ": "]))), ensure_ascii=draw(st.booleans())
    )
    if how == 3:
        text = text.replace(
            "{", "{" + json.dumps(draw(names)) + ":" + json.dumps(draw(values)) + ",", draw(st.integers(1, 4))
        )
    if how == 4:
        at = draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + draw(st.sampled_from(["", "}", '"', ",", "\\u0022:", "NaN", " ", "1e999", "[" * 120]))
            + text[at + 1 :]
        )
    if how == 5:
        return draw(st.binary(max_size=5))
    return text.encode()


def widened(block: list[bytes], *, shaped: bool) -> tuple[pa.Table, object]:
    """Return the columns, and what was counted."""
    columns = mapping(COLUMNS)
    payload_columns = PayloadColumns(columns)
    if not shaped:
        payload_columns._reader = DocumentReader(exact=True)
    table = pa.Table.from_arrays(payload_columns.columns_of(lines_of(block)), schema=pa.schema(columns.fields))
    return table, payload_columns.counts()


@settings(max_examples=25)
@example([json.dumps(GOOD).encode()] * 8 + [json.dumps(GOOD).replace("{", '{"unasked":3,', 1).encode()])
@given(st.lists(payloads(), min_size=8, max_size=24))
def test_a_shape_changes_no_value_and_no_reason(block: list[bytes]) -> None:
    """Nor the numbers of the audit."""
    table, counts = widened(block, shaped=True)
    judge, counted = widened(block, shaped=False)
    assert table.to_pylist() == judge.to_pylist()
    assert counts == counted


def test_payloads_of_one_shape_are_read_by_it() -> None:
    """Else the comparison above would say nothing. One in eight may be of another."""
    reader = DocumentReader(exact=True, paths=[("n",), ("fare", "price"), ("fare",)])
    whole = json.dumps(GOOD).encode()
    data = lines_of([whole] * 15 + [b"{}", whole.replace(b"[1, 2]", b"[" * 99 + b"]" * 99)])["data"].combine_chunks()
    read = reader.read(data)
    assert read.shape is not None
    assert list(read.apart) == [15, 16]


@settings(max_examples=25)
@given(st.lists(st.sampled_from([b'":', b'"', b":", b"a"]), max_size=9), st.integers(0, 3), st.integers(0, 3))
def test_places_of_long_texts_are_counted_as_those_of_short_ones(few: list[bytes], before: int, behind: int) -> None:
    """Wherever they begin and end: one byte further, and each `":` is of another pair of bytes."""
    text = b"x" * before + b"".join(few) * 9_000 + b'":' + b"x" * behind
    assert places(text, ()) == text.count(b'":')


@pytest.mark.parametrize("twice", [b'{"n":1,', b'{"fare":{"price":"2.50"},'])
def test_one_key_twice_is_found_in_a_whole_block(twice: bytes) -> None:
    """A block has thousands of rows, of which one is wrong; the others are read by their shape."""
    block = [json.dumps(GOOD | {"n": number}).encode() for number in range(300)]
    block[150] = block[150].replace(b"{", twice, 1)
    table, counts = widened(block, shaped=True)
    judge, counted = widened(block, shaped=False)
    assert (table.to_pylist(), counts) == (judge.to_pylist(), counted)
    assert [row for row, why in enumerate(table["_unfit"].to_pylist()) if why is not None] == [150]


@pytest.mark.parametrize("key", ['"', "\\", "\n", "\x00", '":', ""])
@pytest.mark.parametrize("where", ["at the top", "within"])
def test_keys_that_no_struct_can_have_stop_nothing(key: str, where: str) -> None:
    """Producers name keys as they like: a whole block of such payloads is read as dicts."""
    further = {key: 1} if where == "at the top" else {"meta": {key: 1, "at": {"ms": 1}}}
    block = [json.dumps(GOOD | further).encode()] * 9
    table, counts = widened(block, shaped=True)
    judge, counted = widened(block, shaped=False)
    assert (table.to_pylist(), counts) == (judge.to_pylist(), counted)
    assert table["n"].to_pylist() == [7] * 9


def test_a_payload_that_is_too_long_is_not_read_by_a_shape_either() -> None:
    """What is bounded must not depend on the neighbours: they taught the shape."""
    columns = mapping(COLUMNS)
    payload_columns = PayloadColumns(columns)
    good = json.dumps(GOOD).encode()
    found = [payload_columns.columns_of(lines_of([good] * 8 + [good + b" " * size])) for size in (0, MAX_BYTES)]
    assert payload_columns._reader._shape is not None
    said = [pa.Table.from_arrays(arrays, schema=pa.schema(columns.fields)).to_pylist()[-1] for arrays in found]
    assert (said[0]["n"], said[0]["_unfit"]) == (7, None)
    assert (said[1]["n"], said[1]["_unfit"]) == (
        None,
        f"payload: {len(good) + MAX_BYTES} bytes, more than {MAX_BYTES} are not read",
    )
