"""Files that name columns: what is taken, and what is refused before a night begins."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.columns.columns import Columns
from compaction.columns.files.columns_file import parse_columns, read_columns
from compaction.columns.files.proposing import propose
from compaction.columns.types import parse_type
from minutebook.errors import SettingsError
from minutebook.published.schema import SCHEMA
from tests.fakes.typed_lines import mapping, widened


def parsed(document: object) -> Columns:
    """Read a JSON document."""
    return parse_columns(json.dumps(document).encode(), "f.json", SCHEMA.names, is_toml=False)


def said(columns: Columns) -> dict[str, str]:
    """Return types by name, `!` where a value is required."""
    return {each.name: each.type.text + ("!" if each.required else "") for each in columns.columns}


@pytest.mark.parametrize(
    "text",
    [
        "string",
        "decimal(38,0)",
        "timestamp(ms)",
        "date(%d.%m.%Y)",
        "list<struct<a: int64 not null, b: list<decimal(5,2) not null>>>",
        "map<string, map<string, struct<a: date> not null>>",
        "struct<a: timestamp(%d/%m/%Y %H:%M:%S), Ä_1: json>",
    ],
)
def test_a_type_reads_as_it_is_written(text: str) -> None:
    """The digest of a file rests on it."""
    assert parse_type(text).text == text
    assert parse_type(f" {text.replace(',', ' , ').replace('<', ' < ')} ").text == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a type is missing"),
        ("text", "'text' is not a type"),
        ("decimal", "decimal takes digits"),
        ("decimal(39,2)", "1 to 38 digits"),
        ("decimal(2,3)", "at most all of them"),
        ("timestamp(days)", "timestamp takes s, ms, us, ns, or a format"),
        ("list<int64", "'>' is missing at ''"),
        ("list<int64>>", "'>' is too much"),
        ("struct<>", "a field's name is missing"),
        ("map<int64, string>", "the keys of a map are texts"),
        ("map<string>", "',' is missing"),
        ("struct<a: int64, A: int64>", "'A' is there twice"),
        ("list<" * 30, "nested deeper than 20"),
    ],
)
def test_a_type_that_is_none_is_refused(text: str, why: str) -> None:
    """The sentence says what is wrong with it."""
    with pytest.raises(SettingsError, match=f"(?i){why.replace('(', '.').replace(')', '.')}"):
        parse_type(text)


def test_a_mapping_names_paths_and_types() -> None:
    """The path is the name where none is said; a type alone may stand for all."""
    columns = mapping({"a": "int64", "b": {"path": "x.y[0]", "type": "string", "required": True}})
    assert [each[:2] for each in columns.columns] == [("a", '"a"'), ("b", "x.y[0]")]
    assert said(columns) == {"a": "int64", "b": "string!"}


def test_a_json_schema_names_its_properties() -> None:
    """References within the file are followed; what has no one type is JSON text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["id", "maybe"],
        "properties": {
            "id": {"type": "string"},
            "maybe": {"type": ["integer", "null"]},
            "price": {"type": "number"},
            "ok": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "who": {"$ref": "#/$defs/who"},
            "any": {},
            "several": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "$defs": {"who": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
    }
    assert said(parsed(schema)) == {
        "id": "string!",
        "maybe": "int64",
        "price": "float64",
        "ok": "bool",
        "day": "date",
        "at": "timestamp",
        "tags": "list<string not null>",
        "who": "struct<n: int64 not null>",
        "any": "json",
        "several": "json",
        "map": "json",
    }


def test_an_avro_schema_names_its_fields() -> None:
    """With its logical types; a field with a default may be missing."""
    record = {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "n", "type": "int", "default": 0},
            {"name": "big", "type": ["null", "long"]},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A"]}},
            {"name": "leg", "type": {"type": "record", "name": "Leg", "fields": [{"name": "x", "type": "double"}]}},
            {"name": "legs", "type": {"type": "array", "items": "Leg"}},
            {"name": "more", "type": {"type": "map", "values": "string"}},
        ],
    }
    assert said(parsed(record)) == {
        "id": "string!",
        "n": "int32",
        "big": "int64",
        "price": "decimal(10,2)!",
        "at": "timestamp(ms)!",
        "day": "date(days)!",
        "kind": "string!",
        "leg": "struct<x: float64 not null>!",
        "legs": "list<struct<x: float64 not null> not null>!",
        "more": "json!",
    }


@pytest.mark.parametrize("names", [[], ["id", "ID"], ["a-b"]])
def test_a_record_that_no_struct_can_be_is_json(names: list[str]) -> None:
    """Parquet has no empty struct, engines do not tell A from a, and the type is kept as text with the day."""
    inner = {"type": "record", "name": "S", "fields": [{"name": name, "type": "string"} for name in names]}
    columns = parsed({"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", inner]}]}).columns
    assert [column.type.text for column in columns] == ["json"]


def test_a_name_of_avro_lies_in_its_namespace() -> None:
    """It may be written in full, and two namespaces may have one name."""

    def record(space: str, field: str) -> dict[str, object]:
        fields = [{"name": field, "type": "string"}]
        return {"type": "record", "name": "Address", "namespace": space, "fields": fields}

    types = [record("a", "street"), record("b.c", "zip"), "Address", "b.c.Address", ["null", "a.Address"]]
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(types)]
    columns = parsed({"type": "record", "name": "a.Order", "fields": fields}).columns
    street, zip_code = "struct<street: string not null>", "struct<zip: string not null>"
    assert [column.type.text for column in columns] == [street, zip_code, street, zip_code, street]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "does not hold an object"),
        ({}, "neither a mapping"),
        ({"columns": {}}, "it names no column"),
        ({"columns": {"data": "string"}}, "column 'data': the name is a column of the envelope"),
        ({"columns": {"Shard_ID": "string"}}, "column 'Shard_ID': the name is a column of the envelope"),
        ({"columns": {"_unfit": "string"}}, "is a column of the envelope"),
        ({"columns": {"dt": "string"}}, "the name of the days' folders"),
        ({"columns": {"a": "string", "A": "string"}}, "column 'A': the name is there twice"),
        ({"columns": {"a-b": "string"}}, "column 'a-b': a name is letters, digits"),
        ({"columns": {"a": {"type": "string", "path": "x["}}}, "column 'a': 'x\\[' is not a JMESPath"),
        ({"columns": {"a": {"type": "text"}}}, "column 'a': type 'text'"),
        ({"columns": {"a": {"typ": "string"}}}, "column 'a': 'typ' is not known"),
        ({"columns": {"a": 7}}, "column 'a': expected path, type"),
        ({"columns": {f"c{number}": "string" for number in range(1001)}}, "1001 columns; at most 1000"),
        ({"properties": {"a": {"$ref": "http://x/y"}}}, "is not within the file"),
        ({"properties": {"a": {"$ref": "#/$defs/no"}}}, "names nothing"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "more than 20 deep"),
        ({"$schema": "x", "type": "string"}, "describes no object"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "text"}]}, "'text' is not a type of Avro"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "r"}]}, "nests deeper than 20"),
        ({"type": "record", "name": "r"}, "has no fields"),
    ],
)
def test_a_file_that_cannot_be_is_refused(document: object, why: str) -> None:
    """It names the file and the column, and says what to do."""
    with pytest.raises(SettingsError, match=why) as caught:
        parsed(document)
    assert "f.json" in str(caught.value)
    assert caught.value.next_step


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    """Before anything is read of the archive."""
    with pytest.raises(SettingsError, match=r"none\.toml cannot be read: No such file"):
        read_columns(tmp_path / "none.toml", ())
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"bad\.toml is not TOML"):
        read_columns(tmp_path / "bad.toml", ())


def test_the_digest_is_that_of_what_a_file_means(tmp_path: Path) -> None:
    """Comments, blanks and the kind of file are not in it; names, paths, types and order are."""
    (tmp_path / "a.toml").write_text('# a comment\n[columns.x]\ntype = "decimal( 10 , 2 )"\n')
    same = read_columns(tmp_path / "a.toml", ())
    assert same.digest == mapping({"x": {"type": "decimal(10,2)"}}).digest
    others = [
        mapping({"x": "decimal(10,3)"}),
        mapping({"y": {"type": "decimal(10,2)", "path": "x"}}),
        mapping({"x": {"type": "decimal(10,2)", "path": "y"}}),
        mapping({"x": {"type": "decimal(10,2)", "required": True}}),
    ]
    assert len({same.digest, *(other.digest for other in others)}) == 5


def test_a_proposal_fits_what_it_was_made_from() -> None:
    """Whatever the keys are called; what has no one type is JSON text."""
    documents: list[dict[str, object]] = [
        {"id": "a", "n": 1, "x": 1, "at": "2026-01-01T00:00:00Z", "data": "z", "a-b": [1, None], "o": {"p": 1}},
        {"id": "b", "n": None, "x": 1.5, "at": "2026-01-02T00:00:00+02:00", "a b": "2026-01-01", "mixed": 1},
        {
            "mixed": "1",
            "o": {"q": [{"r": True}]},
            "": 0,
            '"\x7f\\é\x00\n': 1,
            "big": 2**70 + 1,
            "empty": [],
            "no": {},
        },
    ]
    proposal = propose(documents, SCHEMA.names)
    columns = parse_columns(proposal.toml().encode(), "x", SCHEMA.names, is_toml=True)
    assert columns.columns == proposal.columns
    assert said(columns) == {
        "id": "string",
        "n": "int64",
        "x": "float64",
        "at": "timestamp",
        "payload_data": "string",
        "a_b": "list<int64>",
        "o": "struct<p: int64, q: list<struct<r: bool>>>",
        "payload_a_b": "date",
        "mixed": "json",
        "c_": "int64",
        "___é__": "int64",
        "big": "json",
        "empty": "list<json>",
        "no": "json",
    }
    given = {each.name: {"path": each.path, "type": each.type.text} for each in columns.columns}
    rows, counts = widened(given, [json.dumps(document).encode() for document in documents])
    assert counts.unfit == 0, [row["_unfit"] for row in rows]


_LONG: Final = "9" * 5_000
_AVRO: Final = st.sampled_from(
    ["record", "array", "map", "fixed", "bytes", "enum", "null", "string", "long", "R", "decimal", "timestamp-millis"]
)
_NAMES: Final = st.sampled_from(
    [
        "type",
        "name",
        "fields",
        "items",
        "values",
        "logicalType",
        "precision",
        "scale",
        "columns",
        "properties",
        "$ref",
    ]
)
_DECIMAL: Final = st.fixed_dictionaries(
    {
        "type": st.just("bytes"),
        "logicalType": st.just("decimal"),
        "precision": st.booleans() | st.integers(-1, 40),
        "scale": st.booleans() | st.integers(-1, 40),
    }
)
_NESTED: Final = st.recursive(
    _DECIMAL | st.none() | st.booleans() | st.integers(-1, 40) | _AVRO | st.just("#/properties/a"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.just("a"), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(kind=_NESTED, where=st.sampled_from(["record", "schema", "mapping", "itself", "steps"]))
def test_whatever_json_it_holds_it_is_columns_or_an_error_that_names_it(kind: object, where: str) -> None:
    """A running follow reads the file at each tick: none of them ends it."""
    documents = {
        "record": {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]},
        "schema": {"type": "object", "properties": {"a": kind}},
        "mapping": {"columns": {"a": kind}},
        "itself": kind,
        "steps": {"columns": {"a": "string"}, "decode": [kind]},
    }
    try:
        columns = parsed(documents[where])
    except SettingsError as exc:
        assert "f.json" in str(exc)  # noqa: PT017 - most are errors, and some are columns
    else:
        assert [parse_type(each.type.text) for each in columns.columns] == [each.type for each in columns.columns]
        assert columns.fields


@pytest.mark.parametrize(
    ("document", "types"),
    [
        ({"properties": {"a": {"type": None}, "b": {"type": 5}}}, {"a": "json", "b": "json"}),
        ({"properties": {"a": {"type": "string", "format": []}}}, {"a": "string"}),
        (
            {
                "type": "record",
                "name": "R",
                "fields": [
                    {"name": "a", "type": {"type": {"type": "long", "logicalType": "timestamp-millis"}}},
                    {"name": "b", "type": {"type": ["null", "string"]}},
                    {"name": "c", "type": {"type": "long", "logicalType": []}},
                ],
            },
            {"a": "timestamp(ms)!", "b": "string", "c": "int64!"},
        ),
    ],
)
def test_types_of_another_kind_than_expected_end_no_process(document: object, types: dict[str, str]) -> None:
    """A type within the type of Avro is that type; no type of a JSON Schema is any value."""
    assert said(parsed(document)) == types


@pytest.mark.parametrize("step", ["each", "json-text"])
def test_a_long_number_in_the_path_of_a_step_is_an_error(step: str) -> None:
    """As in the path of a column."""
    with pytest.raises(SettingsError, match=r"f\.json: decode"):
        parsed({"decode": [{step: f"a[{_LONG}]"}], "columns": {"x": "string"}})


def test_references_that_multiply_are_bounded() -> None:
    """Eighteen levels of four references each would be 4^18 types, of a file of 3 KB."""
    four = [f"p{number}" for number in range(4)]
    levels = {
        f"d{level}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/d{level + 1}"} for name in four}}
        for level in range(18)
    }
    schema = {"$defs": {**levels, "d18": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    with pytest.raises(SettingsError, match="more than 100,000 types"):
        parsed(schema)
    records: Any = {"type": "record", "name": "r9", "fields": [{"name": "x", "type": "string"}]}
    for level in reversed(range(9)):
        again = [{"name": name, "type": f"r{level + 1}"} for name in four[1:]]
        records = {"type": "record", "name": f"r{level}", "fields": [{"name": "p0", "type": records}, *again]}
    with pytest.raises(SettingsError, match="more than 100,000 types"):
        parsed(records)


@pytest.mark.parametrize("spec", [{"path": f"foo[{_LONG}]", "type": "string"}, {"type": f"decimal({_LONG},2)"}])
def test_a_number_of_thousands_of_digits_is_an_error_that_names_its_column(spec: dict[str, str]) -> None:
    """Python refuses to read one."""
    with pytest.raises(SettingsError, match=r"(?s)f\.json: .*x"):
        parsed({"columns": {"x": {"path": "x", **spec}}})


@pytest.mark.parametrize("precision", [0, -1, 39, True, False, None, "4", 4.0])
def test_a_decimal_of_avro_has_1_to_38_digits(precision: object) -> None:
    """Anything else would be written into what is published, and read by nobody."""
    kind = {"type": "bytes", "logicalType": "decimal", "precision": precision}
    with pytest.raises(SettingsError, match="a decimal of"):
        parsed({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})
