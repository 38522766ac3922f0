"""Days with typed columns in an Iceberg table whose schema they change."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compaction.iceberg.table import IcebergTable
from compaction.rewrite import Compacted
from tests.corpus.desk import Desk
from tests.corpus.typed_day import payload_day
from tests.fakes.typed_lines import mapping
from tests.integration.lake import DAY, NEXT, Lake

FIRST = {"n": "int32", "price": "decimal(5,2)", "who": "struct<a: int64>", "tags": "list<string>", "old": "string"}
WIDER = {
    "n": "int64",
    "price": "decimal(20,2)",
    "who": "struct<b: date, a: int64>",
    "tags": "list<string>",
    "new": "bool",
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
    }
    return json.dumps(fields | ({"n": "none"} if number % 6 == 0 else {})).encode()


class Nights:
    """Two days in folders of their own, and one table."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self._lake = lake
        self.desks = {day: Desk(folder / str(day), payload_day(day, 2, payload)) for day in (DAY, NEXT)}
        for desk in self.desks.values():
            desk.clock.advance(2 * 86_400)

    def compact(self, day: Any, columns: dict[str, str] | None) -> Compacted:  # noqa: ANN401 - a day
        """Publish a day and commit it, by a client of its own."""
        wanted = None if columns is None else mapping(columns)
        with self._lake.catalog() as catalog:
            table = IcebergTable(catalog, self._lake.name)
            return self.desks[day].compact(day=day, columns=wanted, table=table)

    def state(self, day: Any, columns: dict[str, str] | None) -> str:  # noqa: ANN401 - same
        """Do the same; return what became of the table."""
        done = self.compact(day, columns)
        assert done.table is not None
        return done.table.state

    def rows(self, *names: str) -> list[dict[str, Any]]:
        """Read columns of the table, by day and number of the payload."""
        found = self._lake.table(
            lambda table: table.scan(selected_fields=(*names, "arrival_time", "data")).to_arrow()
        )
        rows: list[dict[str, Any]] = found.to_pylist()
        return sorted(rows, key=lambda row: (row["arrival_time"].date(), json.loads(row["data"])["who"]["a"]))


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


def test_a_day_with_wider_columns_widens_the_table(nights: Nights) -> None:
    """In the commit of its files. The other day's files stay, and are read as the wider types."""
    assert (nights.state(DAY, FIRST), nights.state(NEXT, WIDER)) == ("committed", "committed")
    rows = nights.rows("n", "price", "who", "old", "new", "_unfit")
    assert [row["n"] for row in rows[:36]] == [row["n"] for row in rows[36:]]
    assert {str(row["price"]) for row in rows[:36]} == {f"{number}.25" for number in range(36)}
    assert (rows[7]["who"], rows[7]["old"], rows[7]["new"]) == ({"a": 7, "b": None}, "x", None)
    assert (str(rows[43]["who"]["b"]), rows[43]["old"], rows[43]["new"]) == ("2026-11-20", None, True)
    assert nights.state(NEXT, WIDER) == "already"


def test_a_day_with_narrower_columns_or_none_goes_into_the_wider_table(nights: Nights) -> None:
    """A day that is made again by an older file, and one that was never typed."""
    assert (nights.state(DAY, WIDER), nights.state(NEXT, FIRST)) == ("committed", "committed")
    rows = nights.rows("n", "price", "who")
    assert [row["n"] for row in rows[:36]] == [row["n"] for row in rows[36:]]
    assert nights.state(NEXT, None) == "committed"
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
    done = nights.compact(DAY, FIRST | {"price": "string", "who": "struct<a: string>"})
    assert done.state == "published"
    assert done.table is not None
    assert (done.table.state, done.table.conflicts) == (
        "held",
        (
            "column price: the table has decimal(5, 2), the day string",
            "column who.a: the table has long, the day string",
        ),
    )
    assert (lake.snapshots(), len(nights.rows("n"))) == (before, 72)
    again = nights.compact(DAY, FIRST | {"price": "string", "who": "struct<a: string>"})
    assert again.table is not None
    assert (again.state, again.table.state) == ("already", "held")
    assert nights.state(DAY, FIRST) in {"committed", "already"}


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
