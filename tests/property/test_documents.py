"""Payloads that msgspec decodes give what Python's own decoder gives, whatever stands beside them in a block."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compaction.columns.documents import MAX_DEPTH, Documents, key_count, read_documents
from tests.fakes.typed_lines import lines_of

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
    "more": [1, 2],
}
AWKWARD = ('"', "\\", "\n", "\x00", '":', " :", "")
names = st.sampled_from([*GOOD, "other", "a", "é", *AWKWARD])


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


def read(block: Sequence[bytes]) -> Documents:
    """Return what is read of a block of payloads."""
    return read_documents(lines_of(block)["data"].combine_chunks(), exact=True)


def by_python(payload: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Return the object that Python decodes; None where it is none, or has a key twice."""

    def whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    try:
        row = json.loads(payload.decode(), object_pairs_hook=whole, parse_float=Decimal)
    except (ValueError, AssertionError):
        return None
    return row if type(row) is dict else None


@settings(max_examples=50)
@example([json.dumps(GOOD).encode()] * 8 + [json.dumps(GOOD).replace("{", '{"more":3,', 1).encode()])
@given(st.lists(payloads(), min_size=1, max_size=24))
def test_msgspec_decodes_what_python_decodes(block: list[bytes]) -> None:
    """And no row in which a key is there twice."""
    documents = read(block)
    for number, payload in enumerate(block):
        if number not in documents.apart | documents.unread:
            assert documents.rows[number] == by_python(payload)
            assert number not in documents.problems


@settings(max_examples=50)
@given(st.lists(payloads(), min_size=2, max_size=24))
def test_neighbours_change_nothing(block: list[bytes]) -> None:
    """The keys of a block are counted together where they can be."""
    documents = read(block)
    alone = [read([payload]) for payload in block]
    assert repr([documents.problems.get(number, []) for number in range(len(block))]) == repr(
        [one.problems.get(0, []) for one in alone]
    )
    assert (documents.apart, documents.unread) == (
        {number for number, one in enumerate(alone) if one.apart},
        {number for number, one in enumerate(alone) if one.unread},
    )
    assert [row for number, row in enumerate(documents.rows) if number not in documents.apart] == [
        one.rows[0] for one in alone if not one.apart
    ]


@pytest.mark.parametrize("twice", [b'{"n":1,', b'{"fare":{"price":"2.50"},'])
def test_one_key_twice_is_found_in_a_whole_block(twice: bytes) -> None:
    """A block has thousands of rows, of which one is wrong; only that one is read by Python's decoder."""
    block = [json.dumps(GOOD | {"n": number}).encode() for number in range(300)]
    block[150] = block[150].replace(b"{", twice, 1)
    documents = read(block)
    assert documents.apart == {150}
    assert [problem.kind for problem in documents.problems[150]] == ["duplicate_key"]


@pytest.mark.parametrize("key", AWKWARD)
@pytest.mark.parametrize("where", ["at the top", "within"])
def test_awkward_keys_are_keys(key: str, where: str) -> None:
    """Producers name keys as they like."""
    further = {key: 1} if where == "at the top" else {"meta": {key: 1, "at": {"ms": 1}}}
    whole = GOOD | {"x": 1} | further
    documents = read([json.dumps(whole).encode()] * 9)
    assert documents.rows == [whole] * 9
    assert not documents.problems


@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ('{"a":', "}")])
def test_a_value_is_as_deep_as_it_may_be(open_: str, close: str) -> None:
    """Beside one that is a level deeper, in a key that nobody asks for."""
    block = [b'{"n":%s}' % (open_ * depth + "1" + close * depth).encode() for depth in (MAX_DEPTH - 1, MAX_DEPTH)]
    documents = read(block)
    assert (documents.apart, documents.unread) == ({1}, {1})
    assert [problem.kind for problem in documents.problems[1]] == ["too_deep"]


@given(values)
def test_keys_are_counted_as_they_are_written(value: object) -> None:
    """Those of every object, and no others."""
    count = 0

    def counted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal count
        count += len(pairs)
        return dict(pairs)

    json.loads(json.dumps(value), object_pairs_hook=counted)
    assert key_count(value) == count


def test_null_payloads_are_not_utf8() -> None:
    """Their bytes are in another column."""
    documents = read_documents(pa.array(['{"n":1}', None]), exact=False)
    assert documents.rows == [{"n": 1}, {}]
    assert [problem.kind for problem in documents.problems[1]] == ["not_utf8"]
