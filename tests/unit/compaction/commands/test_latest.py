"""The view of the latest rows, run by DuckDB, is what replaying the changes into a dict gives."""

import random
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from compaction.commands.ddl import CatalogColumn, paths_of
from compaction.commands.latest import latest_view
from minutebook.errors import SettingsError

POSITION = ["sequence_number", "sub_sequence_number", "event_index"]
Change = dict[str, Any]


def view(paths: Sequence[str], latest_by: str, ordered_by: str | None = None) -> str:
    """Return the view of a table t."""
    return latest_view("t", paths, latest_by, ordered_by)


def run(changes: Sequence[Change], schema: pa.Schema, latest_by: str, ordered_by: str | None = None) -> list[Change]:
    """Return the rows of the view in DuckDB."""
    t = pa.Table.from_pylist([*changes], schema=schema)
    with duckdb.connect() as session:
        session.register("given", t)
        session.execute("CREATE TABLE t AS SELECT * FROM given")
        columns = [CatalogColumn(field.name, _kind(field.type)) for field in schema]
        session.execute(view([*paths_of(columns)], latest_by, ordered_by))
        return session.sql("SELECT * FROM t_latest").to_arrow_table().to_pylist()


def _kind(kind: pa.DataType) -> str:
    if not pa.types.is_struct(kind):
        return "string"
    return "struct<" + ",".join(f"{field.name}:{_kind(field.type)}" for field in kind) + ">"


def position(change: Change) -> tuple[int, int, int]:
    """Return where a change lies in its shard, as numbers."""
    return int(change["sequence_number"]), change["sub_sequence_number"], change["event_index"] or 0


def replayed(
    changes: Sequence[Change], key: Sequence[str], order: Sequence[str], delete: tuple[str, str]
) -> list[Change]:
    """Replay changes into a dict: the straightforward way."""
    rows: dict[tuple[Any, ...], Change] = {}

    def moment(change: Change) -> tuple[Any, ...]:
        times = [value(change, each) for each in order]
        return (*((time is not None, time if time is not None else 0) for time in times), position(change))

    for change in sorted(changes, key=moment):
        at = tuple(value(change, each) for each in key)
        if None not in at:
            rows[at] = change
    return [row for row in rows.values() if value(row, delete[0]) != delete[1]]


def value(change: Change, path: str) -> Any:  # noqa: ANN401 - any column
    """Return the value at a path of names."""
    found: Any = change
    for name in path.split("."):
        found = None if found is None else found[name]
    return found


def numbered(rng: random.Random, count: int) -> list[Change]:
    """Return positions: sequence numbers of several lengths, records of an aggregate, events of a record."""
    numbers = sorted(
        rng.sample([*range(90, 130), *(10**55 + at for at in range(40)), 10**56 - 1, 10**56], count // 4)
    )
    places = [(number, sub, index) for number in numbers for sub in (0, 1) for index in (None, 1)]
    places += [(10**57 + at, 0, None) for at in range(count - len(places))]
    return [dict(zip(POSITION, (str(number), sub, index), strict=True)) for number, sub, index in places]


def by_position(rows: Sequence[Change]) -> list[Change]:
    """Return rows in a fixed order."""
    return sorted(rows, key=position)


@pytest.mark.parametrize("seed", range(8))
def test_changes_of_debezium_by_position(seed: int) -> None:
    """Inserts, updates, deletes and re-creations of composite keys; keys, marks and values that do not fit."""
    rng = random.Random(seed)
    schema = pa.schema(
        [
            *((name, pa.string() if name == "sequence_number" else pa.int64()) for name in POSITION),
            *((name, pa.string()) for name in ("tenant", "order", "op", "price", "_unfit")),
        ]
    )
    changes = [
        {
            **place,
            "tenant": rng.choice(["a", "b", None]),
            "order": rng.choice(["1", "2", "3", None]),
            "op": rng.choice(["c", "u", "d", None]),
            "price": str(number),
            "_unfit": rng.choice([None, "price: wrong"]),
        }
        for number, place in enumerate(numbered(rng, 80))
    ]
    rng.shuffle(changes)
    expected = replayed(changes, ["tenant", "order"], [], ("op", "d"))
    assert by_position(run(changes, schema, "tenant, order")) == by_position(expected)
    assert expected


@pytest.mark.parametrize("seed", range(8))
def test_records_of_dynamodb_out_of_order(seed: int) -> None:
    """By their time, within structs; several within a millisecond, and times that do not fit, by position."""
    rng = random.Random(seed)
    images = pa.struct([("id", pa.string())])
    schema = pa.schema(
        [
            *((name, pa.string() if name == "sequence_number" else pa.int64()) for name in POSITION),
            ("eventName", pa.string()),
            ("dynamodb", pa.struct([("Keys", images), ("ApproximateCreationDateTime", pa.int64())])),
        ]
    )
    changes: list[Change] = [
        {
            **place,
            "eventName": rng.choice(["INSERT", "MODIFY", "REMOVE"]),
            "dynamodb": rng.choice(
                [
                    None,
                    {"Keys": None, "ApproximateCreationDateTime": 1},
                    *(
                        {
                            "Keys": {"id": rng.choice("abc")},
                            "ApproximateCreationDateTime": rng.choice([None, 1, 2, 3]),
                        }
                        for _ in range(6)
                    ),
                ]
            ),
        }
        for place in numbered(rng, 60)
    ]
    rng.shuffle(changes)
    order = ["dynamodb.ApproximateCreationDateTime"]
    expected = replayed(changes, ["dynamodb.Keys.id"], order, ("eventName", "REMOVE"))
    assert by_position(run(changes, schema, "dynamodb.keys.ID")) == by_position(expected)


def test_the_order_that_is_given_comes_before_the_position() -> None:
    """Nulls are never later than a value."""
    schema = pa.schema(
        [("sequence_number", pa.string()), ("sub_sequence_number", pa.int64()), ("id", pa.int64()), ("v", pa.int64())]
    )
    changes = [
        {"sequence_number": str(number), "sub_sequence_number": 0, "id": number % 2, "v": version}
        for number, version in enumerate([5, 7, 4, 7, None, None, 5, 6])
    ]
    rows = run(changes, schema, "id", "v")
    assert sorted((row["id"], row["sequence_number"]) for row in rows) == [(0, "6"), (1, "3")]


def test_what_the_view_cannot_know_stands_above_it() -> None:
    """Deletes without a mark, an order that DynamoDB does not keep, rows without a key, quotes in Spark."""
    text = view(["id", "sequence_number", "select"], "id")
    assert text.splitlines()[:4] == [
        "-- no column op or eventName: rows of deleted keys stay",
        "-- rows without a whole key are left out: where id is null",
        '-- write quoted names between ` ` in Spark, which takes "..." for a text',
        "CREATE OR REPLACE VIEW t_latest AS",
    ]
    assert "name their time with --ordered-by" in view(["id", "eventName"], "id")
    assert "event_index" not in text
    assert "sub_sequence_number DESC NULLS LAST, event_index DESC NULLS LAST)" in view(["id", "event_index"], "id")


@pytest.mark.parametrize(("latest_by", "ordered_by"), [("nothing", None), ("id,", None), ("id", "nothing")])
def test_a_column_that_is_not_there_is_refused(latest_by: str, ordered_by: str | None) -> None:
    """With the option that names it."""
    with pytest.raises(SettingsError, match="the published days have no column"):
        view(["id", "a.b"], latest_by, ordered_by)
