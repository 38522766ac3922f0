"""`minutebook ddl --latest-by`: a view with the latest row of each key, for tables of changes. Pure.

    row of a key        key columns that are all there: a payload whose key does not fit belongs to no key
    the latest          by the columns of --ordered-by, nulls first and so never before a value; then by position
    left out            where the latest row is a delete: op = 'd' (Debezium), eventName = 'REMOVE' (DynamoDB)

A sequence number has up to 56 digits, more than any integer of an engine: it is ordered by its length, then as text.
The text is plain SQL for Athena, Trino, DuckDB and Spark: a subquery, because not all know QUALIFY, and names
without quotes, because they do not agree on these. The table, the subquery and the rank have names that no column
has: `orders.id` is a column `id` of a table `orders` before it is a field of a struct.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from compaction.columns.columns import EVENT_INDEX
from minutebook.errors import SettingsError

_POSITION: Final = ("length(sequence_number)", "sequence_number", "sub_sequence_number")
_DELETES: Final = {"op": "d", "eventname": "REMOVE"}
"""The columns that mark a delete, in small letters, and the mark: in a column of type json with its quotes."""
_CREATED: Final = ("ApproximateCreationDateTime", "dynamodb.ApproximateCreationDateTime")
_RESERVED: Final = frozenset(
    """
    all alter analyse analyze and anti any array as asc asof asymmetric at authorization between binary
    both by case cast check collate collation column concurrently constraint create cross cube
    current_catalog current_date current_path current_role current_schema current_time current_timestamp
    current_user deallocate default deferrable delete desc describe distinct do drop else end escape
    except execute exists extract false fetch for foreign freeze from full glob group grouping having
    ilike in initially inner insert intersect into is isnull join lambda lateral leading left like limit
    listagg localtime localtimestamp natural normalize not notnull null offset on only or order outer
    overlaps pivot pivot_longer pivot_wider placing positional prepare primary qualify recursive
    references returning right rollup select semi show similar skip some summarize symmetric table
    tablesample then to trailing trim true uescape union unique unnest unpack unpivot using values
    variadic verbose when where window with
    """.split()  # noqa: SIM905 - a list of texts would take a page
)
"""What Athena, Trino or DuckDB take for no name."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def latest_view(
    name: str, paths: Sequence[str], latest_by: str, ordered_by: str | None, *, texts: Collection[str]
) -> str:
    """Return the DDL of a view beside a table; raise SettingsError for a column that the table does not have.

    `paths` are the table's columns and the fields within its structs, as in `dynamodb.Keys.id`; `latest_by` and
    `ordered_by` are such paths with commas between. `texts` are the columns of texts: a mark of another type is none.
    """
    known = {path.lower(): path for path in paths}
    keys = _named("--latest-by", latest_by, known)
    notes, order = list[str](), list[str]()
    if ordered_by is not None:
        order = _named("--ordered-by", ordered_by, known)
    elif "eventname" in known:
        created = next((known[path.lower()] for path in _CREATED if path.lower() in known), None)
        order = [] if created is None else [created]
        notes += [] if order else ["-- records of DynamoDB may come out of order: name their time with --ordered-by"]
    marks = [(_quoted(known[mark]), value) for mark, value in _DELETES.items() if known.get(mark) in texts]
    deletes = [f"""{column} IN ('{value}', '"{value}"')""" for column, value in marks]
    notes += [] if deletes else ["-- no column op or eventName of texts: rows of deleted keys stay"]
    notes.append(
        f"-- rows without a whole key are left out: where {' or '.join(f'{_quoted(k)} is null' for k in keys)}"
    )
    names = [_quoted(path) for path in paths if "." not in path]
    if any('"' in part for part in (*names, *map(_quoted, (name, *keys, *order)))):
        notes.append('-- write quoted names between ` ` in Spark, which takes "..." for a text')
    indexes = [EVENT_INDEX] if EVENT_INDEX in known else []
    ranked = [f"{each} DESC NULLS LAST" for each in (*map(_quoted, order), *_POSITION, *indexes)]
    stays = "".join(f"\n  AND NOT coalesce({delete}, false)" for delete in deletes)
    rank, source, ranks = (_unused(word, known) for word in ("latest_rank", "source", "ranked"))
    return "\n".join(
        [
            *notes,
            f"CREATE OR REPLACE VIEW {_quoted(f'{name}_latest')} AS",
            f"SELECT {', '.join(names)}",
            "FROM (",
            f"  SELECT *, row_number() OVER (PARTITION BY {', '.join(map(_quoted, keys))}",
            f"    ORDER BY {', '.join(ranked)}) AS {rank}",
            f"  FROM {_quoted(name)} AS {source}",
            f"  WHERE {' AND '.join(f'{_quoted(key)} IS NOT NULL' for key in keys)}",
            f") AS {ranks}",
            f"WHERE {rank} = 1{stays};\n",
        ]
    )


def _named(option: str, text: str, known: Mapping[str, str]) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name.lower() not in known]:
        raise SettingsError(
            f"{option}: the published days have no column {unknown[0]!r}",
            next_step="name typed columns, as in --latest-by id; a column may take its value from either side of a "
            'change: path = "after.id || before.id"',
        )
    return [known[name.lower()] for name in names]


def _unused(word: str, known: Collection[str]) -> str:
    """Return a name that no column has."""
    while word in known:
        word += "_"
    return word


def _quoted(path: str) -> str:
    """Return a name or path, with quotes where it could not stand without."""
    return ".".join(
        part if _PLAIN.fullmatch(part) and part.lower() not in _RESERVED else f'"{part}"' for part in path.split(".")
    )
