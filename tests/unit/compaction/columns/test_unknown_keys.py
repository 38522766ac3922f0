"""Keys that no column reads: what producers have begun to send."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from compaction.columns.counts import StatedCounts
from compaction.columns.decode.decoder import new_payload_columns
from compaction.columns.unknown_keys import MOST_KEYS, SAMPLE, SampledKeys, UnknownKey, UnknownKeys, total_keys
from compaction.report.page import render_page
from compaction.report.screen import show_audit
from minutebook.terminal import TerminalConsole
from tests.corpus.desk import DAY, Desk
from tests.corpus.typed_day import payload_day
from tests.fakes.typed_lines import columns_of, lines_of, mapping


def _found(columns: Mapping[str, Any], *payloads: object) -> dict[str, tuple[str, int]]:
    keys = UnknownKeys(mapping(columns).columns)
    keys.look(pa.array([each if isinstance(each, str) else json.dumps(each) for each in payloads]))
    return {key.path: (key.type, key.payloads) for key in keys.sampled().keys}


@pytest.mark.parametrize(
    ("columns", "payload", "unknown"),
    [
        ({"a": "int64"}, {"a": 1}, {}),
        ({"a": "int64"}, {"a": 1, "b": "x", "c": None}, {"b": "string", "c": "null"}),
        (
            {"a": {"path": "f.a", "type": "int64"}},
            {"f": {"a": 1, "b": 2.5}, "g": {"x": 1}},
            {"f.b": "float64", "g": "struct"},
        ),
        ({"a": {"path": "f.a", "type": "int64"}, "f": "json"}, {"f": {"a": 1, "b": 2}}, {}),
        ({"f": "json", "a": {"path": "f.a", "type": "int64"}}, {"f": {"a": 1, "b": 2}}, {}),
        ({"a": "int64"}, {"a": {"b": 1}}, {}),
        (
            {"s": "struct<a: int64, t: struct<b: bool>>"},
            {"s": {"a": 1, "t": {"b": True, "c": []}}},
            {"s.t.c": "list"},
        ),
        ({"l": "list<struct<a: int64>>"}, {"l": [{"a": 1}, {"b": True}, 7, {"b": True}]}, {"l[].b": "bool"}),
        ({"l": "list<json>"}, {"l": [{"b": 1}]}, {}),
        ({"l": "list<list<struct<a: int64>>>"}, {"l": [[{"b": 1}]]}, {"l[][].b": "int64"}),
        ({"a": {"path": "x.id || y.id", "type": "int64"}}, {"x": {"z": 1}, "id": 1, "b": 2}, {"b": "int64"}),
        ({"a": {"path": "length(@)", "type": "int64"}}, {"b": 2}, {}),
    ],
)
def test_a_key_is_unknown_where_no_column_may_read_it(
    columns: Mapping[str, Any], payload: object, unknown: dict[str, str]
) -> None:
    """Within structs and lists, too. Functions and json columns may read all below the keys they name."""
    assert _found(columns, payload) == {path: (kind, 1) for path, kind in unknown.items()}


def test_the_first_value_that_is_not_null_gives_the_type() -> None:
    """A payload counts once for each key."""
    assert _found({"a": "int64"}, {"b": None}, {"b": 1}, {"b": "x"}, "[1]", "{", '{"b":NaN}') == {"b": ("int64", 3)}


def test_a_hostile_payload_costs_little() -> None:
    """Keys are bounded in number and length, nesting in depth, and large payloads are not looked at."""
    found = _found({"a": "int64"}, {f"{number:03}": 1 for number in range(10 * MOST_KEYS)}, {"x" * 10_000: 1})
    assert len(found) == MOST_KEYS
    assert _found({"a": "int64"}, {"x" * 10_000: 1}) == {"x" * 200 + "...": ("int64", 1)}
    assert _found({"a": "int64"}, {"a": "y" * (1 << 20), "b": 1}) == {}
    assert _found({"a": "list<struct<x: int64>>"}, '{"a":' + "[" * 5000 + "]" * 5000 + "}") == {}


def test_a_task_looks_at_a_thousand_payloads() -> None:
    """Spread over its blocks: what begins late is seen."""
    columns = mapping({"a": "int64"})
    payload_columns = new_payload_columns(columns)
    for _ in range(40):
        columns_of(payload_columns, lines_of([b'{"a":1}'] * 3000 + [b'{"a":1,"late":true}'] * 1000))
    counts = payload_columns.counts()
    assert 900 < counts.keys.payloads <= SAMPLE
    [late] = counts.keys.keys
    assert (late.path, late.type) == ("late", "bool")
    assert 0.2 < late.payloads / counts.keys.payloads < 0.3
    assert StatedCounts.of(counts).counts() == counts
    assert msgspec.json.decode(msgspec.json.encode(StatedCounts.of(counts)), type=StatedCounts).counts() == counts


def test_samples_add_up() -> None:
    """The type is that of a value, where any task has seen one."""
    one = SampledKeys(10, (UnknownKey("b", "null", 2), UnknownKey("c", "bool", 1)), 1)
    other = SampledKeys(5, (UnknownKey("b", "int64", 5),))
    assert total_keys([one, other]) == SampledKeys(15, (UnknownKey("b", "int64", 7), UnknownKey("c", "bool", 1)), 1)


def test_report_and_terminal_name_new_keys_as_text(tmp_path: Path) -> None:
    """A key is what a producer writes: markup and control characters have no effect, and the verdict stays."""
    hostile = "<b>\x1b[31m\u202e"
    desk = Desk(tmp_path, payload_day(DAY, 1, lambda number: json.dumps({"n": number, hostile: number}).encode()))
    done = desk.compact(columns=mapping({"n": "int64"}))
    assert done.result is not None
    audit = done.result.audit
    assert audit.typed is not None
    assert audit.typed.unknown is not None
    assert (audit.verdict, audit.findings, audit.typed.unknown.found) == ("clean", (), 1)
    [key] = audit.typed.unknown.keys
    assert (key.path, key.type, key.payloads) == (hostile, "int64", audit.typed.unknown.sample)
    page = render_page(done.result)
    assert "New keys" in page
    assert "&lt;b&gt;" in page
    assert not [text for text in ("<b>\x1b", "\x1b", "\u202e") if text in page]
    console = TerminalConsole(width=200)
    with console.capture() as capture:
        show_audit(audit, console)
    assert f"keys that no column reads, in {audit.typed.unknown.sample:,} payloads: <b>" in capture.get()
    assert "\x1b[31m" not in capture.get()
    assert "\u202e" not in capture.get()
