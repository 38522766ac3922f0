"""What paths make of payloads is JSON: no NaN, no digit lost, whatever jmespath's functions do."""

from decimal import Decimal

import pytest

from tests.fakes.typed_lines import widened

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
        assert found("[to_number(a)]", kind, f'{{"a":"{text}"}}')[0] is None
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
