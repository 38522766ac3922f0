"""Which typed columns of live parts fit beside those that are published, and into the table."""

from collections.abc import Mapping

from compaction.tables.fitting import DayColumns
from compaction.tables.plan import Conflict


def _table(**has: str) -> DayColumns:
    """Return columns beside a published `n`, for a table that conflicts with some."""

    def conflicts(columns: Mapping[str, str]) -> list[Conflict]:
        asked = {*columns, "_unfit"}
        return [
            Conflict(name.replace("__", "."), kind, "x")
            for name, kind in has.items()
            if name.partition("__")[0] in asked
        ]

    return DayColumns(conflicts, {"n": "int32"})


def test_columns_that_fit_are_those_of_all_files() -> None:
    """Each in its widest type; a part without typed columns adds none."""
    columns = _table()
    assert columns.add({"n": "int64", "who": "string"}) == columns.add({}) == frozenset()
    assert columns.columns == {"n": "int64", "who": "string"}
    assert not columns.left_out
    assert DayColumns(lambda _: (), None).columns is None


def test_a_column_of_another_type_is_left_out_alone() -> None:
    """Of a type that the table has otherwise, within a struct too, or that the other files' column cannot hold."""
    columns = _table(who__id="long")
    assert columns.add({"n": "bool", "who": "struct<id: bool>", "N2": "bool"}) == {"n", "who"}
    assert columns.add({"n2": "bool", "m": "date"}) == {"n2"}
    assert columns.columns == {"n": "int32", "N2": "bool", "m": "date"}
    why = {name: (text, str(conflict)) for name, (text, conflict) in columns.left_out.items()}
    assert why == {
        "n": ("bool", "column n: the table has int32, the day bool"),
        "who": ("struct<id: bool>", "column who.id: the table has long, the day x"),
        "n2": ("bool", "column n2: the table has a column N2, the day bool"),
    }


def test_without_reasons_or_numbers_of_events_no_column_stays() -> None:
    """A null would not say whether a value is missing or does not fit, nor which event a row is."""
    for conflict in ("_unfit", "event_index"):
        columns = _table(**{conflict: "long"})
        assert columns.add({"event_index": "int32", "m": "date"}) == {"event_index", "m"}
        assert (columns.columns, {*columns.left_out}) == ({"n": "int32"}, {"event_index", "m"})


def test_a_file_that_the_table_has_stays_as_it_is() -> None:
    """A person may rename a column at any time: values that are shown stay."""
    columns = DayColumns(lambda _: [Conflict("m", "it renamed to k", "date")], None, {"s3://out/part-1"})
    assert columns.add({"m": "date"}, "s3://out/part-1") == frozenset()
    assert (columns.columns, columns.left_out) == (None, {})
    assert columns.add({"m": "date"}, "s3://out/part-2") == {"m"}


def test_a_conflict_of_the_envelope_is_none_of_the_parts() -> None:
    """The commit is held by it, as a night's."""
    columns = DayColumns(lambda _: [Conflict("data", "long", "string")], None)
    assert (columns.add({"m": "date"}), columns.columns, columns.left_out) == (frozenset(), {"m": "date"}, {})
