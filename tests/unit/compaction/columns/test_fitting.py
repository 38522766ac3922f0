"""What fits a type exactly, what paths make of payloads, and the reason that a person reads where it does not fit."""

import datetime as dt
from decimal import Decimal

import pytest

from compaction.columns.decode.decoder import new_payload_columns
from compaction.columns.fitting import _may_be_time
from compaction.columns.types import parse_type
from tests.fakes.typed_lines import lines_of, mapping, typed, widened

UTC = dt.UTC


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", '"é\\u0000\\"\\ud83d\\ude00"', 'é\0"😀'),
        ("string", '""', ""),
        ("bool", "true", True),
        ("bool", "false", False),
        ("int32", "-2147483648", -(2**31)),
        ("int64", "9223372036854775807", 2**63 - 1),
        ("float64", "0.1", 0.1),
        ("float64", "9007199254740992", 2.0**53),
        ("float64", "1e308", 1e308),
        ("decimal(10,2)", "12.34", Decimal("12.34")),
        ("decimal(10,2)", '"-12.3400"', Decimal("-12.34")),
        (
            "decimal(38,18)",
            "12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        ("decimal(10,2)", "1.5e3", Decimal("1500.00")),
        *(("decimal(10,2)", f'"1.5{"0" * zeros}"', Decimal("1.50")) for zeros in (36, 37, 40, 60, 70, 75)),
        ("decimal(10,2)", f"-7.1{'0' * 40}", Decimal("-7.10")),
        ("decimal(38,0)", f'"{"9" * 38}.{"0" * 40}"', Decimal("9" * 38)),
        ("decimal(38,38)", f"0.{'1' * 38}{'0' * 20}", Decimal(f"0.{'1' * 38}")),
        ("date", '"2024-02-29"', dt.date(2024, 2, 29)),
        ("date(days)", "-719162", dt.date(1, 1, 1)),
        ("date(%d.%m.%Y)", '"29.02.2024"', dt.date(2024, 2, 29)),
        ("timestamp", '"2026-11-22T10:00:00.123456+02:00"', dt.datetime(2026, 11, 22, 8, 0, 0, 123456, UTC)),
        ("timestamp(ms)", "1795256161790", dt.datetime(2026, 11, 21, 10, 16, 1, 790_000, UTC)),
        ("timestamp(%d/%m/%Y %H:%M:%S)", '"08/02/2026 10:00:01"', dt.datetime(2026, 2, 8, 10, 0, 1, tzinfo=UTC)),
        ("local_timestamp", '"2026-11-22 10:00:00"', dt.datetime(2026, 11, 22, 10, 0, 0)),  # noqa: DTZ001 - as meant
        ("json", '{"a" : [1, 2.50, "x"]}', '{"a":[1,2.50,"x"]}'),
        ("json", "123456789012345678901234567890", "123456789012345678901234567890"),
        ("json", "[" * 99 + "]" * 99, "[" * 99 + "]" * 99),
        ("list<int64>", "[1,null,3]", [1, None, 3]),
        ("list<list<string>>", '[["a"],[],null]', [["a"], [], None]),
        ("struct<a: int64, b: list<date>>", '{"b":["2026-01-01"],"z":9}', {"a": None, "b": [dt.date(2026, 1, 1)]}),
    ],
)
def test_a_value_is_read_exactly(kind: str, text: str, value: object) -> None:
    """As it was written, also between values that do not fit, and beside a null."""
    assert typed(kind, text) == [(value, None)]
    rows = typed(kind, "null", text, '{"no":"such"}', text, "[[[{}]]]")
    assert [row for row, _ in rows][1::2] == [value, value]
    assert rows[0] == (None, None)


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("decimal(10,2)", '"12x"', 'x: "12x" is not decimal(10,2)'),
        ("decimal(10,2)", '"NaN"', 'x: "NaN" is not decimal(10,2)'),
        ("decimal(10,2)", '" 1"', 'x: " 1" is not decimal(10,2)'),
        ("decimal(10,2)", '"1\\n"', 'x: "1\\n" is not decimal(10,2)'),
        ("decimal(10,2)", "12.345", "x: 12.345 has more than 2 digits behind the point"),
        ("decimal(10,2)", "123456789.1", "x: 123456789.1 is out of the range of decimal(10,2)"),
        ("decimal(38,38)", "35", "x: 35 is out of the range of decimal(38,38)"),
        ("decimal(38,30)", "1234567890123", "x: 1234567890123 is out of the range of decimal(38,30)"),
        ("decimal(10,2)", "true", "x: true is not decimal(10,2)"),
        ("decimal(10,2)", "1e-999999999", "x: 1E-999999999 has more than 2 digits behind the point"),
        ("decimal(10,2)", '"1e-999999999"', 'x: "1e-999999999" is not decimal(10,2)'),
        ("decimal(10,2)", "1e999999999999999999999", "x: 1e999999999999999999 is not a JSON number"),
        ("int64", "9223372036854775808", "x: 9223372036854775808 is out of the range of int64"),
        ("int64", "-" + "9" * 5000, "x: -999999999999999999999999999999999999999… is out of the range of int64"),
        ("int32", "2147483648", "x: 2147483648 is out of the range of int32"),
        ("int64", "1.0", "x: 1.0 is not int64"),
        ("int64", '"1"', 'x: "1" is not int64'),
        ("int64", "true", "x: true is not int64"),
        ("int64", "NaN", "payload: NaN is not JSON; x: NaN is not a JSON number"),
        ("float64", "9007199254740993", "x: 9007199254740993 would lose digits as float64"),
        ("float64", "1e400", "x: 1E+400 is out of the range of float64"),
        ("float64", "-Infinity", "payload: -Infinity is not JSON; x: -Infinity is not a JSON number"),
        ("string", "1", "x: 1 is not string"),
        ("string", '"\\ud800"', 'x: "\\ud800" is not valid Unicode'),
        ("bool", "0", "x: 0 is not bool"),
        ("date", '"2026-02-30"', 'x: "2026-02-30" is not date'),
        ("date", '"0000-01-01"', 'x: "0000-01-01" is not date'),
        ("date(days)", "2932897", "x: 2932897 is out of the range of date(days)"),
        ("date(%d.%m.%Y)", '"31.02.2024"', 'x: "31.02.2024" is not date(%d.%m.%Y)'),
        ("timestamp", '"2026-11-22T10:00:00"', 'x: "2026-11-22T10:00:00" is not timestamp'),
        ("timestamp(s)", "99999999999999999", "x: 99999999999999999 is out of the range of timestamp(s)"),
        ("local_timestamp", '"2026-11-22T10:00:00Z"', 'x: "2026-11-22T10:00:00Z" is not local_timestamp'),
        ("json", '{"a":NaN}', "payload: NaN is not JSON; x: an object cannot be written as JSON"),
        ("list<int64>", "{}", "x: an object is not list<int64>"),
        ("struct<a: int64>", "[]", "x: a list of 0 is not struct<a: int64>"),
    ],
)
def test_what_does_not_fit_is_null_and_says_why(kind: str, text: str, reason: str) -> None:
    """Its neighbours are untouched, whichever of them are in the same block."""
    assert typed(kind, text) == [(None, reason)]
    assert typed(kind, "null", text, "null", text) == [(None, None), (None, reason)] * 2


@pytest.mark.parametrize(
    ("text", "may_be"),
    [
        ("2024-02-29", True),
        ("2000-02-29T23:59:59Z", True),
        ("2023-02-29", False),
        ("1900-02-29", False),
        ("2026-02-30", False),
        ("2026-00-10", False),
        ("2026-13-10", False),
        ("2026-04-31", False),
        ("2026-12-00", False),
        ("2026-11-22T24:00:00Z", False),
        ("2026-11-22 10:00", False),
    ],
)
def test_what_looks_like_a_time_and_is_none_is_found_at_once(text: str, *, may_be: bool) -> None:
    """Arrow refuses it, and does not say which row it is: a search for each would take half a millisecond."""
    kind = parse_type("timestamp" if len(text) > 10 else "date")
    assert _may_be_time(kind, text) is may_be


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "payload: empty"),
        (b" ", "payload: empty"),
        (b"\xff", "payload: not UTF-8 text"),
        (b"[1]", "payload: a list, not an object"),
        (b"null", "payload: null, not an object"),
        (b"NaN", "payload: NaN is not JSON; payload: a number, not an object"),
        (b'{"x":1}{"x":2}', "payload: several JSON documents: 2"),
        (b'{"x":1} {"x":2}\n{"x":3}\n', "payload: several JSON documents: 3"),
        (b'{"x":1}{"x":2', "payload: not JSON: Extra data: line 1 column 8 (char 7)"),
        (b'{"x":1},{"x":2}', "payload: not JSON: Extra data: line 1 column 8 (char 7)"),
        (
            b"\xef\xbb\xbf{}",
            "payload: not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)",
        ),
        (b'{"x":' + b"[" * 100 + b"]" * 100 + b"}", "payload: nested deeper than 100"),
        (b'{"x":' + b"[" * 200_000, "payload: nested deeper than 100"),
        (b'{"x":1,"y":"' + b"z" * (10 << 20) + b'"}', "payload: 10485774 bytes, more than 10485760 are not read"),
        (b'{"x":1,"y":[' + b"[]," * 600_000 + b"1]}", "payload: 1800015 bytes of too many values"),
    ],
)
def test_a_payload_that_is_no_object_fits_no_column(payload: bytes, reason: str) -> None:
    """And the rows beside it do."""
    rows, counts = widened({"x": "int64"}, [b'{"x":1}', payload, b'{"x":2}'])
    assert rows == [{"x": 1, "_unfit": None}, {"x": None, "_unfit": reason}, {"x": 2, "_unfit": None}]
    assert (counts.rows, counts.unfit) == (3, 1)


def test_a_key_that_is_there_twice_stands_for_nothing() -> None:
    """However the two are written; other columns of the row are read."""
    doubled = [
        b'{"x":1,"x":2,"y":3}',
        b'{"x":1,"x" :1,"y":3}',
        b'{"x":1,"\\u0078":1,"y":3}',
        b'{"x":1,"x":1,"y":3,"z":"\\u0022:"}',
        b'{"x":1,"x":1,"y":3,"z":"\\"\\u003A"}',
        b'{"y":3,"x"\n:\t1,"x" :1}',
    ]
    rows, _ = widened({"x": "int64", "y": "int64"}, doubled)
    why = 'payload: the key "x" is there several times; x: the key is there several times'
    assert rows == [{"x": None, "y": 3, "_unfit": why}] * 6


@pytest.mark.parametrize(
    "payload",
    [b'{"y":{"a":1,"a":2},"x":1}', b'{"y":[{"a":1,"a" :2}],"x":1}', b'{"a":"\\"::","a":":\\":","x":1}'],
)
def test_a_key_that_is_there_twice_where_no_column_is_makes_the_row_unfit(payload: bytes) -> None:
    """Its payload is read in two ways by two readers; what the columns hold is sure."""
    rows, _ = widened({"x": "int64"}, [payload])
    assert rows == [{"x": 1, "_unfit": 'payload: the key "a" is there several times'}]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"x":1,"y":":\\":"}',
        b'{ "x" : 1 , "y" : { "x" : 2 } }',
        b'{"x":1,"y":[{"x":1},{"x":1}],"":""}',
        b'{"x":1,"y":"a :b"}',
    ],
)
def test_a_key_that_is_there_once_an_object_is_no_doubt(payload: bytes) -> None:
    """Colons, quotes and blanks in strings are no keys."""
    rows, _ = widened({"x": "int64"}, [payload])
    assert rows == [{"x": 1, "_unfit": None}]


def test_a_required_column_must_be_there() -> None:
    """Missing and null are the same to it."""
    rows, counts = widened({"x": {"type": "int64", "required": True}}, [b"{}", b'{"x":null}', b'{"x":0}', b"no"])
    assert [row["_unfit"] for row in rows][:3] == ["x: missing or null, and required"] * 2 + [None]
    assert counts.columns[0] == ("x", 1, 0, 3)
    assert [(found.column, found.kind, found.rows) for found in counts.samples] == [
        ("payload", "not_json", 1),
        ("x", "missing", 2),
    ]


def test_paths_find_values_in_objects() -> None:
    """Names alone, and any other JMESPath; where it fails on a payload, that row does not fit."""
    columns = {
        "zip": {"path": "address.zip", "type": "string"},
        "first": {"path": "items[0].id", "type": "int64"},
        "big": {"path": "length(items[?n > `1`])", "type": "int64"},
    }
    payloads = [
        b'{"address":{"zip":"04109"},"items":[{"id":7,"n":2}]}',
        b'{"address":"none","items":[]}',
        b'{"items":"none","address":{"zip":"a","zip":"b"}}',
    ]
    rows, _ = widened(columns, payloads)
    assert rows[0] == {"zip": "04109", "first": 7, "big": 1, "_unfit": None}
    assert rows[1] == {"zip": None, "first": None, "big": 0, "_unfit": None}
    assert rows[2]["_unfit"] == (
        'payload: the key "zip" is there several times; zip: the key is there several times; '
        "big: the path fails on this payload"
    )


@pytest.mark.parametrize(
    ("kind", "text", "value", "reason"),
    [
        ("list<int64>", '[1,"2"]', [1, None], 'x[]: "2" is not int64 (at [1])'),
        ("list<int64>", '["",3,""]', [None, 3, None], 'x[]: "" is not int64 (2 values, the first at [0])'),
        ("list<int64 not null>", "[1,null]", [1, None], "x[]: null, and required (at [1])"),
        ("list<list<int64>>", "[[],[1,2.5]]", [[], [1, None]], "x[][]: 2.5 is not int64 (at [1][1])"),
        (
            "struct<a: struct<b: list<date>>>",
            '{"a":{"b":["x"]}}',
            {"a": {"b": [None]}},
            'x.a.b[]: "x" is not date (at [0])',
        ),
        ("struct<a: int64 not null>", "{}", {"a": None}, "x.a: missing or null, and required"),
        (
            "map<string, int64>",
            '{"a":1,"b":"2","":null}',
            [("a", 1), ("b", None), ("", None)],
            'x[]: "2" is not int64 (at [1])',
        ),
        ("map<string, int64 not null>", '{"a":null}', [("a", None)], "x[]: null, and required (at [0])"),
        ("map<string, struct<b: date>>", '{"a":{"b":"x"}}', [("a", {"b": None})], 'x[].b: "x" is not date (at [0])'),
        ("map<string, int64>", "[1]", None, "x: a list of 1 is not map<string, int64>"),
        ("map<string, int64>", '{"\\ud800":1}', None, "x: a key is not valid Unicode"),
    ],
)
def test_what_does_not_fit_within_a_value_is_null_alone(kind: str, text: str, value: object, reason: str) -> None:
    """Its place is named without the index, so that the rows of one leaf are found; the index is told beside."""
    assert typed(kind, text) == [(value, reason)]
    assert typed(kind, "null", text, "null", text) == [(None, None), (value, reason)] * 2


def test_a_map_keeps_each_key_with_its_value() -> None:
    """In the order of the payload; a key that is there twice has no value, and an object without keys is one."""
    kind = "map<string, decimal(5,2)>"
    assert typed(kind, "{}", "null", '{"z":1.5,"a":"2.25"}') == [
        ([], None),
        (None, None),
        ([("z", Decimal("1.50")), ("a", Decimal("2.25"))], None),
    ]
    [(value, reason)] = typed(kind, '{"z":1,"y":2,"z":3}')
    assert value == [("z", None), ("y", Decimal(2))]
    assert reason is not None
    assert "the key is there several times" in reason
    rows, counts = widened({"x": kind}, [b'{"x":{"a":1,"b":null,"c":"no"}}', b'{"x":7}', b"{}"])
    assert [row["_unfit"] is None for row in rows] == [False, False, True]
    [column], [leaf] = counts.columns, counts.leaves
    assert (column.filled, column.empty, column.unfit) == (1, 1, 1)
    assert leaf == ("x[]", 3, 1, 1, 1)


@pytest.mark.parametrize("number", ["1.2345678901234567E16", "9007199254740993e0", "-1.23456789012345678E17"])
@pytest.mark.parametrize("beside", ['"x"', '"a :"', "NaN", "1.5"])
@pytest.mark.parametrize("other", ["string", "json", "decimal(10,2)"])
def test_a_double_is_no_integer_for_its_exponent(number: str, beside: str, other: str) -> None:
    """Java writes doubles so. Whatever else is in row or file, it is the nearest double, and no integer."""
    payload = f'{{"x":{number},"n":{number},"y":{beside}}}'.encode()
    rows, _ = widened({"x": "float64", "n": "int64", "y": other}, [payload, b'{"x":12345678901234567}'])
    assert [row["x"] for row in rows] == [float(number), None]
    assert "is not int64" in rows[0]["_unfit"]
    assert rows[1]["_unfit"] == "x: 12345678901234567 would lose digits as float64"


def test_each_leaf_is_named_and_five_are_told() -> None:
    """A wrong file must not make a day of reasons, and a query finds the rows of any leaf."""
    rows, _ = widened({f"c{number}": {"path": "x", "type": "int64"} for number in range(9)}, [b'{"x":""}'])
    assert rows[0]["_unfit"].endswith('c4: "" is not int64; also c5, c6, c7, c8')


def test_every_row_is_counted_once_in_each_column() -> None:
    """Over several blocks, whose cuts matter for nothing."""
    payloads = [
        [b'{"x":1,"y":"a"}', b'{"x":"1"}', b"no", b'{"y":null}', b'{"x":1,"y":1}'][number % 5]
        for number in range(9_999)
    ]
    rows, counts = widened({"x": "int64", "y": "string"}, payloads)
    assert (len(rows), counts.rows, counts.unfit) == (9_999, 9_999, sum(row["_unfit"] is not None for row in rows))
    assert all(each.filled + each.empty + each.unfit == 9_999 for each in counts.columns)
    assert counts.columns[0] == ("x", 4000, 2000, 3999) or counts.columns[0].filled == sum(
        row["x"] is not None for row in rows
    )
    assert counts.samples[1].positions[0] == ("s", (2, 0))


LONG = "1234567890123456789012345678.12"
BAD = "x: the path fails on this payload"


def found(path: str, kind: str, payload: str) -> tuple[object, object]:
    """Return value and reason of a column of this path and type."""
    rows, counts = widened({"x": {"path": path, "type": kind}}, [payload.encode()])
    assert [column.filled + column.empty + column.unfit for column in counts.columns] == [1]
    return rows[0]["x"], rows[0]["_unfit"]


@pytest.mark.parametrize("text", ["NaN", "nan", "Infinity", "-inf", "007", "1_000", " 12 ", "+5", ".5", "1."])
@pytest.mark.parametrize("kind", ["float64", "int64", "decimal(10,2)", "json", "list<float64>", "string"])
def test_a_text_that_only_python_takes_for_a_number_fits_no_column(text: str, kind: str) -> None:
    """Nor does a list of one, nor JSON with one in it."""
    assert found("to_number(a)", kind, f'{{"a":"{text}"}}') == (None, f'x: "{text}" is not a JSON number')
    if kind == "list<float64>":
        why = f'x[]: "{text}" is not a JSON number (at [0])'
        assert found("[to_number(a)]", kind, f'{{"a":"{text}"}}') == ([None], why)
    if kind == "json":
        why = "x: a list of 1 cannot be written as JSON"
        assert found("[to_number(a)]", kind, f'{{"a":"{text}"}}') == (None, why)


@pytest.mark.parametrize(
    ("path", "kind", "payload", "value"),
    [
        ("to_number(a)", "int64", '{"a":"12"}', 12),
        ("to_number(a)", "float64", '{"a":"1e3"}', 1000.0),
        ("to_number(a)", "float64", '{"a":"none"}', None),
        ("to_number(a)", "int64", '{"a":[1]}', None),
        ("to_number(a)", "decimal(38,2)", '{"a":"123456789012345678901.25"}', Decimal("123456789012345678901.25")),
        ("sum(a)", "float64", '{"a":[0.1,0.2]}', 0.3),
        ("sum(a)", "int64", '{"a":[1,2]}', 3),
        ("sum(a)", "int64", '{"a":[]}', 0),
        ("sum(a[].p)", "decimal(10,2)", '{"a":[{"p":0.10},{"p":1}]}', Decimal("1.10")),
        ("avg(a)", "float64", '{"a":[1,2]}', 1.5),
        ("avg(a)", "float64", '{"a":[]}', None),
        ("max(a)", "decimal(3,1)", '{"a":[1,2.5]}', Decimal("2.5")),
        ("sort(a)", "list<float64>", '{"a":[2.5,1]}', [1.0, 2.5]),
        ("max_by(a, &p).n", "string", '{"a":[{"p":1.5,"n":"x"},{"p":2.5,"n":"y"}]}', "y"),
        ("ceil(a)", "int64", '{"a":1.2}', 2),
        ("floor(a)", "int64", '{"a":-1.2}', -2),
        ("abs(a)", "decimal(38,2)", f'{{"a":-{LONG}}}', Decimal(LONG)),
        ("to_string(a)", "string", '{"a":1.50}', "1.50"),
        ("to_string(a)", "string", '{"a":{"é":[1.5,null]}}', '{"é":[1.5,null]}'),
        ("type(a)", "string", '{"a":1.5}', "number"),
        ("a[?p == `0.1`].n | [0]", "int64", '{"a":[{"p":0.1,"n":7}]}', 7),
        ("a[?p < `0.1`].n | [0]", "int64", '{"a":[{"p":0.1,"n":7}]}', None),
    ],
)  # fmt: skip
def test_functions_take_numbers_as_they_were_written(path: str, kind: str, payload: str, value: object) -> None:
    """With all their digits, whether another column asks for decimals or not."""
    assert found(path, kind, payload) == (value, None)


@pytest.mark.parametrize(
    ("path", "kind", "payload", "reason"),
    [
        ("sum(a)", "float64", '{"a":[1e308,1e308]}', f"x: 2.{'0' * 38}… is out of the range of float64"),
        ("sum(a)", "float64", '{"a":[1e300,1e-300]}', BAD),
        ("ceil(a)", "int64", '{"a":1e999999999}', BAD),
        ("ceil(a)", "int64", '{"a":1e99}', "x: a number of 329 bits is out of the range of int64"),
        ("to_number(a)", "float64", '{"a":"1e400"}', "x: 1E+400 is out of the range of float64"),
        ("to_number(a)", "float64", '{"a":"1e9999999999999999999"}', "x: 1e999999999999999999 is not a JSON number"),
        ("`NaN`", "float64", "{}", "x: nan is not a JSON number"),
        ("abs(a)", "int64", '{"a":"1"}', BAD),
    ],
)  # fmt: skip
def test_what_a_function_cannot_make_exactly_is_unfit(path: str, kind: str, payload: str, reason: str) -> None:
    """And costs no more than another payload."""
    assert found(path, kind, payload) == (None, reason)


def test_a_leaf_that_does_not_fit_is_null_alone() -> None:
    """The struct, the list and all other leaves stay: a delete is told from a price with a digit too many."""
    columns = {
        "after": "struct<id: int64, price: decimal(5,2), at: timestamp not null>",
        "items": "list<struct<sku: string, price: decimal(5,2)>>",
        "op": "string",
    }
    rows, counts = widened(
        columns,
        [
            b'{"op":"u","after":{"id":1,"price":1.234,"at":"2026-11-20T10:00:00Z"},"items":[]}',
            b'{"op":"d","after":null,"items":[{"sku":"a","price":1},{"sku":7,"price":0.001},null,{"price":0.002}]}',
            b'{"op":"u","after":{"id":"1"}}',
            b'{"op":"u","after":[],"items":{}}',
            b"[]",
        ],
    )
    at = dt.datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert [row["after"] for row in rows] == [
        {"id": 1, "price": None, "at": at},
        None,
        {"id": None, "price": None, "at": None},
        None,
        None,
    ]
    assert [row["items"] for row in rows] == [
        [],
        [
            {"sku": "a", "price": Decimal("1.00")},
            {"sku": None, "price": None},
            None,
            {"sku": None, "price": None},
        ],
        None,
        None,
        None,
    ]
    assert [row["_unfit"] for row in rows] == [
        "after.price: 1.234 has more than 2 digits behind the point",
        (
            "items[].sku: 7 is not string (at [1]); "
            "items[].price: 0.001 has more than 2 digits behind the point (2 values, the first at [1])"
        ),
        'after.id: "1" is not int64; after.at: missing or null, and required',
        (
            "after: a list of 0 is not struct<id: int64, price: decimal(5,2), at: timestamp not null>; "
            "items: an object is not list<struct<sku: string, price: decimal(5,2)>>"
        ),
        "payload: a list, not an object",
    ]
    assert [column[1:] for column in counts.columns] == [(2, 1, 2), (2, 1, 2), (4, 0, 1)]
    assert {leaf[0]: leaf[1:] for leaf in counts.leaves} == {
        "after.id": (5, 1, 1, 3),
        "after.price": (5, 0, 2, 3),
        "after.at": (5, 1, 1, 3),
        "items[].sku": (4, 1, 2, 1),
        "items[].price": (4, 1, 1, 2),
    }
    assert [(each.column, each.kind, each.rows, each.values) for each in counts.samples] == [
        ("after", "wrong_type", 1, 1),
        ("after.at", "missing", 1, 1),
        ("after.id", "wrong_type", 1, 1),
        ("after.price", "lossy", 1, 1),
        ("items", "wrong_type", 1, 1),
        ("items[].price", "lossy", 1, 2),
        ("items[].sku", "wrong_type", 1, 1),
        ("payload", "not_an_object", 1, 1),
    ]


def test_what_cannot_be_read_has_no_value_whatever_its_path_is() -> None:
    """A path that gives a value for any object, such as a default, gives none for what is no object."""
    columns = {"all": {"path": "@", "type": "json"}, "x": {"path": "a || `7`", "type": "int64"}}
    rows, counts = widened(columns, [b'{"a":1}', b"[]", b"{}"])
    assert [(row["all"], row["x"]) for row in rows] == [('{"a":1}', 1), (None, None), ("{}", 7)]
    assert [column[1:] for column in counts.columns] == [(2, 0, 1), (2, 0, 1)]


@pytest.mark.parametrize("element", ["{}", "1"])
def test_of_a_lists_elements_those_of_a_leaf_are_one_reason(element: str) -> None:
    """A kilobyte of gzip may be half a million of them, each with as many leaves as the type has."""
    fields = ", ".join(f"f{number}: int64 not null" for number in range(60))
    columns = mapping({"items": f"list<struct<{fields}>>"})
    payload = f'{{"items":[{",".join([element] * 1_000)}]}}'.encode()
    payload_columns = new_payload_columns(columns)
    [table] = payload_columns.tables_of(lines_of([payload]))
    counts, text = payload_columns.counts(), table["_unfit"][0].as_py()
    assert {sample.values for sample in counts.samples} == {1_000}
    assert len(counts.samples) == (60 if element == "{}" else 1)
    assert "(1,000 values, the first at [0])" in text
    assert len(text) < 2_000
    assert [leaf.unfit for leaf in counts.leaves] == [1_000] * 60


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ('{"a":"x","a":"x"}', "a == 'x'"),
        ('{"a":"x","a":"x"}', "a != 'x'"),
        ('{"a":"x","a":"x"}', "!a"),
        ('{"a":[{"b":1,"b":1}]}', "length(a[?b == `1`]) == `0`"),
        ('{"a":NaN}', "a == `10`"),
        ('{"a":NaN}', "a > `10`"),
    ],
)
def test_what_has_no_value_is_equal_to_nothing(payload: str, path: str) -> None:
    """Nor is it different: the column is null, and says so."""
    [row], counts = widened({"is": {"path": path, "type": "bool"}}, [payload.encode()])
    assert row["is"] is None
    assert "is: the path fails on this payload" in row["_unfit"]
    assert [tuple(each) for each in counts.columns] == [("is", 0, 0, 1)]


def test_why_a_local_time_is_none_of_its_zone() -> None:
    """An hour that is there twice, one that is not there, and what is no time, side by side."""
    times = ["2026-10-25T02:30:00", "2026-03-29T02:30:00", "noon", "2026-07-01T12:00:00"] * 2
    rows, _ = widened({"x": "timestamp in Europe/Berlin"}, [f'{{"x":"{time}"}}'.encode() for time in times])
    assert [row["x"] is None for row in rows] == [True, True, True, False] * 2
    assert [row["_unfit"] for row in rows[4:]] == [
        'x: "2026-10-25T02:30:00" is there twice in Europe/Berlin, and its type does not say `earlier` or `later`',
        'x: "2026-03-29T02:30:00" is not there in Europe/Berlin',
        'x: "noon" is not timestamp in Europe/Berlin',
        None,
    ]


def test_a_path_is_followed_once_at_each_level() -> None:
    """Thirty negations would take a billion visits."""
    rows, _ = widened({"is": {"path": "!" * 30 + "a", "type": "bool"}}, [b'{"a":true}', b'{"a":"","a":""}'])
    assert [row["is"] for row in rows] == [True, None]
