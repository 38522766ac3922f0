"""`minutebook columns --since`: what an edited file would change, before anybody's night does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compaction.columns.columns import Columns
from compaction.columns.event_time import with_event_time
from compaction.commands.compare_columns import NO_TABLE, Comparison, TableConflicts, compare, differences
from compaction.tables.plan import Conflict
from minutebook.format.day import Day
from minutebook.published.generation import columns_beside
from minutebook.published.schema import SCHEMA
from tests.corpus.desk import DAY, Desk
from tests.corpus.typed_day import payload_day
from tests.fakes.typed_lines import mapping

A: Mapping[str, Any] = {"n": "int64", "price": {"path": "fare.price", "type": "decimal(10,2)"}, "who": "string"}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Return a day that was published with A."""
    made = Desk(tmp_path_factory.mktemp("desk"), payload_day(DAY, 1, lambda number: b'{"n":%d}' % number))
    made.compact(columns=mapping(A))
    return made


def _compared(desk: Desk, columns: Columns, since: Day = DAY, table: TableConflicts = NO_TABLE) -> Comparison:
    return compare(desk.publisher().storage, desk.out.prefix, since, columns, table)


def test_each_change_is_told_with_its_days(desk: Desk) -> None:
    """What is gone, has another path or another type, or is required now; a new column changes nothing."""
    other = {
        "n": {"type": "int64", "required": True},
        "price": {"path": "fare.cost", "type": "string"},
        "new": "bool",
    }
    assert _compared(desk, mapping(other)) == Comparison(
        (
            f"n: required now ({DAY})",
            f"price: path fare.price -> fare.cost ({DAY})",
            f"price: type decimal(10,2) -> string ({DAY})",
            f"who: gone ({DAY})",
            f"new: new, bool ({DAY})",
        ),
        is_changed=True,
    )


def test_other_steps_are_a_change() -> None:
    """All values are read from other text; a schema counts by its content."""
    ints, longs = (mapping(A, ["gzip", {"avro": {"type": kind}}]) for kind in ("int", "long"))
    assert [each.text for each in differences(mapping(A, ["gzip"]), mapping(A))] == ['decode = ["gzip"] -> []']
    assert [each.text for each in differences(mapping(A), mapping(A, ["documents"]))] == [
        'decode = [] -> ["documents"]',
        "event_index: new, int32",
    ]
    assert [each.text for each in differences(ints, longs)] == [
        'decode = ["gzip", {avro = schema 8227b502}] -> ["gzip", {avro = schema 98c9e171}]'
    ]
    assert not [*differences(ints, ints)]


def test_new_columns_alone_are_no_change(desk: Desk) -> None:
    """No value that is published means something else by them."""
    assert _compared(desk, mapping({**A, "new": "bool"})) == Comparison(
        (f"new: new, bool ({DAY})",), is_changed=False
    )


def test_the_same_file_changes_nothing(desk: Desk) -> None:
    """Nor does one where nothing is published since that day."""
    assert _compared(desk, mapping(A)) == Comparison((f"nothing changed: 1 published day(s) since {DAY}",), False)
    assert not _compared(desk, mapping({"x": "string"}), DAY.shift(1)).is_changed


def test_a_table_that_does_not_take_the_file_is_a_change(desk: Desk) -> None:
    """Each column of it is told."""
    table = TableConflicts("lake.events.raw", (Conflict("n", "string", "int64"),))
    assert _compared(desk, mapping(A), table=table) == Comparison(
        ("table lake.events.raw: column n: the table has string, the day int64",), is_changed=True
    )


def test_without_stored_columns_paths_are_not_known(tmp_path: Path) -> None:
    """Unless the file is the one that the day was published with; what cannot be compared is no pass."""
    desk = Desk(tmp_path, payload_day(DAY, 1, lambda number: b'{"n":%d}' % number))
    desk.compact(columns=mapping(A))
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    desk.storage.delete([columns_beside(pointer.manifest)])
    assert not _compared(desk, mapping(A)).is_changed
    told = _compared(desk, mapping({**A, "who": "int64"}))
    assert told.lines == (
        f"who: type string -> int64 ({DAY})",
        f"paths cannot be compared: they are not stored with the day ({DAY})",
    )
    assert told.is_changed


def test_event_times_are_compared_where_the_run_knows_of_them() -> None:
    """They are an option, and no column of the file."""
    timed = with_event_time(mapping(A), "at", 30, SCHEMA.names)
    assert list(differences(timed, mapping(A))) == []
    wider = with_event_time(mapping(A), "at", 31, SCHEMA.names)
    assert [each.text for each in differences(timed, wider)] == ["event_time: another window of days"]
