"""A proposal tells of what it saw: no payload is dropped for one value, and nothing is left out without a word."""

import base64
import gzip
import json
from collections.abc import Sequence

import pytest

from compaction.columns.columns import MAX_COLUMNS, Columns
from compaction.commands.propose_columns import proposed
from minutebook.errors import SettingsError
from tests.fakes.typed_lines import lines_of, widened


def proposal(payloads: Sequence[bytes]) -> tuple[str, Columns, dict[str, str]]:
    """Return the file, its columns and their types."""
    text, columns = proposed(lines_of(payloads))
    return text, columns, columns.types


def unfit(columns: Columns, payloads: Sequence[bytes]) -> int:
    """Return how many payloads do not fit the columns."""
    given = {each.name: {"path": each.path, "type": each.type.text} for each in columns.columns}
    return widened(given, payloads)[1].unfit


def test_one_nan_sets_aside_its_value() -> None:
    """The other half of the payloads says what the column is, and NaN that it is a double."""
    payloads = [f'{{"id":{n},"temp":{"NaN" if n < 50 else 20},"price":1.25}}'.encode() for n in range(100)]
    text, columns, types = proposal(payloads)
    assert types == {"id": "int64", "temp": "float64", "price": "float64"}
    assert text.startswith("# Proposed from 100 of 100 payloads.")
    assert "# 50 value(s) set aside: NaN fits no type\n[columns.temp]  # in 100 of 100" in text
    assert unfit(columns, payloads) == 50


@pytest.mark.parametrize("value", ["1e400", "-1e400", "Infinity"])
def test_a_number_that_no_type_holds_is_set_aside(value: str) -> None:
    """Also within a list and a struct."""
    rows = [
        f'{{"a":{value},"b":[1,{value}],"c":{{"d":{value},"e":1}}}}'.encode(),
        b'{"a":1,"b":[2],"c":{"d":3,"e":2}}',
    ]
    text, _, types = proposal(rows)
    assert types == {"a": "float64", "b": "list<float64>", "c": "struct<d: float64, e: int64>"}
    assert "1 value(s) of .d set aside" in text


def test_a_doubled_key_is_left_out_and_the_others_are_columns() -> None:
    """In every payload, and in one of them."""
    text, _, types = proposal([b'{"id":1,"name":"a","name":"b"}'] * 3)
    assert types == {"id": "int64"}
    assert '# "name" is no column: 3 value(s) set aside: the key is there several times\n' in text
    _, _, types = proposal([b'{"id":1,"name":"a","name":"b"}', b'{"id":2,"name":"c"}'])
    assert types == {"id": "int64", "name": "string"}


def test_keys_that_occur_once_in_a_large_sample_are_no_columns() -> None:
    """They are ids. The others are proposed; where none is, the payload as a whole is."""
    payloads = [f'{{"key-{n}":{{"n":{n}}}}}'.encode() for n in range(1_500)]
    text, columns, _ = proposal(payloads)
    assert '# 1,500 of 1,500 keys occur once, and are no columns: "key-0", "key-1",' in text
    assert [(each.name, each.path, each.type.text) for each in columns.columns] == [("payload", "@", "json")]
    assert unfit(columns, payloads) == 0
    more = [
        {"id": n, f"key-{n}": 1, "o": {f"k{n}": 1}, "p": {"a": 1, "b": 2} | ({"z": n} if n == 7 else {})}
        for n in range(100)
    ]
    text, _, types = proposal([json.dumps(each).encode() for each in more])
    assert types == {"id": "int64", "o": "json", "p": "struct<a: int64, b: int64>"}
    assert '# 1 of 3 keys occur once, and are no fields: "z"\n[columns.p]' in text


def test_a_small_sample_proposes_all_keys() -> None:
    """What occurs once in three payloads may be in a third of them."""
    assert proposal([b'{"a":1}', b'{"b":1}', b'{"a":2}'])[2] == {"a": "int64", "b": "int64"}


def test_more_keys_than_columns_are_named() -> None:
    """With their number."""
    payloads = [json.dumps({f"k{n}": n for n in range(MAX_COLUMNS + 500)}).encode()] * 2
    text, columns, _ = proposal(payloads)
    assert len(columns.columns) == MAX_COLUMNS
    assert '# 500 of 1,500 keys are left out, because 1,000 columns are the most: "k1000", "k1001",' in text


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (gzip.compress(b'{"a":1}', mtime=0), "gzip"),
        (b"\x28\xb5\x2f\xfd\x00", "zstd"),
        (b"Obj\x01\xff", "Avro files"),
        (b"\x03\x05\xff", "behind a header of the Glue schema registry"),
        (b"[1]", "lists"),
        (b'"{}"', "strings"),
        (b"", "empty"),
        (b'{"a":1} {"a":2}', "several JSON documents each"),
        (b"a=1 b=2", "text that is no JSON"),
        (b"\xef\xbb\xbf{}", "behind a byte order mark"),
        (base64.b64encode(b'{"a":1,"b":"two"}'), "base64"),
        (b"\xff\xfe", "binary"),
    ],
)
def test_what_is_no_object_is_told(payload: bytes, kind: str) -> None:
    """Of all payloads it is the reason why there is no proposal; of some it stands in the file."""
    with pytest.raises(SettingsError) as caught:
        proposal([payload] * 5)
    assert str(caught.value) == f"no column can be proposed: 5 of 5 payloads are {kind}"
    assert caught.value.next_step
    text, _, types = proposal([b'{"a":1}', payload])
    assert text.splitlines()[0].startswith("# Proposed from 1 of 2 payloads.")
    assert text.splitlines()[1] == f"# 1 of 2 payloads are {kind}"
    assert types == {"a": "int64"}


def test_objects_without_a_value_propose_nothing() -> None:
    """And the sentence does not blame a file."""
    with pytest.raises(SettingsError, match="3 of 3 payloads are objects without a value"):
        proposal([b"{}"] * 3)


@pytest.mark.parametrize(
    ("key", "values", "kind"),
    [
        ("ts", (1795165687123, 1795165687124), "timestamp(ms)"),
        ("created_at", (1795165687, 1795165688), "timestamp(s)"),
        ("createdAt", (1795165687.25, 1795165688.5), "timestamp(s)"),
        ("event.time", (1795165687123456, 1795165687123457), "timestamp(us)"),
        ("time_ns", (1795165687123456789, 1795165687123456790), "timestamp(ns)"),
        ("ts", (0, 1795165687123), "timestamp(ms)"),
        ("ts", (7, 1795165687123), "int64"),
        ("id", (1795165687123, 1795165687124), "int64"),
        ("status", (1795165687123, 1795165687124), "int64"),
    ],
)
def test_epochs_are_proposed_as_what_they_are(key: str, values: tuple[float, ...], kind: str) -> None:
    """Where the key sounds like a time and all values lie in this century; the doubt is told."""
    text, columns, types = proposal([json.dumps({key: value, "o": {key: value}}).encode() for value in values])
    assert next(iter(types.values())) == kind
    assert types["o"] == (f"struct<{key}: {kind}>" if "." not in key else "json")
    assert ("looks like a time since 1970" in text) == (kind != "int64")
    assert unfit(columns, [json.dumps({key: value}).encode() for value in values]) == 0


def test_json_within_a_text_is_told() -> None:
    """As envelopes of SNS hold it."""
    text, _, types = proposal([json.dumps({"Message": json.dumps({"id": n})}).encode() for n in range(3)])
    assert types == {"Message": "string"}
    assert "# it holds JSON within a text\n[columns.Message]" in text
