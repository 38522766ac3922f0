"""The columns of a payload: names, paths and types, and what must hold of them before a night begins."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

import jmespath
import pyarrow as pa

from compaction.columns.types import ColumnType, is_name
from minutebook.errors import SettingsError

EVENT_TIME: Final = "event_time"
"""The column of `--event-time`, the last one before `_unfit`."""
UNFIT: Final = "_unfit"
"""The column that says why a payload does not fit; null where it does."""
RULES: Final = "typed-3"
"""What a generation's name says of how payloads are read: other rules, other rows.

2: numbers in paths are exact, and what is no number of JSON fits no column. 3: -0.0 keeps its sign beside nulls, too.
"""
MAX_COLUMNS: Final = 1000
_PARTITION: Final = "dt"


class Column(NamedTuple):
    """A column: the JMESPath of its value in the payload. `required`: it must be there, and not null."""

    name: str
    path: str
    type: ColumnType
    required: bool = False


class EventTime(NamedTuple):
    """The last column is the time of an event, which lies at most so many days before its arrival."""

    window_days: int


class Columns(NamedTuple):
    """The columns of a file, in its order. `event`: the last one is `event_time`, and was not in the file."""

    columns: tuple[Column, ...]
    event: EventTime | None = None

    @property
    def digest(self) -> str:
        """Return the hash of what the file means: blanks and comments make no new generation."""
        parts = [RULES, *(f"{each.name}\t{each.path}\t{each.type.text}\t{each.required}" for each in self.columns)]
        if self.event is not None:
            parts.append(f"event time within {self.event.window_days} days")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def types(self) -> dict[str, str]:
        """Return the types as they are written, by the column's name."""
        return {each.name: each.type.text for each in self.columns}

    @property
    def fields(self) -> list[pa.Field]:
        """Return the Parquet columns, `_unfit` last."""
        found = [pa.field(each.name, each.type.arrow) for each in self.columns]
        return [*found, pa.field(UNFIT, pa.string())]

    @property
    def leaves(self) -> list[tuple[str, ColumnType]]:
        """Return the paths of the Parquet columns that hold values."""
        return [leaf for each in self.columns for leaf in each.type.leaves(each.name)]


def checked(columns: Sequence[Column], envelope: Sequence[str], source: str) -> Columns:
    """Return columns that can lie beside the envelope's.

    Raises:
        SettingsError: none, too many, a name that is taken, twice there or awkward, or a path that does not compile;
            all of them at once.
    """
    errors = [] if columns else ["it names no column"]
    if len(columns) > MAX_COLUMNS:
        errors.append(f"{len(columns)} columns; at most {MAX_COLUMNS} are written")
    taken = {name.lower(): "is a column of the envelope" for name in (*envelope, UNFIT)}
    taken[_PARTITION] = "is the name of the days' folders"
    for each in columns:
        if not is_name(each.name):
            errors.append(
                f"column {each.name[:80]!r}: a name is letters, digits and _, and begins with a letter or _"
            )
        elif each.name.lower() in taken:
            errors.append(f"column {each.name!r}: the name {taken[each.name.lower()]}")
        taken[each.name.lower()] = "is there twice (engines do not tell A from a)"
        if (why := _wrong_path(each.path)) is not None:
            errors.append(f"column {each.name!r}: {why}")
    if errors:
        raise SettingsError(
            "\n  - ".join([f"{source}: {len(errors)} error(s) in the columns", *errors]),
            next_step='give a column another name in a mapping: [columns.data_2] path = "data", type = "string"',
        )
    return Columns(tuple(columns))


def quoted(name: str) -> str:
    """Return a name as a JMESPath."""
    return json.dumps(name)


def _wrong_path(path: str) -> str | None:
    try:
        jmespath.compile(path)
    except jmespath.exceptions.JMESPathError as exc:
        return f"{path!r} is not a JMESPath expression: {' '.join(str(exc).split())}"
    except RecursionError:
        return "its path is too deeply nested"
    return None
