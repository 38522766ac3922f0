"""The typed columns of payloads (name, path, type), and the checks that they pass before a run starts."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

import jmespath
import pyarrow as pa

from compaction.columns.steps import Steps, canonical, multiply
from compaction.columns.types import ColumnType, is_name
from minutebook.errors import SettingsError
from minutebook.wording import ITEM

EVENT_TIME: Final = "event_time"
"""The column of `--event-time`, the last one before `_unfit`."""
EVENT_INDEX: Final = "event_index"
"""The first typed column where a record may hold several events: which of them a row is; null: it holds none."""
UNFIT: Final = "_unfit"
"""The column with the reason why a payload does not fit; null where it does."""
RULES: Final = "typed-5"
"""Part of a generation's name: change it when the same payloads give other rows.

2: numbers in paths are exact, and non-JSON numbers fit no column. 3: -0.0 keeps its sign beside nulls, too. 4: what
does not fit within a struct or list empties that leaf only; times of seven to nine digits, and epochs as fractions or
text, fit. 5: zeros behind a decimal's scale are no digits of it, a double may have an exponent, an object that fits
no column may hold values of others.
"""
EARLIER_RULES: Final = ("typed-4", "typed-3", "typed-2")
"""Days that were published by them stay: new rules alone rewrite nothing."""
MAX_COLUMNS: Final = 1000
_PARTITION: Final = "dt"


class Column(NamedTuple):
    """A column; `path` is the JMESPath of its value. A `required` value must be present and not null."""

    name: str
    path: str
    type: ColumnType
    required: bool = False


class EventTime(NamedTuple):
    """The last column is the event time, at most `window_days` before the arrival."""

    window_days: int


class Columns(NamedTuple):
    """The columns of a file, in its order. With `event` the last one is `event_time`, which is not in the file.

    `decode` are the steps that turn a payload into the JSON text that the columns are read from.
    `schemas` are the files that they were made of where these are no mappings, (name, content): they are kept with a
    published day, and change no row.
    """

    columns: tuple[Column, ...]
    event: EventTime | None = None
    rules: str = RULES
    schemas: tuple[tuple[str, str], ...] = ()
    decode: Steps = ()

    @property
    def earlier(self) -> "tuple[Columns, ...]":
        """The same columns by the rules of earlier versions."""
        return tuple(self._replace(rules=rules) for rules in EARLIER_RULES)

    @property
    def digest(self) -> str:
        """The hash of the columns, independent of blanks and comments in the file."""
        parts = [
            self.rules,
            *(f"{column.name}\t{column.path}\t{column.type.text}\t{column.required}" for column in self.columns),
        ]
        if self.event is not None:
            parts.append(f"event time within {self.event.window_days} days")
        if self.decode:
            parts.append(f"decode {canonical(self.decode)}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def multiplies(self) -> bool:
        """Whether a record may be several rows; then the first column is `event_index`."""
        return multiply(self.decode)

    def decoded_by(self, steps: Steps) -> "Columns":
        """Return the columns of payloads that steps decode."""
        index = [Column(EVENT_INDEX, quoted(EVENT_INDEX), ColumnType("int32"))] if multiply(steps) else []
        return self._replace(columns=(*index, *self.columns), decode=steps)

    @property
    def types(self) -> dict[str, str]:
        """The text of each column's type, by name."""
        return {column.name: column.type.text for column in self.columns}

    @property
    def fields(self) -> list[pa.Field]:
        """The Parquet columns, `_unfit` last."""
        return [*(pa.field(column.name, column.type.arrow) for column in self.columns), pa.field(UNFIT, pa.string())]

    @property
    def leaves(self) -> list[tuple[str, ColumnType]]:
        """The paths and types of the Parquet leaf columns."""
        return [leaf for column in self.columns for leaf in column.type.leaves(column.name)]


def checked(columns: Sequence[Column], envelope: Sequence[str], source: str) -> Columns:
    """Return columns that fit beside the envelope's; raise one SettingsError with all errors otherwise.

    Errors: no column, too many, a reserved, repeated or invalid name, a path that does not compile.
    """
    errors = [] if columns else ["it names no column"]
    if len(columns) > MAX_COLUMNS:
        errors.append(f"{len(columns)} columns; at most {MAX_COLUMNS} are written")
    taken = {name.lower(): "is a column of the envelope" for name in (*envelope, UNFIT)}
    taken[_PARTITION] = "is the name of the days' folders"
    for column in columns:
        if not is_name(column.name):
            errors.append(
                f"column {column.name[:80]!r}: a name is letters, digits and _, and begins with a letter or _"
            )
        elif column.name.lower() in taken:
            errors.append(f"column {column.name!r}: the name {taken[column.name.lower()]}")
        taken[column.name.lower()] = "is there twice (engines do not tell A from a)"
        if (why := _wrong_path(column.path)) is not None:
            errors.append(f"column {column.name!r}: {why}")
    if errors:
        raise SettingsError(
            ITEM.join([f"{source}: {len(errors)} error(s) in the columns", *errors]),
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
    except ValueError:  # Python reads no number of thousands of digits
        return "its path holds a number that is too long"
    return None
