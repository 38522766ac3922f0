"""Days with typed columns in an Iceberg table whose schema they change."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from compaction.night.rewrite import Compacted
from compaction.publish.publisher import Publisher
from compaction.report.page import render_page
from compaction.report.screen import show_audit
from compaction.tables.table import IcebergTable
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.audit_document import Audit, decode_audit
from minutebook.errors import StoreUnavailable
from minutebook.format.day import Day
from minutebook.format.minute import minute_of, minute_text
from minutebook.published.generation import DayFolder
from minutebook.store.retrying import RetryingStorage
from minutebook.terminal import TerminalConsole
from tests.corpus.desk import OUT, Desk
from tests.corpus.typed_day import payload_day
from tests.fakes.typed_lines import mapping
from tests.integration.lake import DAY, NEXT, Lake

FIRST = {
    "n": "int32",
    "price": "decimal(5,2)",
    "who": "struct<a: int64>",
    "tags": "list<string>",
    "old": "string",
    "by": "map<string, int32>",
}
AGAIN: dict[str, object] = {"rewrite_columns": True, "is_confirmed": True}
"""The day is written by other columns, whatever they lose."""
WIDER = {
    "n": "int64",
    "price": "decimal(20,2)",
    "who": "struct<b: date, a: int64>",
    "tags": "list<string>",
    "new": "bool",
    "by": "map<string, int64>",
}


def payload(number: int) -> bytes:
    """Return an event; one in six does not fit."""
    fields: dict[str, Any] = {
        "n": number,
        "price": f"{number}.25",
        "who": {"a": number, "b": "2026-11-20"},
        "tags": ["a", str(number)],
        "old": "x",
        "new": True,
        "by": {"k": number, "none": None},
    }
    return json.dumps(fields | ({"n": "none"} if number % 6 == 0 else {})).encode()


class Nights:
    """Two days in folders of their own, and one table."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self._lake = lake
        self.desks = {day: Desk(folder / str(day), payload_day(day, 2, payload)) for day in (DAY, NEXT)}
        for desk in self.desks.values():
            desk.clock.advance(2 * 86_400)

    def compact(self, day: Day, columns: dict[str, str] | None, **changes: object) -> Compacted:
        """Publish a day and commit it, by a client of its own."""
        wanted = None if columns is None else mapping(columns)
        with self._lake.catalog() as catalog:
            table = IcebergTable(catalog, self._lake.name)
            return self.desks[day].compact(day=day, columns=wanted, table=table, **changes)

    def state(self, day: Day, columns: dict[str, str] | None, **changes: object) -> str:
        """Do the same; return what became of the table."""
        done = self.compact(day, columns, **changes)
        assert done.table is not None
        return done.table.state

    def stored(self, day: Day) -> Audit:
        """Return the audit that the day's pointer names."""
        desk = self.desks[day]
        publisher = Publisher(RetryingStorage(desk.storage, desk.context().archive.new_backoff), DayFolder(OUT, day))
        pointer = publisher.current().pointer
        assert pointer is not None
        body = publisher.audit(pointer)
        assert body is not None
        return decode_audit(body)

    def rows(self, *names: str) -> list[dict[str, Any]]:
        """Read columns of the table, by day and number of the payload."""
        found = self._lake.table(
            lambda table: table.scan(selected_fields=(*names, "arrival_time", "data")).to_arrow()
        )
        rows: list[dict[str, Any]] = found.to_pylist()
        return sorted(rows, key=lambda row: (row["arrival_time"].date(), json.loads(row["data"])["who"]["a"]))


def told(audit: Audit) -> list[tuple[str, ...]]:
    """Return what an audit says of columns that conflict: column, types, and where the first value is."""
    found = [about for about in audit.findings if about.code == "table_conflict"]
    assert {about.severity for about in found} <= {"warning"}
    return [
        (each.column, each.table_type, each.day_type, about.shard or "", *about.positions, about.minute or "")
        for about in found
        if (each := about.conflict) is not None
    ]


def first_of(nights: Nights, day: Day) -> tuple[str, str, str]:
    """Return the first record of a day by arrival, shard and position."""
    records = [
        (record.arrival_ms, shard.shard_id, record.position)
        for shard in nights.desks[day].corpus.shards
        for index in shard.in_day(day)
        for record in shard.segments[index].records
    ]
    arrival_ms, shard, position = min(records)
    return shard, str(position), minute_text(minute_of(arrival_ms))


@pytest.fixture
def nights(lake: Lake, tmp_path: Path) -> Nights:
    """Return two days that are not published."""
    return Nights(lake, tmp_path / "nights")


def test_typed_columns_are_read_back(nights: Nights) -> None:
    """All rows; those that do not fit are null where they do not, and say why."""
    assert nights.state(DAY, FIRST) == "committed"
    rows = nights.rows("n", "price", "who", "tags", "_unfit")
    assert len(rows) == nights.desks[DAY].corpus.records == 36
    assert [row["n"] for row in rows] == [number if number % 6 else None for number in range(36)]
    assert rows[0]["_unfit"] == 'n: "none" is not int32'
    assert (str(rows[7]["price"]), rows[7]["who"], rows[7]["tags"]) == ("7.25", {"a": 7}, ["a", "7"])
    assert dict(nights.rows("by")[7]["by"]) == {"k": 7, "none": None}


def test_a_day_with_wider_columns_widens_the_table(nights: Nights) -> None:
    """In the commit of its files. The other day's files stay, and are read as the wider types."""
    assert (nights.state(DAY, FIRST), nights.state(NEXT, WIDER)) == ("committed", "committed")
    rows = nights.rows("n", "price", "who", "old", "new", "by", "_unfit")
    assert [dict(row["by"])["k"] for row in rows] == [*range(36)] * 2
    assert [row["n"] for row in rows[:36]] == [row["n"] for row in rows[36:]]
    assert {str(row["price"]) for row in rows[:36]} == {f"{number}.25" for number in range(36)}
    assert (rows[7]["who"], rows[7]["old"], rows[7]["new"]) == ({"a": 7, "b": None}, "x", None)
    assert (str(rows[43]["who"]["b"]), rows[43]["old"], rows[43]["new"]) == ("2026-11-20", None, True)
    assert nights.state(NEXT, WIDER) == "already"


def test_the_snapshot_before_has_the_old_rows_and_the_old_schema(nights: Nights, lake: Lake) -> None:
    """Time travel; `python -m benchmarks evolved_table` asks Spark and DuckDB the same."""
    nights.compact(DAY, FIRST)
    first = lake.table(lambda table: table.current_snapshot().snapshot_id)
    nights.compact(NEXT, WIDER)
    before, after = (
        lake.table(lambda table, at=snapshot: table.scan(snapshot_id=at).to_arrow()) for snapshot in (first, None)
    )
    assert (before.num_rows, str(before.schema.field("n").type), "new" in before.schema.names) == (36, "int32", False)
    assert (after.num_rows, str(after.schema.field("n").type), "new" in after.schema.names) == (72, "int64", True)


def test_a_day_with_narrower_columns_or_none_goes_into_the_wider_table(nights: Nights) -> None:
    """A day that is made again by an older file, and one that was never typed."""
    assert (nights.state(DAY, WIDER), nights.state(NEXT, FIRST)) == ("committed", "committed")
    rows = nights.rows("n", "price", "who")
    assert [row["n"] for row in rows[:36]] == [row["n"] for row in rows[36:]]
    assert nights.state(NEXT, None) == "already"
    assert nights.state(NEXT, None, **AGAIN) == "committed"
    rows = nights.rows("n", "_unfit")
    assert {(row["n"], row["_unfit"]) for row in rows[36:]} == {(None, None)}


def test_an_untyped_table_gets_columns(nights: Nights) -> None:
    """What has been committed for months begins to have columns, day by day."""
    assert (nights.state(DAY, None), nights.state(NEXT, FIRST), nights.state(DAY, FIRST)) == ("committed",) * 3
    assert [row["n"] for row in nights.rows("n")] == [number if number % 6 else None for number in range(36)] * 2


def test_a_column_of_another_type_holds_the_day_back_from_the_table(nights: Nights, lake: Lake) -> None:
    """The Parquet is published all the same; the table keeps what it had, and the sentence names the column."""
    nights.compact(DAY, FIRST)
    nights.compact(NEXT, FIRST)
    before = lake.snapshots()
    done = nights.compact(DAY, FIRST | {"price": "string", "who": "struct<a: string>"}, **AGAIN)
    assert done.state == "published"
    assert done.table is not None
    assert (done.table.state, tuple(map(str, done.table.conflicts))) == (
        "held",
        (
            "column price: the table has decimal(5, 2), the day string",
            "column who.a: the table has long, the day string",
        ),
    )
    assert (lake.snapshots(), len(nights.rows("n"))) == (before, 72)
    assert done.result is not None
    assert told(done.result.audit) == [
        ("who.a", "long", "string", "", ""),  # no number is a text: no row has a value
        ("price", "decimal(5, 2)", "string", *first_of(nights, DAY)),
    ]
    assert nights.stored(DAY) == done.result.audit
    assert done.result.audit.verdict == done.verdict
    again = nights.compact(DAY, FIRST | {"price": "string", "who": "struct<a: string>"})
    assert again.table is not None
    assert (again.state, again.table.state) == ("already", "held")
    assert nights.stored(DAY) == done.result.audit


def test_a_conflict_is_told_before_a_segment_is_read(nights: Nights, lake: Lake) -> None:
    """A person can stop the run; nothing is told where the table takes the day, and no table is made for it."""
    begun = list[int]()

    def no_reading(orders: Sequence[Order]) -> list[TaskResult]:
        begun.append(len(orders))
        raise StoreUnavailable("the first segment was asked for")

    def told_before(columns: dict[str, str]) -> list[Any]:
        begun.clear()
        with capture_logs() as logs, suppress(StoreUnavailable):
            nights.compact(NEXT, columns, engine=no_reading)
        assert begun
        return [each["conflicts"] for each in logs if each["event"] == "table_conflict_ahead"]

    assert told_before(FIRST) == []
    with lake.catalog() as catalog:
        assert not catalog.table_exists(lake.name)
    nights.compact(DAY, FIRST)
    assert told_before(FIRST) == []
    assert told_before(FIRST | {"price": "string"}) == [["column price: the table has decimal(5, 2), the day string"]]


def test_a_mended_file_goes_on_by_itself(nights: Nights) -> None:
    """The next night, and the held day when it is run again: the audit of it has nothing to say any more."""
    nights.compact(DAY, FIRST)
    assert nights.state(NEXT, FIRST | {"price": "string"}) == "held"
    assert told(nights.stored(NEXT))[0][:3] == ("price", "decimal(5, 2)", "string")
    assert nights.state(NEXT, WIDER) == "committed"
    assert told(nights.stored(NEXT)) == []
    assert len(nights.rows("n")) == 72
    assert nights.state(NEXT, FIRST) == "already"  # from then on it keeps its columns


def test_a_held_day_stays_open_to_a_mended_file_while_an_audit_holds_it(nights: Nights) -> None:
    """The pointer then names an audit of a run that published nothing, and that knows no table."""
    nights.compact(DAY, FIRST)
    nights.state(NEXT, FIRST | {"price": "string"})
    desk = nights.desks[NEXT]
    shard = desk.corpus.shards[0]
    foreign = (desk.raw / shard.segments[shard.in_day(NEXT)[0]].key).with_name("foreign")
    foreign.write_bytes(b"no segment")
    assert nights.compact(NEXT, FIRST | {"price": "string"}).state == "held"
    foreign.unlink()
    assert nights.state(NEXT, WIDER) == "committed"


def test_a_table_that_takes_the_day_after_all_clears_the_finding(nights: Nights, lake: Lake) -> None:
    """The same generation, a table that somebody made anew."""
    nights.compact(DAY, FIRST)
    other = FIRST | {"price": "string"}
    assert nights.state(NEXT, other) == "held"
    assert len(told(nights.stored(NEXT))) == 1
    lake.table(lambda table: table.catalog.drop_table(lake.name))
    again = nights.compact(NEXT, other)
    assert again.table is not None
    assert (again.state, again.table.state, told(nights.stored(NEXT))) == ("already", "committed", [])


def test_a_column_without_a_value_has_no_first_position(nights: Nights) -> None:
    """The finding says so, and the page and the screen show it."""
    nights.compact(DAY, FIRST)
    done = nights.compact(NEXT, {"n": "string", "price": {"path": "nothing", "type": "date"}})  # type: ignore[dict-item]
    assert done.result is not None
    about = {each.conflict.column: each for each in done.result.audit.findings if each.conflict is not None}
    assert (about["price"].positions, about["price"].shard, about["price"].minute) == ((), None, None)
    assert "no row has a value in it" in about["price"].message
    console = TerminalConsole(width=400)
    with console.capture() as capture:
        show_audit(done.result.audit, console)
    assert "column n: the table has int, the day string: the day is published" in capture.get()
    assert "column n: the table has int, the day string" in render_page(done.result)


@pytest.mark.parametrize("precision", [5, 9, 10, 18, 19, 38])
def test_bounds_of_typed_columns_find_their_rows(nights: Nights, lake: Lake, precision: int) -> None:
    """A filter on a decimal, a date or a list's neighbour passes over no file that holds rows."""
    columns = {"price": f"decimal({precision},2)", "day": {"path": "who.b", "type": "date"}, "tags": "list<string>"}
    nights.compact(DAY, columns)  # type: ignore[arg-type]  # a path beside types

    def count(table: Any) -> list[int]:  # noqa: ANN401 - a table of pyiceberg
        filters = [
            "price > 30.00",
            "price == 7.25",
            "day == '2026-11-20'",
            "day > '2026-11-20'",
            "_unfit is not null",
        ]
        return [len(table.scan(row_filter=text, selected_fields=("data",)).to_arrow()) for text in filters]

    assert lake.table(count) == [6, 1, 36, 0, 0]
    assert isinstance(lake.table(lambda table: table.scan().to_arrow()), pa.Table)
