"""Payloads that the native codec reads give the columns, and the counts, that Python's decoder gives."""

import json
import random
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.columns.columns import Columns
from compaction.columns.counts import TypedCounts
from compaction.columns.native_columns import NativeColumns, new_native_columns
from compaction.columns.payload_columns import PayloadColumns
from tests.fakes.compiled_codec import COMPILER, compiled_codec
from tests.fakes.typed_lines import columns_of, lines_of, mapping
from tests.fuzz.payloads import COLUMNS, NUMBERS, OTHERS, STRINGS, payload

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler on this machine")

WANTED = mapping(COLUMNS)


def native_of(columns: Columns, one_in: int = 0) -> NativeColumns:
    """Return what reads payloads in C, by the sources as they are: every block, however many of its rows are left."""
    reader = offered(columns, one_in)
    assert reader is not None
    return reader


def offered(columns: Columns, one_in: int = 0) -> NativeColumns | None:
    """Return the reader that columns get; None: Python's decoder reads them."""
    readers: list[NativeColumns | None] = []

    def new_native(*words: Any) -> NativeColumns | None:  # noqa: ANN401 - as `new_native_columns` has them
        readers.append(new_native_columns(*words, library=compiled_codec, one_in=one_in))
        return readers[0]

    PayloadColumns(columns, new_native=new_native)
    return readers[0] if readers else None


def both(columns: Columns, texts: list[bytes]) -> tuple[list[pa.Table], list[TypedCounts], int]:
    """Return the columns and the counts with the codec and without, and how many rows it took."""
    lines = lines_of(texts)
    native = PayloadColumns(columns, new_native=partial(new_native_columns, library=compiled_codec, one_in=0))
    twin = PayloadColumns(columns, new_native=lambda *_: None)
    found = native_of(columns).read(lines["data"].combine_chunks())
    names = [field.name for field in columns.fields]
    tables = [pa.table(columns_of(one, lines), names=names) for one in (native, twin)]
    for column in tables[0].columns:
        column.validate(full=True)
    return tables, [native.counts(), twin.counts()], 0 if found is None else len(texts) - len(found.left)


def check(columns: Columns, texts: list[bytes]) -> int:
    """Demand that both are the same, zeros' signs too; returns how many rows the codec took."""
    (native, twin), counts, taken = both(columns, texts)
    assert repr(native.to_pylist()) == repr(twin.to_pylist())
    assert counts[0] == counts[1]
    return taken


@given(seed=st.integers(0, 2**32), rows=st.sampled_from([1, 2, 40]))
def test_any_payloads(seed: int, rows: int) -> None:
    """Most are objects as a producer writes them; some are damaged, or hold what fits no column."""
    rng = random.Random(seed)
    check(WANTED, [payload(rng) for _ in range(rows)])


@pytest.mark.parametrize("name", list(COLUMNS))
def test_every_value_in_every_column(name: str) -> None:
    """Each number, string and other value of the list, alone in a column: most of a type's own are taken."""
    kind = COLUMNS[name]["type"]
    values = [*NUMBERS, *(f'"{text}"' for text in STRINGS), *OTHERS]
    texts = [f'{{"x":{value}}}'.encode() for value in values]
    taken = check(mapping({"x": {"type": kind}}), texts)
    if not kind.startswith("list"):
        in_lists = [f'{{"x":[{value}]}}'.encode() for value in values]
        taken += check(mapping({"x": {"type": f"list<{kind}>"}}), in_lists)
    assert taken > (1 if "<" in kind else 3), "what is read by the twin alone tests nothing"


def test_what_is_usual_is_taken() -> None:
    """Keys in any order, blanks, escapes, nulls, and keys that no column asks for."""
    usual = {"text": "é", "truth": True, "small": 1, "numbers": {"large": 2, "double": 0.5, "price": "1.50"}, "x": {}}
    pairs = list(usual.items())
    texts = [json.dumps(dict(pairs[at:] + pairs[:at]), indent=at % 2).encode() for at in range(len(pairs))]
    assert check(WANTED, texts) == len(texts)


@pytest.mark.parametrize("half", [r"\udc00", r"\uDFFFx", r"\ud800", r"\udbffx", r"\ud800\ud800", r"\udc00\ud800"])
def test_half_a_surrogate_pair_has_no_encoding(half: str) -> None:
    """Both refuse it in a text, in a list and in a document: the Parquet file would hold invalid UTF-8."""
    for kind, value, kept in (
        ("string", f'"{half}"', None),
        ("list<string>", f'["{half}"]', [None]),
        ("json", f'["{half}"]', None),
    ):
        texts = [b'{"x":%s}' % value.encode(), b'{"x":null}']
        columns = mapping({"x": {"type": kind}})
        (native, _), _, taken = both(columns, texts)
        assert taken == 1
        assert native.to_pylist()[0]["x"] == kept
        assert check(columns, texts) == taken


def test_what_lies_below_a_null_is_no_payload() -> None:
    """Arrow says nothing of the bytes there."""
    whole = pa.array(['{"x":1}', '{"x":2}'])
    _, *others = whole.buffers()
    data = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), *others])
    found = native_of(mapping({"x": {"type": "int64"}})).read(data)
    assert found is not None
    assert (found.left, found.arrays[0].to_pylist()) == ([0], [None, 2])


def test_a_key_that_is_there_twice_is_found_however_usual_its_object_is() -> None:
    """The keys of the row before are no proof: neither of those that come again, nor of those that moved."""
    texts = [
        *(b'{"a":1,"b":2,"c":3}', b'{"a":1,"b":2,"c":3}', b'{"a":1,"b":2,"a":3}', b'{"b":1,"b":2,"c":3}'),
        *(b'{"c":1,"b":2,"c":3}', b'{"a":1,"b":2}', b'{"a":1,"b":2,"c":3,"b":4}', b'{"a":1,"c":2,"b":3,"a":4}'),
    ]
    (native, _), _, taken = both(mapping({"b": {"type": "int64"}}), texts)
    assert taken == 3
    assert [row["_unfit"] is None for row in native.to_pylist()] == [
        True,
        True,
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    assert check(mapping({"b": {"type": "int64"}}), texts) == taken


def test_structs_are_read_as_their_leaves() -> None:
    """Within lists and each other; keys in any order, some missing, and nulls at each level."""
    kind = "list<struct<a: int64, b: struct<c: string not null, d: list<list<bool>>>>>"
    columns = mapping({"x": {"type": kind}, "y": {"type": "struct<a: int64 not null>", "path": "z.y"}})
    texts = [
        b'{"x":[{"a":1,"b":{"c":"u","d":[[true],[],null]}},{"b":{"d":null,"c":"v"},"z":{"a":9}},null,{}],"z":{"y":{"a":1}}}',
        b'{"x":null,"z":{"y":null}}',
        b'{"x":[],"z":7}',
        b'{"x":[{"b":null}]}',
        b'{"x":[{"a":5},{"b":{}}],"z":{"y":{"a":2}}}',
        b'{"z":{"y":{"b":2}}}',
        b'{"x":[{"a":3,"a":4}]}',
        b'{"x":[{"a":1},"2"],"z":{"y":{"a":1}}}',
        b'{"x":[{"a":6}],"z":{"y":{"a":7}}}',
    ]
    assert check(columns, texts) == 5
    assert check(columns, texts * 400) == 2000


def test_an_object_where_a_text_is_wanted_keeps_what_lies_below_it() -> None:
    """An object at `error` is a misfit of that column, and the column of `error.message` has its value."""
    kinds = ("string", "int64 from text", "float64", "timestamp", "timestamp(s)")
    texts = [
        b'{"error":{"message":"boom","at":{"line":7}}}',
        *(
            b'{"error":null}',
            b'{"error":{"message":[1],"at":{"line":"x"}}}',
            b'{"error":{"message":"a","message":"b"}}',
        ),
    ]
    for kind in kinds:
        columns = mapping(
            {
                "message": {"type": "string", "path": "error.message"},
                "error": {"type": kind},
                "line": {"type": "int64", "path": "error.at.line"},
                "at": {"type": "int32", "path": "error.at"},
            }
        )
        (native, _), _, taken = both(columns, texts)
        assert (native["message"].to_pylist()[0], native["line"].to_pylist()[0]) == ("boom", 7)
        assert check(columns, texts * 20) == 20 * taken == 60


@pytest.mark.parametrize("number", ["5e-324", "1e-400", "1.7976931348623157e308", "1.50", "12e0", "1e400", "-1E+400"])
@pytest.mark.parametrize("beside", ['"a"', '"a :"', "NaN"])
def test_a_reason_is_the_same_whatever_reads_the_row(number: str, beside: str) -> None:
    """A text with a colon has its row read by Python's own decoder, whose numbers are those of the others."""
    for kind in ("string", "int64", "date", "float64"):
        texts = [f'{{"x":{number},"y":{beside}}}'.encode(), *[b'{"x":null}'] * 2]
        (native, twin), _, _ = both(mapping({"x": {"type": kind}}), texts)
        alone, _ = both(mapping({"x": {"type": kind}}), [f'{{"x":{number}}}'.encode()])[:2]
        assert native.to_pylist() == twin.to_pylist()
        told = (native["_unfit"][0].as_py() or "").removeprefix("payload: NaN is not JSON; ")
        assert told in {alone[0]["_unfit"][0].as_py() or "", "payload: NaN is not JSON"}


def test_rows_that_are_left_go_back_to_their_places() -> None:
    """Between rows that are taken; a list that was begun leaves no elements behind."""
    texts = [b'{"names":["a","b"]}', b'{"names":["c",7]}', b'{"names":["d"]}', b"[]", b'{"names":["e"],"text":"t"}']
    (native, _), (counts, _), taken = both(WANTED, texts)
    assert taken == 3
    assert native["names"].to_pylist() == [["a", "b"], ["c", None], ["d"], None, ["e"]]
    found = native_of(WANTED).read(lines_of(texts)["data"].combine_chunks())
    assert found is not None
    assert found.arrays[list(COLUMNS).index("names")].values.to_pylist() == ["a", "b", "d", "e"]
    assert counts.unfit == 2
    assert check(WANTED, texts) == taken


@pytest.mark.parametrize(
    "text",
    [
        *(
            b"",
            b" ",
            b"[]",
            b"1",
            b'"x"',
            b"null",
            b"{",
            b'{"x":1',
            b'{"x":1,}',
            b'{"x" 1}',
            b'{"x":1 "y":2}',
            b"{x:1}",
        ),
        *(
            b'{"x":1}}',
            b'{"x":1},',
            b'{"x":1}{"x":2}',
            b'{"x":1} x',
            b'\xef\xbb\xbf{"x":1}',
            b'{"x":1}\0',
            b'{"\\u0078":1}',
        ),
    ],
)
def test_what_is_no_object_is_left(text: bytes) -> None:
    """And what is one, but has a key that is escaped. The twin says what it is."""
    assert check(mapping({"x": {"type": "int64"}}), [text, b'{"x":1}']) == 1


def test_a_column_that_is_required() -> None:
    """A null, and a value that is not there, are left to the twin, which says so."""
    columns = mapping({"x": {"type": "int64", "required": True}, "y": {"type": "list<int64 not null>"}})
    texts = [b'{"x":1,"y":[1]}', b'{"y":[1]}', b'{"x":null}', b'{"x":2,"y":[1,null]}', b'{"x":3,"y":null}']
    assert check(columns, texts) == 2


def test_blocks_in_which_most_rows_are_left_are_the_twins() -> None:
    """And after three of them, all are: nothing is read twice for long."""
    reader = native_of(mapping({"x": {"type": "int64"}}), one_in=8)
    good, bad = (lines_of([text] * 16)["data"].combine_chunks() for text in (b'{"x":1}', b"[]"))
    assert reader.read(good) is not None
    assert [reader.read(bad) for _ in range(3)] == [None] * 3
    assert reader.read(good) is None


@pytest.mark.parametrize(
    "columns",
    [
        {"x": {"type": "struct<a: int64>"}, "y": {"type": "int64", "path": "x.b"}},
        {"x": {"type": "struct<a: timestamp(%d/%m/%Y)>"}},
        {"x": {"type": "list<int64>"}, "y": {"type": "int64", "path": "x.b"}},
        {"x": {"type": "int64", "path": "a || b"}},
        {"x": {"type": "int64", "path": "a"}, "y": {"type": "string", "path": "a"}},
        {f"x{number}": {"type": "int64"} for number in range(501)},
        {"x": {"type": f"struct<{', '.join(f'a{number}: int64' for number in range(500))}>"}},
    ],
)
def test_what_is_not_offered(columns: dict[str, dict[str, str]]) -> None:
    """Types, paths and numbers of columns that the twin reads alone."""
    assert offered(mapping(columns)) is None
