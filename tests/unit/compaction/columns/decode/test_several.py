"""Several events in one record: a row each, the payload once, and equations that hold."""

import gzip
import json
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compaction.columns.columns import EVENT_INDEX, Columns
from compaction.columns.counts import StatedCounts, TypedCounts
from compaction.columns.decode.decoder import Decoder, new_payload_columns
from compaction.columns.decode.finding import sniff
from compaction.columns.decode.outcome import MAX_BYTES, MAX_EVENTS
from compaction.columns.event_time import with_event_time
from compaction.columns.files.columns_file import parse_columns
from compaction.columns.misfits import Misfit
from compaction.columns.pinned import decode_pinned, encode_pinned
from compaction.columns.steps import canonical, parse_steps, written
from compaction.columns.verdict import judge_columns
from compaction.parquet.rows import ParquetPart
from minutebook.errors import FormatError, SettingsError
from minutebook.format.day import Day
from minutebook.published.schema import SCHEMA
from tests.fakes.typed_lines import lines_of, mapping

gzipped = partial(gzip.compress, mtime=0)
LOGS = {
    "messageType": "DATA_MESSAGE",
    "logGroup": "/g",
    "logEvents": [
        {"id": str(number), "timestamp": 1_795_256_161_790 + number, "message": "m"} for number in range(3)
    ],
}
LOG_COLUMNS = {
    "logGroup": "string",
    "id": {"path": "logEvents.id", "type": "string"},
    "at": {"path": "logEvents.timestamp", "type": "timestamp(ms)"},
}


def events(payload: bytes, *steps: Any) -> list[bytes | str]:  # noqa: ANN401 - as in a file
    """Return what steps find in a payload: texts, or `step: reason`."""
    [found] = Decoder(parse_steps([*steps])).apply([payload])
    return [f"{each.path.strip(' ()')}: {each.what}" if isinstance(each, Misfit) else each for each in found]


def rows_of(columns: Columns, payloads: list[bytes]) -> tuple[list[dict[str, Any]], TypedCounts]:
    """Return the rows of payloads, and what was counted."""
    payload_columns = new_payload_columns(columns)
    rows = [row for table in payload_columns.tables_of(lines_of(payloads)) for row in table.to_pylist()]
    return rows, payload_columns.counts()


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (b'{"a":1}{"a":2}', [b'{"a":1}', b'{"a":2}']),
        (b' {"a":1}\n{"a":1.50,"a":2}\r\n', [b'{"a":1}', b'{"a":1.50,"a":2}']),
        (b'{"a":"}{"} [1]', [b'{"a":"}{"}', b"[1]"]),
        (b'{"a":NaN}', [b'{"a":NaN}']),
        (b" \n", []),
        (b"", []),
        (b'{"a":1} x', ["documents: document 2 is not JSON: Expecting value: line 1 column 9 (char 8)"]),
        (b'{"a":1}{"a":', ["documents: document 2 is not JSON: Expecting value: line 1 column 13 (char 12)"]),
        (b"\xff", ["documents: not UTF-8 text"]),
        (b"{}" * 100_001, [f"documents: more than {MAX_EVENTS} events"]),
        (b"[]," * (10 << 20) + b"[]", ["documents: 31457282 bytes of too many values"]),
    ],
)
def test_documents_are_found_as_they_were_written(payload: bytes, found: list[bytes | str]) -> None:
    """With or without blanks between; what is left over is a reason."""
    assert found == events(payload, "documents")


@pytest.mark.parametrize(
    ("path", "payload", "found"),
    [
        ("r", b'{"by":1.50,"r":[{"a":2.50},3]}', [b'{"by":1.50,"r":{"a":2.50}}', b'{"by":1.50,"r":3}']),
        ("a.r", b'{"a":{"r":[1],"b":2}}', [b'{"a":{"r":1,"b":2}}']),
        ("r", b'{"r":[]}', []),
        ("@", b'[{"a":1},{"a":2}]', [b'{"a":1}', b'{"a":2}']),
        ("@", b"[]", []),
        ("@", b'{"a":1}', ["each: an object, not a list"]),
        ("@", b'[{"a":1,"a":2}]', ['each: the key "a" is there several times']),
        ("r", b'{"r":{}}', ["each: there is no list at r"]),
        ("a.r", b'{"a":[]}', ["each: there is no list at a.r"]),
        ("r", b'{"r":[1],"b":{"c":1,"c":2}}', ['each: the key "c" is there several times']),
        ("r", b"7", ["each: a number, not an object"]),
        ("r", b'{"r":[' + b"1," * 100_000 + b"1]}", [f"each: more than {MAX_EVENTS} events"]),
        ("r", b'{"a":"' + b"x" * 2000 + b'","r":[' + b"1," * 9000 + b"1]}", [f"each: more than {MAX_BYTES} bytes"]),
    ],
)
def test_each_element_takes_the_place_of_its_list(path: str, payload: bytes, found: list[bytes | str]) -> None:
    """The rest of the record stays in reach, numbers keep their digits, and the sum is bounded."""
    assert found == events(payload, {"each": path})


def test_a_record_of_cloudwatch_logs_is_its_events() -> None:
    """A CONTROL_MESSAGE is an ordinary one; other JSON is a reason."""
    control = {"messageType": "CONTROL_MESSAGE", "logGroup": "", "logEvents": [{"id": "", "message": "CWL CONTROL"}]}
    rows, _ = rows_of(
        mapping(LOG_COLUMNS, ["gzip", "cloudwatch-logs"]),
        [gzipped(json.dumps(each).encode()) for each in (LOGS, control, {"a": 1})],
    )
    assert [(row[EVENT_INDEX], row["logGroup"], row["id"]) for row in rows] == [
        (0, "/g", "0"),
        (1, "/g", "1"),
        (2, "/g", "2"),
        (0, "", ""),
        (None, None, None),
    ]
    assert rows[4]["_unfit"].startswith("payload (cloudwatch-logs): no record of CloudWatch Logs")
    assert [row["data_bytes"] is None for row in rows] == [False, True, True, False, False]


def test_rows_of_one_record_hold_its_payload_once_and_the_counts_balance() -> None:
    """Records = first rows, rows = events; a record without any is a row, too; an event that fails has its own."""
    payloads = [b'{"r":[{"a":1},{"a":"x"},{"a":3}]}', b'{"r":[]}', b"nothing", b'{"r":[{"a":4}]}']
    columns = mapping({"a": {"path": "r.a", "type": "int64"}}, [{"each": "r"}])
    assert columns.types == {EVENT_INDEX: "int32", "a": "int64"}
    rows, counts = rows_of(columns, payloads)
    assert [(row["sequence_number"], row[EVENT_INDEX], row["a"], row["data"] is None) for row in rows] == [
        ("1", 0, 1, False),
        ("1", 1, None, True),
        ("1", 2, 3, True),
        ("2", None, None, False),
        ("3", None, None, False),
        ("4", 0, 4, False),
    ]
    assert rows[1]["_unfit"] == 'a: "x" is not int64'
    assert [tuple(column) for column in counts.columns] == [(EVENT_INDEX, 4, 2, 0), ("a", 3, 1, 2)]
    assert (counts.rows, counts.records, len(counts.firsts)) == (6, 4, 2)
    assert StatedCounts.of(counts).counts() == counts
    result = judge_columns(columns, [counts], 6, Day(20_000), 4)
    assert result.numbers.balanced
    assert [check.status for check in result.checks] == ["pass", "pass"]
    lost = judge_columns(columns, [counts], 6, Day(20_000), 5)
    assert not lost.numbers.balanced
    assert lost.checks[1].message == "6 rows of 5 records, 4 of them the first of a record"
    assert lost.checks[1].status == "fail"


def test_an_event_that_a_later_step_refuses_is_a_row_of_its_record() -> None:
    """The payload stays in the first row alone."""
    rows, counts = rows_of(
        mapping({"a": "int64"}, ["documents", "json-text"]), [b'"{\\"a\\":1}" 7 "{\\"a\\":2}"', b"7"]
    )
    assert [(row[EVENT_INDEX], row["a"], row["_unfit"]) for row in rows] == [
        (0, 1, None),
        (1, None, "payload (json-text): not a JSON string"),
        (2, 2, None),
        (None, None, "payload (json-text): not a JSON string"),
    ]
    assert sum(row["data"] is not None for row in rows) == counts.records == 2


def test_ten_thousand_events_of_a_record_are_written_in_bounded_row_groups() -> None:
    """Row groups end by the bytes behind the decoding, in the order of position and index; records are counted."""
    record = json.dumps(LOGS | {"logEvents": LOGS["logEvents"] * 3_334}).encode()
    columns = mapping(LOG_COLUMNS, ["gzip", "cloudwatch-logs"])
    stream = pa.BufferOutputStream()
    part = ParquetPart(_Sink(stream), columns, row_group_bytes=200_000)
    part.add(lines_of([gzipped(record), b"{}", gzipped(record)]), "key")
    part.close()
    file = pq.ParquetFile(pa.BufferReader(stream.getvalue()))
    table = file.read()
    assert (part.records, part.rows, table.num_rows) == (3, 20_005, 20_005)
    assert file.num_row_groups > 3
    places = zip(*(table[name].to_pylist() for name in ("sequence_number", EVENT_INDEX)), strict=True)
    assert [*places] == [("1", i) for i in range(10_002)] + [("2", None)] + [("3", i) for i in range(10_002)]
    assert table["data_bytes"].null_count == 20_005 - 2
    assert table["data"].null_count == 20_005 - 1
    assert part.typed is not None
    assert judge_columns(columns, [part.typed], 20_005, Day(20_000), 3).numbers.balanced


class _Sink:
    """A sink in memory."""

    def __init__(self, stream: pa.BufferOutputStream) -> None:
        self._stream = stream
        self.closed = False
        self.size = 0

    def write(self, data: bytes) -> int:
        self._stream.write(data)
        self.size += len(data)
        return len(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


def test_a_column_of_the_name_is_refused_only_where_rows_multiply() -> None:
    """Without such steps the name is free."""
    assert mapping({EVENT_INDEX: "int64"}).types == {EVENT_INDEX: "int64"}
    with pytest.raises(SettingsError, match="the name is a column of the envelope"):
        mapping({EVENT_INDEX: "int64"}, ["documents"])


def test_steps_of_several_events_in_their_forms() -> None:
    """A list itself is the path @."""
    steps = parse_steps(["documents", {"each": "@"}, {"each": "a.b"}, "cloudwatch-logs"])
    assert written(steps) == 'decode = ["documents", {each = "@"}, {each = "a.b"}, "cloudwatch-logs"]\n'
    assert parse_steps(json.loads(canonical(steps))) == steps
    with pytest.raises(SettingsError, match="each needs the path of a list"):
        parse_steps(["each"])


@pytest.mark.parametrize(
    ("payloads", "steps"),
    [
        ([gzipped(json.dumps(LOGS).encode())] * 2, ["gzip", "cloudwatch-logs"]),
        ([b'{"a":1}{"a":2}', b'{"a":3}'], ["documents"]),
        ([b'[{"a":1}]', b"[]"], ["each"]),
    ],
)
def test_steps_of_several_events_are_found(payloads: list[bytes], steps: list[str]) -> None:
    """By what every payload is."""
    assert steps == [step.name for step in sniff(payloads).steps]


def test_a_pin_gives_the_steps_back() -> None:
    """With the event index that they bring, and the time of events behind."""
    given = mapping(LOG_COLUMNS, ["gzip", {"json-text": "a.b"}, {"each": "@"}, {"avro": {"type": "int"}}])
    columns = with_event_time(given, "at", 30, SCHEMA.names)
    pinned = encode_pinned("2026-11-20", "g", columns)
    assert decode_pinned(pinned, "key", "2026-11-20", "g") == columns
    assert parse_columns(pinned, "pin", SCHEMA.names, is_toml=False) == given
    unknown = pinned.replace(b'"gzip"', b'"lz4"')
    with pytest.raises(FormatError, match="there is no step 'lz4'"):
        decode_pinned(unknown, "key", "2026-11-20", "g")


@pytest.mark.parametrize("bad", ['{"a":NaN}', '{"a":1e-99999999999999999999}'])
def test_a_number_that_is_none_costs_its_leaf_alone(bad: str) -> None:
    """Python's encoder writes NaN: the event is a row, and so are the others; so it is in an envelope."""
    listed = f'{{"by":"x","Records":[{{"a":1,"b":1}},{bad},{{"a":3,"b":3}}]}}'.encode()
    columns = mapping({"a": {"path": "Records.a", "type": "decimal(5,1)"}, "by": "string"}, [{"each": "Records"}])
    rows, counts = rows_of(columns, [listed])
    assert [(row["event_index"], row["a"], row["by"]) for row in rows] == [(0, 1, "x"), (1, None, "x"), (2, 3, "x")]
    assert (counts.rows, counts.unfit) == (3, 1)
    text = events(f'{{"m":"{{\\"b\\":1}}","v":{bad}}}'.encode(), {"json-text": "m"})
    assert text == [f'{{"m":{{"b":1}},"v":{bad}}}'.encode()]


@pytest.mark.parametrize("path", ["Records", "@"])
def test_an_event_that_has_a_key_twice_is_a_reason_alone(path: str) -> None:
    """The others are events; where the key is there twice around them, nobody knows what they belong to."""
    listed = '[{"a":1},{"a":2,"a":3},{"a":4}]'
    is_within = path != "@"
    found = events((f'{{"Records":{listed}}}' if is_within else listed).encode(), {"each": path})
    assert [each if isinstance(each, str) else json.loads(each) for each in found] == [
        {"Records": {"a": 1}} if is_within else {"a": 1},
        'each: the key "a" is there several times',
        {"Records": {"a": 4}} if is_within else {"a": 4},
    ]
    assert events(f'{{"b":1,"b":2,"Records":{listed}}}'.encode(), {"each": "Records"}) == [
        'each: the key "b" is there several times'
    ]
    assert events(b'{"Records":[],"Records":[1]}', {"each": "Records"}) == [
        'each: the key "Records" is there several times'
    ]
