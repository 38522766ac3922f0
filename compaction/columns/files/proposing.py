"""Propose columns for a sample of payloads. Pure.

A type is proposed if every value of the sample fits it, by the check that a run uses (`arrays.build`). Values that
fit nothing (NaN, 1e400, a key that is there twice) are set aside, not their payloads. No column is proposed as
required: a sample cannot show that a field is never missing. What is left out is named.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from compaction.columns.arrays import EPOCH_UNITS, build, fits, is_integer
from compaction.columns.columns import MAX_COLUMNS, Column, quoted
from compaction.columns.misfits import Ambiguous, NotANumber
from compaction.columns.steps import Steps, multiply, written
from compaction.columns.types import ColumnType, Field, is_name

_TEXTS: Final = ("date", "timestamp", "local_timestamp", "string")
_OTHERS: Final = {bool: ("bool",), int: ("int64", "float64"), float: ("float64",), str: _TEXTS}
_JSON: Final = ColumnType("json")
_MOST_FIELDS: Final = 100
_MAX_DEPTH: Final = 5
_LARGE: Final = 100
"""In a sample of so many a key that occurs once is no column: it is an id, or too rare to be seen again."""
_WARNING: Final = "Read it: a sample does not know what comes tomorrow."
_NAMED: Final = 5
_TRIED: Final = 100
_CLOCK: Final = re.compile(
    r"(^|_)(ts|time|timestamp|date|at|on|epoch|when|since|until|created|updated|modified|expires?|started|ended|ms|"
    r"us|ns|millis|micros|nanos|seconds?|milliseconds?|microseconds?|nanoseconds?)(_|$)"
)
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|\W+")
_CLOCK_SECONDS: Final = (978_307_200, 4_102_444_800)
"""2001 to 2100: numbers of that range, under a key that sounds like a time, are taken for one."""


class ProposedColumn(NamedTuple):
    """A column, the number of values that the sample holds of it, and what a reader should know."""

    column: Column
    values: int
    notes: tuple[str, ...]


class Proposal(NamedTuple):
    """Columns for the `rows` objects of a sample of `payloads`, decoded by steps. `notes` say what was left out."""

    rows: int
    payloads: int
    proposed: tuple[ProposedColumn, ...]
    notes: tuple[str, ...] = ()
    decode: Steps = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns alone."""
        return tuple(each.column for each in self.proposed)

    def toml(self) -> str:
        """Return the columns as a TOML file."""
        lines = [
            f"# Proposed from {self.rows:,} of {self.payloads:,} {events_or_payloads(self.decode)}. {_WARNING}",
            *(f"# {_line(note)}" for note in self.notes),
            *([written(self.decode).rstrip()] if self.decode else []),
        ]
        for column, values, notes in self.proposed:
            name = column.name if column.name.isascii() else json.dumps(column.name, ensure_ascii=False)
            lines += ["", *(f"# {_line(note)}" for note in notes)]
            lines.append(f"[columns.{name}]  # in {values:,} of {self.rows:,}")
            if column.path != quoted(column.name):
                lines.append(f"path = {_text(column.path)}")
            lines.append(f"type = {_text(column.type.text)}")
        return "\n".join(lines) + "\n"


def events_or_payloads(steps: Steps) -> str:
    """Return the word for what becomes rows."""
    return "events" if multiply(steps) else "payloads"


def propose(documents: Sequence[Mapping[str, Any]], envelope: Sequence[str], payloads: int | None = None) -> Proposal:
    """Return columns for the keys of objects; names of the envelope get the prefix `payload_`.

    `payloads`: how many there are, with those that hold no object.
    """
    counts = Counter(key for document in documents for key in document)
    keys, once, notes = _kept(counts, len(documents))
    notes += [] if len(keys) <= MAX_COLUMNS else [_left_out(keys[MAX_COLUMNS:], len(counts))]
    taken = {name.lower() for name in (*envelope, "dt", "_unfit")}
    proposed = []
    for key in keys[:MAX_COLUMNS]:
        found = [value for document in documents if (value := document.get(key)) is not None]
        look = _Look()
        values = look.usable(found, "")
        if found and not values:
            notes.append(f"{quoted(key)} is no column: {look.set_aside()}")
            continue
        name = next(name for name in _names(key) if name.lower() not in taken)
        taken.add(name.lower())
        kind = look.type(values, key, "", 1)
        proposed.append(ProposedColumn(Column(name, quoted(key), kind), len(found), look.told()))
    if once and not proposed:
        name = next(name for name in ("payload", *_names("payload")) if name.lower() not in taken)
        proposed.append(ProposedColumn(Column(name, "@", _JSON), len(documents), ("the payload as a whole",)))
    return Proposal(len(documents), len(documents) if payloads is None else payloads, tuple(proposed), tuple(notes))


def _kept(counts: Counter[str], objects: int) -> tuple[list[str], list[str], list[str]]:
    """Return the keys that may be columns or fields, those that occur once in a large sample, and a note of these."""
    once = [key for key, count in counts.items() if count == 1] if objects >= _LARGE else []
    if not once:
        return list(counts), [], []
    note = f"{len(once):,} of {len(counts):,} keys occur once, and are no columns: {_first(once)}"
    return [key for key in counts if counts[key] > 1], once, [note]


def _left_out(keys: Sequence[str], of: int) -> str:
    return f"{len(keys):,} of {of:,} keys are left out, because {MAX_COLUMNS:,} columns are the most: {_first(keys)}"


def _first(keys: Sequence[str]) -> str:
    return ", ".join(map(quoted, keys[:_NAMED])) + (", ..." if len(keys) > _NAMED else "")


def _names(key: str) -> Iterator[str]:
    plain = re.sub(r"\W", "_", key)[:100]
    name = plain if is_name(plain) else f"c_{plain}"
    yield name
    yield f"payload_{name}"
    for number in range(2, 2 + MAX_COLUMNS):
        yield f"{name}_{number}"


class _Look:
    """A look at the values of one key, and what is worth a note."""

    def __init__(self) -> None:
        self._aside: Counter[tuple[str, str]] = Counter()
        self._notes: list[str] = []
        self._doubles: set[str] = set()

    def usable(self, values: Sequence[Any], path: str) -> list[Any]:
        """Return the values that fit some type, as Python's int and float; count the others."""
        usable = []
        for value in values:
            number = _plain(value)
            if isinstance(number, Ambiguous):
                self._aside[path, "the key is there several times"] += 1
            elif isinstance(number, NotANumber):
                self._aside[path, f"{number.text[:20]} fits no type"] += 1
                self._doubles.add(path)
            else:
                usable.append(number)
        return usable

    def set_aside(self) -> str:
        """Return what was set aside, in words."""
        return "; ".join(
            f"{count:,} value(s){f' of {path}' if path else ''} set aside: {why}"
            for (path, why), count in self._aside.items()
        )

    def told(self) -> tuple[str, ...]:
        """Return the notes."""
        return (*([self.set_aside()] if self._aside else ()), *self._notes)

    def type(self, values: Sequence[Any], key: str, path: str, depth: int) -> ColumnType:
        """Return the type that all values fit; `path` is that of the value below the key, empty for its own."""
        types = set(map(type, values))
        if types == {dict} and depth < _MAX_DEPTH:
            return self._struct(values, path, depth)
        if types == {list} and depth < _MAX_DEPTH:
            inner = [element for value in values for element in value if element is not None]
            element = self.type(self.usable(inner, f"{path}[]"), key, f"{path}[]", depth + 1)
            return ColumnType("list", fields=(Field("element", element),))
        if (unit := _epoch(values, key)) is not None:
            kind = ColumnType("timestamp", how=unit)
            shown = build(kind, values[:1])[0].as_py().isoformat()
            self._notes.append(f"{path or 'it'} looks like a time since 1970 ({values[0]} is {shown}): or a number?")
            return kind
        names = _OTHERS[types.pop()] if len(types) == 1 and types <= _OTHERS.keys() else ()
        if types == {int, float} or (path in self._doubles and names and names[-1] == "float64"):
            names = ("float64",)
        for name in names:
            if fits(ColumnType(name), values):
                if name == "string" and _holds_json(values):
                    self._notes.append(f"{path or 'it'} holds JSON within a text")
                return ColumnType(name)
        return _JSON

    def _struct(self, values: Sequence[Mapping[str, Any]], path: str, depth: int) -> ColumnType:
        counts = Counter(key for value in values for key in value)
        keys, once, _ = _kept(counts, len(values))
        is_plain = (
            0 < len(keys) <= _MOST_FIELDS and all(map(is_name, keys)) and len({*map(str.lower, keys)}) == len(keys)
        )
        if not is_plain or len(once) > len(keys):
            return _JSON
        if once:
            self._notes.append(f"{len(once):,} of {len(counts):,} keys occur once, and are no fields: {_first(once)}")
        fields = []
        for key in keys:
            inner = [each for value in values if (each := value.get(key)) is not None]
            at = f"{path}.{key}"
            fields.append(Field(key, self.type(self.usable(inner, at), key, at, depth + 1)))
        return ColumnType("struct", fields=tuple(fields))


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a number as int or float, NotANumber if it is neither."""
    if type(value) is not Decimal:
        return value
    if is_integer(value):
        return int(value)
    number = float(value)
    return NotANumber(str(value)) if number in {float("inf"), float("-inf")} else number


def _epoch(values: Sequence[Any], key: str) -> str | None:
    """Return the unit of numbers that look like times since 1970 under a key that sounds like one."""
    if not values or not {*map(type, values)} <= {int, float} or not any(values):
        return None
    if _CLOCK.search(_WORD.sub("_", key).lower()) is None:
        return None
    low, high = min(filter(None, values)), max(values)
    for name, unit in EPOCH_UNITS.items():
        scale = 1_000_000 * unit.parts // unit.us
        if _CLOCK_SECONDS[0] * scale <= low and high < _CLOCK_SECONDS[1] * scale:
            return name
    return None


def _holds_json(texts: Sequence[str]) -> bool:
    """Return whether texts are objects or lists of JSON."""
    if not texts or not all(text.lstrip()[:1] in {"{", "["} for text in texts[:_TRIED]):
        return False
    try:
        return all(type(msgspec.json.decode(text)) in {dict, list} for text in texts[:_TRIED])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False


def _line(note: str) -> str:
    """Return a note as a comment: on one line, whatever a producer wrote."""
    return note.encode(errors="backslashreplace").decode().translate(_UNPRINTED)


_UNPRINTED: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


def _text(value: str) -> str:
    """Return a TOML string, as a literal if that avoids escapes."""
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
