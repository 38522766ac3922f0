"""The view of the latest rows, run by DuckDB, is what replaying the changes into a dict gives."""

from collections.abc import Callable, Sequence
from typing import Final

import duckdb
import pyarrow as pa
import pytest

from compaction.commands.ddl import columns_of, paths_of
from compaction.commands.latest import latest_view
from minutebook.errors import SettingsError
from tests.corpus.changes import Change, History, by_position, of_debezium, of_dynamodb

_POSITION: Final = ("sequence_number", "sub_sequence_number")


def view(paths: Sequence[str], latest_by: str, ordered_by: str | None = None) -> str:
    """Return the view of a table t."""
    return latest_view("t", paths, latest_by, ordered_by, texts=paths)


def run(changes: pa.Table, latest_by: str, ordered_by: str | None = None) -> list[Change]:
    """Return the rows of the view in DuckDB."""
    with duckdb.connect() as session:
        session.register("given", changes)
        session.execute("CREATE TABLE t AS SELECT * FROM given")
        session.execute(view([*paths_of(columns_of(changes.schema))], latest_by, ordered_by))
        return session.sql("SELECT * FROM t_latest").to_arrow_table().to_pylist()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("history_of", [of_debezium, of_dynamodb])
def test_the_view_is_what_a_replay_gives(history_of: Callable[[int], History], seed: int) -> None:
    """Composite keys and re-creations by position; records out of order by their time, several in a millisecond."""
    history = history_of(seed)
    assert by_position(run(history.changes, history.latest_by)) == by_position(history.rows)
    assert history.rows


def test_the_order_that_is_given_comes_before_the_position() -> None:
    """Nulls are never later than a value."""
    schema = pa.schema(
        [("sequence_number", pa.string()), ("sub_sequence_number", pa.int64()), ("id", pa.int64()), ("v", pa.int64())]
    )
    changes = [
        {"sequence_number": str(number), "sub_sequence_number": 0, "id": number % 2, "v": version}
        for number, version in enumerate([5, 7, 4, 7, None, None, 5, 6])
    ]
    rows = run(pa.Table.from_pylist(changes, schema=schema), "id", "v")
    assert sorted((row["id"], row["sequence_number"]) for row in rows) == [(0, "6"), (1, "3")]


def test_a_mark_that_is_no_text_is_none() -> None:
    """An engine would compare a number with 'd', and fail."""
    paths = ["id", "op", "sequence_number", "sub_sequence_number"]
    text = latest_view("t", paths, "id", None, texts={"sequence_number"})
    assert text.startswith("-- no column op or eventName of texts")
    with duckdb.connect() as session:
        session.execute("CREATE TABLE t AS SELECT 1 AS id, 4 AS op, '5' AS sequence_number, 0 AS sub_sequence_number")
        session.execute(text)
        assert session.sql("SELECT id FROM t_latest").fetchall() == [(1,)]


def test_a_name_that_is_no_plain_word_is_quoted() -> None:
    """The table's DDL takes it, too."""
    text = latest_view("my-db.raw-events", ["id", "sequence_number", "sub_sequence_number"], "id", None, texts=())
    assert 'VIEW "my-db"."raw-events_latest" AS' in text
    with duckdb.connect() as session:
        session.execute('CREATE SCHEMA "my-db"')
        session.execute(
            'CREATE TABLE "my-db"."raw-events" AS SELECT 1 AS id, \'5\' AS sequence_number, 0 AS sub_sequence_number'
        )
        session.execute(text)
        assert session.sql('SELECT id FROM "my-db"."raw-events_latest"').fetchall() == [(1,)]
    assert "in Spark" in text


def test_what_the_view_cannot_know_stands_above_it() -> None:
    """Deletes without a mark, an order that DynamoDB does not keep, rows without a key, quotes in Spark."""
    text = view(["id", "sequence_number", "select"], "id")
    assert text.splitlines()[:4] == [
        "-- no column op or eventName of texts: rows of deleted keys stay",
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


def test_no_name_of_the_view_hides_a_column() -> None:
    """A struct like the table with a field like a column; columns like the names that the view makes up."""
    schema = pa.schema(
        [
            ("sequence_number", pa.string()),
            ("sub_sequence_number", pa.int64()),
            *((name, pa.string()) for name in ("id", "op", "latest_rank", "source", "ranked")),
            ("t", pa.struct([("id", pa.string())])),
        ]
    )
    changes = [
        {"sequence_number": str(number), "id": f"e{number}", "op": op, "latest_rank": "1", "t": {"id": "A"}}
        for number, op in enumerate("cud")
    ]
    assert run(pa.Table.from_pylist(changes, schema=schema), "t.id") == []
    assert [row["sequence_number"] for row in run(pa.Table.from_pylist(changes[:2], schema=schema), "t.id")] == ["1"]


def test_a_mark_with_its_quotes_is_a_delete() -> None:
    """A column of type json, as a schema of JSON gives for an enumeration."""
    changes = [{"sequence_number": str(number), "id": 1, "op": op} for number, op in enumerate(['"c"', '"d"'])]
    assert run(pa.Table.from_pylist([{**each, "sub_sequence_number": 0} for each in changes]), "id") == []


def test_each_word_of_duckdb_may_be_a_column() -> None:
    """Also `at` and `binary`, which it takes for names elsewhere."""
    with duckdb.connect() as session:
        for (word,) in session.sql("SELECT keyword_name FROM duckdb_keywords()").fetchall():
            session.execute(
                f"CREATE OR REPLACE TABLE t AS SELECT 1 AS \"{word}\", 2 AS k, '5' AS sequence_number, "
                "0 AS sub_sequence_number"
            )
            session.execute(latest_view("t", [word, "k", *_POSITION], word, "k", texts=()))
            assert session.sql("SELECT * FROM t_latest").fetchall() == [(1, 2, "5", 0)], word
