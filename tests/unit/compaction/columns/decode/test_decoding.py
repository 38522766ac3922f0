"""Payloads are decoded before their columns are read; what is not decoded is a row that says why."""

import base64
import gzip
import json
import resource
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.columns.decode.decoder import Decoder, new_payload_columns
from compaction.columns.decode.outcome import MAX_BYTES
from compaction.columns.misfits import Misfit
from compaction.columns.steps import Step, canonical, parse_steps, written
from compaction.columns.verdict import judge_columns
from compaction.parquet.rows import ParquetPart
from minutebook.errors import SettingsError
from minutebook.format.day import Day
from minutebook.store.directory_storage import FileSink
from tests.fakes.typed_lines import columns_of, lines_of, mapping, widened

gzipped = partial(gzip.compress, mtime=0)
ROW = b'{"id":1.50,"n":9007199254740993}'
CHANGE = {
    "eventName": "MODIFY",
    "dynamodb": {
        "ApproximateCreationDateTime": 1_795_256_161_790,
        "Keys": {"id": {"S": "a"}},
        "NewImage": {
            "id": {"S": "a"},
            "price": {"N": "12345678901234567890.50"},
            "gone": {"NULL": True},
            "on": {"BOOL": False},
            "blob": {"B": "AAE="},
            "tags": {"SS": ["z", "a", "m"]},
            "sizes": {"NS": ["10", "9", "-1.5"]},
            "blobs": {"BS": ["Bg==", "AA=="]},
            "deep": {"M": {"list": {"L": [{"N": "1"}, {"S": "x"}]}}},
        },
    },
}


def decoded(payload: bytes, *steps: Any) -> bytes | str:  # noqa: ANN401 - as in a file
    """Return what steps make of a payload: its text, or `step: reason`."""
    ((made,),) = Decoder(parse_steps([*steps])).apply([payload])
    return f"{made.path.strip(' ()')}: {made.what}" if isinstance(made, Misfit) else made


@pytest.mark.parametrize(
    ("steps", "payload"),
    [
        (("gzip",), gzipped(ROW)),
        (("gzip",), gzipped(ROW[:5]) + gzipped(ROW[5:])),
        (("zstd",), zstd.compress(ROW)),
        (("zstd",), zstd.compress(ROW[:5]) + zstd.compress(ROW[5:])),
        (("bom",), b"\xef\xbb\xbf" + ROW),
        (("base64",), base64.b64encode(ROW)),
        (("base64",), base64.encodebytes(ROW)),
        (("base64",), base64.urlsafe_b64encode(ROW).rstrip(b"=")),
        (("json-text",), json.dumps(ROW.decode()).encode()),
        (("base64", "gzip", "bom", "json-text"), base64.b64encode(gzipped(json.dumps(ROW.decode()).encode()))),
        (("gzip", "zstd", "bom"), ROW),
    ],
)
def test_steps_lead_to_the_json_that_the_producer_wrote(steps: tuple[str, ...], payload: bytes) -> None:
    """Each step undoes one layer; those with magic bytes let other payloads pass."""
    assert decoded(payload, *steps) == ROW


@pytest.mark.parametrize(
    ("step", "payload", "reason"),
    [
        ("gzip", gzipped(ROW)[:-3], "gzip: the gzip stream is cut short"),
        ("gzip", gzipped(ROW) + b"x", "gzip: the gzip stream is cut short"),
        ("gzip", gzipped(ROW) + b"trailing bytes here", "gzip: damaged gzip stream"),
        ("gzip", b"\x1f\x8b" + bytes(30), "gzip: damaged gzip stream"),
        ("zstd", zstd.compress(ROW)[:-3], "zstd: the zstd stream is cut short"),
        ("zstd", zstd.compress(ROW) + b"extra", "zstd: damaged zstd stream: no frame begins here"),
        ("zstd", zstd.compress(ROW) + b"\x28", "zstd: the zstd stream is cut short"),
        ("base64", b"a===", "base64: not base64"),
        ("base64", b"abcde", "base64: not base64"),
        ("base64", b"ab+_", "base64: not base64"),
        ("base64", ROW, "base64: not base64"),
        ("json-text", ROW, "json-text: not a JSON string"),
        ("json-text", b'"a" ""', "json-text: not a JSON string"),
        ("json-text", b'"\\ud800"', "json-text: not a JSON string"),
        ("dynamodb", ROW, "dynamodb: not a change record of DynamoDB"),
        ("dynamodb", b"[]", "dynamodb: a list, not an object"),
        ("dynamodb", b'{"dynamodb":{"Keys":{}},"a":1,"a":2}', 'dynamodb: the key "a" is there several times'),
    ],
)
def test_what_a_step_cannot_read_to_its_end_is_a_reason(step: str, payload: bytes, reason: str) -> None:
    """Bytes left over, a cut stream and other text fail, and the step is named."""
    made = decoded(payload, step)
    assert isinstance(made, str)
    assert made.startswith(reason)


def test_attributes_of_dynamodb_are_plain_values_with_all_digits() -> None:
    """Numbers keep their digits, sets are sorted, bytes stay base64 text."""
    made = decoded(json.dumps(CHANGE).encode(), "dynamodb")
    assert isinstance(made, bytes)
    assert b'"price":12345678901234567890.50' in made
    change = json.loads(made)
    assert change["dynamodb"]["Keys"] == {"id": "a"}
    image = change["dynamodb"]["NewImage"]
    del image["price"]
    assert image == {
        "id": "a",
        "gone": None,
        "on": False,
        "blob": "AAE=",
        "tags": ["a", "m", "z"],
        "sizes": [-1.5, 9, 10],
        "blobs": ["AA==", "Bg=="],
        "deep": {"list": [1, "x"]},
    }


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        ('{"N":"0x1"}', "NewImage.a is no number"),
        ('{"N":1}', "NewImage.a is no string"),
        ('{"Q":1}', "NewImage.a is of type 'Q', which DynamoDB does not have"),
        ('{"S":"a","N":"1"}', "NewImage.a is no typed attribute"),
        ('{"NULL":false}', "NewImage.a is no NULL of DynamoDB"),
        ('{"L":[{"SS":[1]}]}', "NewImage.a[] is no string"),
        ("7", "NewImage.a is no typed attribute"),
    ],
)
def test_an_attribute_of_another_shape_is_named(attribute: str, reason: str) -> None:
    """A record that DynamoDB did not write is not guessed at."""
    payload = f'{{"dynamodb":{{"Keys":{{}},"NewImage":{{"a":{attribute}}}}}}}'.encode()
    assert f"dynamodb: {reason}" == decoded(payload, "dynamodb")


def test_a_path_leads_into_the_json_of_a_text() -> None:
    """The envelope keeps its numbers; null and an absent text stay; a text that is no JSON is a reason."""
    step = {"json-text": "a.b"}
    assert decoded(b'{"a":{"b":"{\\"x\\":1.50}"},"n":2.50}', step) == b'{"a":{"b":{"x":1.50}},"n":2.50}'
    assert decoded(b'{"a":{"b":null}}', step) == b'{"a":{"b":null}}'
    assert decoded(b'{"n":1}', step) == b'{"n":1}'
    assert decoded(b'{"a":{"b":"{"}}', step) == "json-text: a.b is no string of JSON"
    assert decoded(b'{"a":7}', step) == "json-text: a.b is no string of JSON"
    assert decoded(b'{"a":{"b":7}}', step) == "json-text: a.b is no string of JSON"


def test_bombs_among_good_records_empty_their_own_rows_alone() -> None:
    """A thousand good rows are right beside payloads that would inflate to gigabytes; each reason is counted."""
    zeros = bytes(64 << 20)
    gzip_bomb = zlib.compress(zeros, 1, wbits=31)
    stated = zstd.compress(zeros)  # its header states 64 MiB
    payloads = [gzipped(f'{{"id":{number}}}'.encode(), 1) for number in range(1_000)]
    payloads[500:500] = [gzip_bomb, stated, b"\x1f\x8bxxxx", b"{}x"]
    rows, counts = widened({"id": "int64"}, payloads, ["gzip", "zstd"])
    assert [row["id"] for row in rows if row["_unfit"] is None] == [*range(1_000)]
    assert [row["_unfit"] for row in rows[500:504]] == [
        f"payload (gzip): more than {MAX_BYTES} bytes",
        f"payload (zstd): more than {MAX_BYTES} bytes",
        "payload (gzip): the gzip stream is cut short",
        "payload: not JSON: Extra data: line 1 column 3 (char 2)",
    ]
    assert [(sample.column, sample.kind, sample.rows) for sample in counts.samples] == [
        ("payload", "not_json", 1),
        ("payload (gzip)", "too_long", 1),
        ("payload (gzip)", "undecoded", 1),
        ("payload (zstd)", "too_long", 1),
    ]
    typed = judge_columns(mapping({"id": "int64"}, ["gzip", "zstd"]), [counts], 1_004, Day(20_000))
    assert typed.numbers.balanced
    assert "1 payloads (gzip) do not fit: too long" in [finding.message for finding in typed.findings][1]


def test_half_a_million_empty_members_take_a_bounded_time_and_memory() -> None:
    """A record of 10 MiB of them is read in seconds: what follows a member is not copied for each as a whole."""
    payload = gzipped(b"", 1) * 100_000 + gzipped(ROW)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    assert decoded(payload, "gzip") == ROW
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 5


def test_decoded_rows_hold_the_payload_as_it_came() -> None:
    """Blocks end where their decoded bytes reach the bound, and rows stay in their order."""
    texts = [json.dumps({"id": number, "fill": "x" * 400_000}).encode() for number in range(9)]
    payload_columns = new_payload_columns(mapping({"id": "int64"}, ["gzip"]))
    lines = lines_of([gzipped(text, 1) for text in texts])
    ids, unfit = columns_of(payload_columns, lines)
    assert ids.to_pylist() == [*range(9)]
    assert unfit.null_count == 9
    assert ids.num_chunks == 3
    assert lines["data_bytes"].null_count == 0


def test_rows_that_are_not_decoded_count_as_unfit_for_each_column() -> None:
    """Required columns do not say a second time that they are missing."""
    columns = {"id": {"type": "int64", "required": True}, "s": "struct<a: int64>"}
    rows, counts = widened(columns, [b"!", base64.b64encode(b'{"id":1}'), b"/////w=="], ["base64"])
    assert [row["_unfit"] for row in rows] == ["payload (base64): not base64", None, "payload: not UTF-8 text"]
    assert [tuple(column)[1:] for column in counts.columns] == [(1, 0, 2), (0, 1, 2)]
    assert [tuple(leaf) for leaf in counts.leaves] == [("s.a", 3, 0, 1, 2)]


@settings(max_examples=200)
@given(payload=st.binary(max_size=60), index=st.integers(0, 5))
def test_no_payload_makes_a_step_raise(payload: bytes, index: int) -> None:
    """Whatever the bytes, there is a text or a reason."""
    heads = (b"", b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b'{"dynamodb":{"Keys":{"a":', b'"', b"\xef\xbb\xbf")
    for step in ("gzip", "zstd", "bom", "base64", "json-text", "dynamodb", {"json-text": "a"}):
        assert isinstance(decoded(heads[index] + payload, step), bytes | str)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("gzip", "decode is a list of steps"),
        (["gunzip"], "there is no step 'gunzip'"),
        ([{"gzip": "a"}], "gzip takes no argument"),
        ([{"json-text": "a[0]"}], "a path here is names alone"),
        ([7], "7 is no step"),
        ([16**4_000], "a number of thousands of digits is no step"),
        ([{"each": 16**4_000}], "each = a number of thousands of digits: a path here is names alone"),
        (["gzip"] * 11, "at most 10"),
    ],
)
def test_steps_are_refused_when_the_file_is_read(steps: object, why: str) -> None:
    """Before any payload is."""
    with pytest.raises(SettingsError, match=why.replace("[", r"\[")):
        parse_steps(steps)


def test_the_steps_are_part_of_the_columns_digest() -> None:
    """Other steps give other rows; files without any keep their digest."""
    columns = {"id": "int64"}
    without, inflating = mapping(columns), mapping(columns, ["gzip"])
    assert without.digest == mapping(columns, []).digest
    assert len({without.digest, inflating.digest, mapping(columns, ["gzip", "bom"]).digest}) == 3
    steps = parse_steps(["gzip", {"json-text": 'a."b c"'}])
    assert canonical(steps) == '["gzip", {"json-text": ["a", "b c"]}]'
    assert written(steps) == 'decode = ["gzip", {json-text = "a.\\"b c\\""}]\n'
    assert steps == (Step("gzip"), Step("json-text", ("a", "b c")))


def test_the_memory_of_a_block_is_bounded_by_its_decoded_bytes() -> None:
    """Ten records of 5 MiB are never held at once."""
    payload = gzipped(b'{"a":"' + b"x" * (5 << 20) + b'"}')
    lines, measured = lines_of([payload] * 10), list[int]()
    for block in Decoder(parse_steps(["gzip"])).blocks(lines, 4_096, 1 << 20):
        measured.append(block.texts.nbytes)
        del block
    assert len(measured) == 10
    assert max(measured) < 6 << 20


def test_row_groups_are_bounded_by_their_columns(tmp_path: Path) -> None:
    """A list of empty structs is 54 times its text; ordinary columns end no group, and no table."""
    columns = mapping({"items": "list<struct<" + ", ".join(f"f{n}: decimal(38,2)" for n in range(10)) + ">>"})
    lines = lines_of([b'{"items":[' + b",".join([b"{}"] * 20_000) + b"]}"] * 50)
    tables = [*new_payload_columns(columns).tables_of(lines)]
    assert sum(table.num_rows for table in tables) == 50
    assert max(table["items"].nbytes for table in tables) < 64 << 20  # of 1 MiB of payloads
    part = ParquetPart(FileSink(tmp_path / "part"), columns, row_group_bytes=10_000_000)
    part.add(lines, "key")
    part.close()
    assert (pq.ParquetFile(tmp_path / "part").num_row_groups > 2, part.rows) == (True, 50)
    assert len([*new_payload_columns(columns).tables_of(lines_of([b'{"items":[]}'] * 20_000))]) == 1


def test_row_groups_are_bounded_by_what_is_decoded(tmp_path: Path) -> None:
    """A few hundred bytes of a payload may be megabytes of columns: all of them at once would be gigabytes."""
    columns = mapping({"msg": "string"}, ["zstd"])
    lines = lines_of([zstd.compress(b'{"msg":"' + b"a" * 2_000_000 + b'"}')] * 9)
    tables = [*new_payload_columns(columns).tables_of(lines)]
    assert [table.num_rows for table in tables] == [5, 4]
    part = ParquetPart(FileSink(tmp_path / "part"), columns, row_group_bytes=5_000_000)
    part.add(lines, "key")
    part.close()
    file = pq.ParquetFile(tmp_path / "part")
    groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert (groups, part.records, part.rows) == ([5, 4], 9, 9)
    assert file.read(columns=["msg"])["msg"].to_pylist() == ["a" * 2_000_000] * 9


@pytest.mark.parametrize("name", [r"\ud800", r"\u0000", r"\u001b[31m", "é"])
def test_a_name_that_is_no_text_is_a_reason_that_is(name: str) -> None:
    """A lone surrogate ended the night and follow: the reason could not be written."""
    payload = b'{"dynamodb":{"Keys":{},"NewImage":{"' + name.encode() + b'":1}}}'
    rows, _ = widened({"id": "string"}, [payload], ["dynamodb"])
    shown = {r"\u0000": r"\x00", r"\u001b[31m": r"\x1b[31m"}.get(name, name)
    assert rows[0]["_unfit"] == f"payload (dynamodb): NewImage.{shown} is no typed attribute"


def test_a_long_name_around_many_attributes_is_read_once() -> None:
    """It was written out for each of them: 40 seconds of a record of 10 MB."""
    name = "k" * 5_000_000
    image = {name: {"L": [{"S": ""}] * 100_000}}
    payload = json.dumps({"eventName": "INSERT", "dynamodb": {"Keys": {}, "NewImage": image}}).encode()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    read = decoded(payload, "dynamodb")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 5
    assert json.loads(read)["dynamodb"]["NewImage"] == {name: [""] * 100_000}
    image[name]["L"].append({"Q": ""})
    payload = json.dumps({"eventName": "INSERT", "dynamodb": {"Keys": {}, "NewImage": image}}).encode()
    why = f"NewImage.{'k' * 71} is of type 'Q', which DynamoDB does not have"
    assert decoded(payload, "dynamodb") == f"dynamodb: {why}"
