"""Avro is read in a child with limits: what takes too much is one record's reason, and no other's."""

import io
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from compaction.columns.decode import avro
from compaction.columns.decode.avro import AvroReader, Sealed
from compaction.columns.decode.decoder import Decoder
from compaction.columns.decode.finding import sniff
from compaction.columns.decode.outcome import Outcome
from compaction.columns.misfits import Misfit
from compaction.columns.steps import canonical, parse_steps
from minutebook.errors import SettingsError
from tests.fakes.typed_lines import mapping, widened

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "share", "type": ["null", "double"]},
        {"name": "blob", "type": "bytes"},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
    ],
}
NULLS: dict[str, Any] = {"type": "array", "items": "null"}
NUMBERS: dict[str, Any] = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}
FINGERPRINT = "8a8f25cce724dd63"
"""Of "null", as the specification of Avro says it: 0x63dd24e7cc258f8a, little-endian."""


def order(number: int, share: float | None = None) -> bytes:
    """Return an order as bare Avro."""
    value = {"id": number, "price": Decimal("1.50"), "at": 1_795_256_161_790, "share": share}
    return written(ORDER, value | {"blob": b"\0\1", "tags": {"a": "é"}})


def written(schema: object, value: object) -> bytes:
    """Return a value as bare Avro."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return stream.getvalue()


def long(number: int) -> bytes:
    """Return a long of Avro: zigzag, seven bits a byte."""
    bits, out = (number << 1) ^ (number >> 63), bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*out, bits])


def told(outcomes: Iterator[Outcome]) -> list[Any]:
    """Return values, and the words of reasons."""
    return [each.what if isinstance(each, Misfit) else json.loads(each[0]) for each in outcomes]


class Reader:
    """An `AvroReader` of one schema."""

    def __init__(self, schema: object) -> None:
        self._reader, self._schema = AvroReader(), json.dumps(schema)

    def read(self, payloads: list[bytes]) -> Iterator[Outcome]:
        """Yield an outcome for each payload."""
        return self._reader.read([Sealed(self._schema, payload) for payload in payloads])


@pytest.fixture(scope="module")
def orders() -> Reader:
    """Return a reader of orders; one child for the module."""
    return Reader(ORDER)


def test_files_of_the_users_are_no_part_of_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started where the command is, whose folder may have a module of one of our names."""
    for name in ("compaction", "fastavro", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not ours')\n")
    monkeypatch.chdir(tmp_path)
    assert told(Reader("int").read([b"\x0e"])) == [7]


def test_a_record_is_json_with_all_digits_and_times_as_numbers(orders: Reader) -> None:
    """As columns of an Avro schema take them: decimals exact, times since 1970, bytes in base64."""
    (outcome,) = orders.read([order(7)])
    assert outcome == [b'{"id":7,"price":1.50,"at":1795256161790,"share":null,"blob":"AAE=","tags":{"a":"\xc3\xa9"}}']


def test_what_is_no_number_of_json_stays_apart_from_null(orders: Reader) -> None:
    """NaN and infinities are written as Python writes them, and fit no column."""
    outcomes = orders.read([order(1, math.nan), order(1, -math.inf)])
    first, second = [outcome[0] for outcome in outcomes if isinstance(outcome, list)]
    assert b'"share":NaN' in first
    assert b'"share":-Infinity' in second


def test_bytes_of_another_schema_are_a_reason(orders: Reader) -> None:
    """Cut short, with bytes left, or nonsense; the next record is read."""
    good = order(1)
    long_decimal = good[:1] + long(65) + bytes(65) + good[4:]
    assert told(orders.read([good[:-3], good + b"x", b"", b"\xff" * 40, long_decimal, good]))[:-1] == [
        "not of its schema: EOFError",
        "1 bytes are left: not of its schema",
        "not of its schema: EOFError",
        *told(orders.read([b"\xff" * 40])),
        "a decimal of 65 bytes",
    ]


def test_a_single_object_header_of_the_schema_is_passed() -> None:
    """That of another schema is not."""
    mark = bytes.fromhex(FINGERPRINT)
    nulls = Reader("null")
    assert told(nulls.read([b"", b"\xc3\x01" + mark, b"\xc3\x01" + mark + b"x"])) == [
        None,
        None,
        "1 bytes are left: not of its schema",
    ]
    assert told(nulls.read([b"\xc3\x01" + bytes(8)])) == ["10 bytes are left: not of its schema"]


def file(records: list[dict[str, Any]], codec: str = "deflate") -> bytes:
    """Return an object container of numbers."""
    stream = io.BytesIO()
    fastavro.writer(
        stream, fastavro.parse_schema(json.loads(json.dumps(NUMBERS))), records, codec, sync_marker=bytes(range(16))
    )
    return stream.getvalue()


def test_a_file_of_avro_is_its_records_and_others_pass() -> None:
    """It brings its schema; what is cut short, damaged, too many or a bomb is a reason."""
    whole, none = file([{"n": 1}, {"n": 2}]), file([])
    bomb = file([{"n": 0}] * 100_001)
    [events, empty, other, *reasons] = Decoder(parse_steps(["avro"])).apply(
        [whole, none, b'{"n":3}', whole[:-1], whole + b"\x02", whole[:-20], whole[:30], bomb]
    )
    assert (events, empty, other) == ([b'{"n":1}', b'{"n":2}'], [], [b'{"n":3}'])
    told = [each.what for [each] in reasons if isinstance(each, Misfit)]
    assert len(told) == 5
    assert told[-1] == "more than 100000 events"
    assert mapping({"n": "int64"}, ["avro"]).types == {"event_index": "int32", "n": "int64"}
    assert [step.name for step in sniff([whole, none]).steps] == ["avro"]


@pytest.mark.parametrize("count", [-1, 0, 1, 3])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_block_holds_as_many_records_as_it_says(count: int, codec: str) -> None:
    """Fewer would leave the others unread; the blocks before are no events either: a record is decoded or not."""
    none = file([], codec)
    two = file([{"n": 1}, {"n": 2}], codec)[len(none) :]
    assert two[:1] == long(2)
    (whole, [wrong]) = Decoder(parse_steps(["avro"])).apply([none + two, none + two + long(count) + two[1:]])
    assert whole == [b'{"n":1}', b'{"n":2}']
    assert isinstance(wrong, Misfit)
    assert wrong.path == " (avro)"


def test_which_compressions_are_read_does_not_rest_on_what_else_is_installed() -> None:
    """Others are a reason, even if fastavro could read them here."""
    for codec in ("null", "deflate", "bzip2", "xz", "zstandard"):
        assert [*Decoder(parse_steps(["avro"])).apply([file([{"n": 1}], codec)])] == [[b'{"n":1}']]
    ([wrong],) = Decoder(parse_steps(["avro"])).apply([file([{"n": 1}]).replace(b"\x0edeflate", b"\x0csnappy")])
    assert isinstance(wrong, Misfit)
    assert wrong.what == "its blocks are compressed with 'snappy', not with bzip2, deflate, null, xz, zstandard"


def test_bombs_are_reasons_of_their_own_records(tmp_path: Path) -> None:
    """A list of 2^40 nulls in seven bytes, among good ones: a child's memory, not the night's."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}, {"name": "x", "type": NULLS}]}
    (tmp_path / "r.avsc").write_text(json.dumps(schema))
    bomb = long(1) + long(1 << 40) + long(0)
    rows, counts = widened(
        {"n": "int32"},
        [long(number % 100) + long(0) if number != 700 else bomb for number in range(1_000)],
        [{"avro": str(tmp_path / "r.avsc")}],
    )
    assert [row["n"] for row in rows if row["_unfit"] is None] == [n % 100 for n in range(1_000) if n != 700]
    assert {row["_unfit"] for row in rows} == {None, "payload (avro): takes more memory than a record may"}
    assert [tuple(sample)[:3] for sample in counts.samples] == [("payload (avro)", "too_long", 1)]


@pytest.mark.parametrize("ends", ["os._exit(9)", "spin()"])
def test_a_child_that_dies_takes_one_record_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: str
) -> None:
    """Of itself, or of its CPU time: another starts, and the record that was not answered is tried alone."""
    module = tmp_path / "dying_child.py"
    module.write_text(
        "import os, sys\n"
        "from compaction.columns.decode import avro_child\n"
        "answer, avro_child._SECONDS = avro_child._answer, 0\n"
        "def spin():\n"
        "    while True: pass\n"
        f"avro_child._answer = lambda read, payload: {ends} if payload == b'\\x02' else answer(read, payload)\n"
        "avro_child.main(sys.stdin.buffer, sys.stdout.buffer)\n"
    )
    monkeypatch.setattr(avro, "_MODULE", "dying_child")
    monkeypatch.syspath_prepend(tmp_path)
    died = "takes more memory or time than a record may"
    assert told(Reader("int").read([b"\x00", b"\x02", b"\x04"])) == [0, died, 2]


def test_a_child_that_does_not_start_is_an_error_and_no_payloads_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor without fastavro must not give a day of rows that do not fit."""
    monkeypatch.setattr(avro, "_MODULE", "no_such_module")
    with pytest.raises(SettingsError, match="the process for it does not start"):
        next(Reader("int").read([b"\x00"]))


def test_the_schema_is_part_of_the_columns(tmp_path: Path) -> None:
    """Its content is, not the name of its file; blanks in it do not count; a pin gives the same steps back."""
    (tmp_path / "a.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "b.avsc").write_text(json.dumps(ORDER, indent=2))
    (tmp_path / "c.avsc").write_text('"int"')
    of_a, of_b, of_c = (parse_steps([{"avro": f"{name}.avsc"}], tmp_path) for name in "abc")
    assert of_a == of_b != of_c
    steps = (*of_a, *parse_steps(["gzip", {"json-text": "a.b"}]))
    assert parse_steps(json.loads(canonical(steps))) == steps
    assert (
        mapping({"id": "int64"}, [{"avro": str(tmp_path / "a.avsc")}]).digest
        == mapping({"id": "int64"}, [{"avro": str(tmp_path / "b.avsc")}]).digest
    )


@pytest.mark.parametrize("text", ["{", '"nothing"', '{"type":"record"}', "[]7", None])
def test_a_file_that_is_no_schema_is_refused(tmp_path: Path, text: str | None) -> None:
    """When the file of columns is read."""
    if text is not None:
        (tmp_path / "a.avsc").write_text(text)
    with pytest.raises(SettingsError, match=r"a\.avsc is no Avro schema"):
        parse_steps([{"avro": "a.avsc"}], tmp_path)


def test_tasks_load_fastavro_only_where_avro_is_read() -> None:
    """Each process of a night, and follow, would pay for it: the child alone does."""
    code = "import sys, compaction.tasks.task, compaction.commands.follow; print('fastavro' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
