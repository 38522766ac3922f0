"""The types of payload columns, and their syntax.

string  bool  int32  int64  float64  json          json: the value's JSON text
int64 from text                                    a number, or its text; int32 and float64, too
decimal(10,2)                                      a JSON number, or its text
date            date(days)                         2026-11-20; days since 1970
timestamp       timestamp(s|ms|us|ns)              2026-11-20T10:00:00Z, with a zone; a number since 1970, in UTC
timestamp(%d/%m/%Y %H:%M:%S)                       a strptime format, in UTC
timestamp in Europe/Berlin                         2026-11-20T10:00:00 there; also with a format
timestamp in Europe/Berlin earlier                 and the first, or the `later`, of two such hours in autumn
local_timestamp  and with the same                 2026-11-20T10:00:00, without a zone
list<int64>     struct<name: string, n: int64 not null>     map<string, int64>
"""

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from compaction.columns.zones import is_zone
from minutebook.errors import SettingsError

SIMPLE: Final = ("string", "bool", "int32", "int64", "float64", "json")
TIMES: Final = ("date", "timestamp", "local_timestamp")
UNITS: Final = {"date": ("days",)} | dict.fromkeys(("timestamp", "local_timestamp"), ("s", "ms", "us", "ns"))
DIRECTIVES: Final = "YymdejHMSIpbBhaAFDTRnt%"
"""Those of strptime that strftime writes back alike. The others are ignored (%f), or give another time (%z)."""
MAX_PRECISION: Final = 38
_MAX_DEPTH: Final = 20
_ARROW: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "json": pa.string(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "local_timestamp": pa.timestamp("us"),
}
_NAME: Final = re.compile(r"[^\W\d]\w{0,127}")
_TOKEN: Final = re.compile(r"\s*(?:([^\W\d]\w*)|([<>,:]))")
_ARGUMENT: Final = re.compile(r"\s*\(([^()]*)\)")
_FROM_TEXT: Final = re.compile(r"\s+from\s+text\b")
_MOST_DIGITS: Final = 20
"""Of the two numbers of a decimal, which have two each: Python reads no number of thousands."""
_ZONE: Final = re.compile(r"\s+in\s+([A-Za-z0-9_+/-]+)(?:\s+(earlier|later)\b)?")
_NUMBERS: Final = frozenset({"int32", "int64", "float64"})


class ColumnType(NamedTuple):
    """A type. `how` is a unit of numbers or a strptime format (empty: ISO 8601).

    `zone` is that of local times, `fold` which of two equal ones they are (empty: neither fits). `is_from_text`:
    numbers may be written as text.
    """

    name: str
    precision: int = 0
    scale: int = 0
    how: str = ""
    fields: tuple["Field", ...] = ()
    zone: str = ""
    fold: str = ""
    is_from_text: bool = False

    @property
    def text(self) -> str:
        """The type in its syntax."""
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name in {"list", "map"}:
            begin = "list<" if self.name == "list" else "map<string, "
            return f"{begin}{self.fields[0].type.text}{_not_null(self.fields[0])}>"
        if self.name == "struct":
            return (
                f"struct<{', '.join(f'{field.name}: {field.type.text}{_not_null(field)}' for field in self.fields)}>"
            )
        text = f"{self.name}({self.how})" if self.how else self.name
        if self.zone:
            text += f" in {self.zone}" + (f" {self.fold}" if self.fold else "")
        return f"{text} from text" if self.is_from_text else text

    @property
    def arrow(self) -> pa.DataType:
        """The type of the Parquet column. Everything is nullable, because values that do not fit are null."""
        if self.name == "decimal":
            return pa.decimal128(self.precision, self.scale)
        if self.name == "list":
            return pa.list_(pa.field("element", self.fields[0].type.arrow))
        if self.name == "map":
            return pa.map_(pa.string(), self.fields[0].type.arrow)
        if self.name == "struct":
            return pa.struct([pa.field(field.name, field.type.arrow) for field in self.fields])
        return _ARROW[self.name]

    def leaves(self, path: str) -> Iterator[tuple[str, "ColumnType"]]:
        """Yield the paths of the Parquet leaf columns below `path`, with their types."""
        if self.name == "list":
            yield from self.fields[0].type.leaves(f"{path}.list.element")
        elif self.name == "map":
            yield f"{path}.key_value.key", _KEY
            yield from self.fields[0].type.leaves(f"{path}.key_value.value")
        elif self.name == "struct":
            for field in self.fields:
                yield from field.type.leaves(f"{path}.{field.name}")
        else:
            yield path, self


_KEY: Final = ColumnType("string")


class Field(NamedTuple):
    """A field of a struct, the element of a list, or the value of a map's key, which is a text.

    A `required` value must be present and not null.
    """

    name: str
    type: ColumnType
    required: bool = False


def is_name(text: str) -> bool:
    """Return whether SQL engines accept a text as an unquoted column name."""
    return _NAME.fullmatch(text) is not None


def may_be_fields(names: Collection[str]) -> bool:
    """Return whether a struct may have fields of these names: one at least, and engines do not tell A from a."""
    return bool(names) and len({*map(str.lower, names)}) == len(names) and all(map(is_name, names))


def parse_type(text: str) -> ColumnType:
    """Parse a type; raise SettingsError if it is invalid."""
    parser = _Parser(text)
    kind = parser.type(0)
    parser.end()
    return kind


def _not_null(field: Field) -> str:
    return " not null" if field.required else ""


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self, depth: int) -> ColumnType:
        if depth > _MAX_DEPTH:
            raise self._error(f"nested deeper than {_MAX_DEPTH}")
        name = self._word("a type")
        if name in SIMPLE:
            return ColumnType(name, is_from_text=name in _NUMBERS and self._match(_FROM_TEXT) is not None)
        if name == "decimal":
            return self._decimal()
        if name in TIMES:
            return self._time(name)
        if name in {"list", "struct", "map"}:
            self._symbol("<")
            if name == "map":
                self._key()
            single = "value" if name == "map" else "element"
            fields = self._fields(depth + 1) if name == "struct" else (self._field(single, depth + 1),)
            self._symbol(">")
            return ColumnType(name, fields=fields)
        raise self._error(f"{name!r} is not a type")

    def end(self) -> None:
        if self._text[self._at :].strip():
            raise self._error(f"{self._text[self._at :].strip()!r} is too much")

    def _key(self) -> None:
        if self._word("the type of a map's keys") != _KEY.name:
            raise self._error("the keys of a map are texts, as in map<string, int64>")
        self._symbol(",")

    def _decimal(self) -> ColumnType:
        precision, _, scale = (self._argument() or "").partition(",")
        if not precision.strip().isdecimal() or not (scale.strip() or "0").isdecimal():
            raise self._error("decimal takes digits, and those behind the point, as in decimal(10,2)")
        if len(precision) + len(scale) > _MOST_DIGITS:
            raise self._error("decimal takes two short numbers")
        digits, behind = int(precision), int(scale or "0")
        if not 1 <= digits <= MAX_PRECISION or behind > digits:
            raise self._error(f"a decimal has 1 to {MAX_PRECISION} digits, and at most all of them behind the point")
        return ColumnType("decimal", digits, behind)

    def _time(self, name: str) -> ColumnType:
        how = (self._argument() or "").strip()
        if how and "%" not in how and how not in UNITS[name]:
            raise self._error(f"{name} takes {', '.join(UNITS[name])}, or a format such as %d/%m/%Y")
        if "%" in how:
            self._check_format(how)
        zone = self._match(_ZONE) if name == "timestamp" and how not in UNITS[name] else None
        if zone is None:
            return ColumnType(name, how=how)
        if not is_zone(zone[1]):
            raise self._error(f"{zone[1]!r} is not a time zone of this machine, such as Europe/Berlin")
        return ColumnType(name, how=how, zone=zone[1], fold=zone[2] or "")

    def _check_format(self, how: str) -> None:
        """Refuse a format that would misread times, or guess parts of a day."""
        used = {text[:1] for text in how.replace("%%", "").split("%")[1:]}
        if wrong := sorted(used - {*DIRECTIVES}):
            raise self._error(f"%{wrong[0]} is not read; formats take %{' %'.join(DIRECTIVES)}")
        has_day = used & {*"FD"} or (used & {*"Yy"} and ("j" in used or (used & {*"mbBh"} and used & {*"de"})))
        if not has_day:
            raise self._error("a format needs year, month and day")
        if "I" in used and "p" not in used:
            raise self._error("%I without %p does not tell morning from evening")

    def _fields(self, depth: int) -> tuple[Field, ...]:
        fields: list[Field] = []
        while True:
            name = self._word("a field's name")
            if any(field.name.lower() == name.lower() for field in fields):
                raise self._error(f"{name!r} is there twice")
            self._symbol(":")
            fields.append(self._field(name, depth))
            if self._text[self._at :].lstrip()[:1] != ",":
                return tuple(fields)
            self._symbol(",")

    def _field(self, name: str, depth: int) -> Field:
        kind = self.type(depth)
        required = self._text[self._at :].lstrip()[:8] == "not null"
        if required:
            self._at = self._text.index("not null", self._at) + 8
        return Field(name, kind, required)

    def _argument(self) -> str | None:
        match = self._match(_ARGUMENT)
        return None if match is None else match[1]

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Pass what a pattern takes, if it takes anything here."""
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _word(self, what: str) -> str:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match[1] is None:
            raise self._error(f"{what} is missing at {self._text[self._at :].strip()[:20]!r}")
        self._at = match.end()
        return match[1]

    def _symbol(self, symbol: str) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match[2] != symbol:
            raise self._error(f"{symbol!r} is missing at {self._text[self._at :].strip()[:20]!r}")
        self._at = match.end()

    def _error(self, why: str) -> SettingsError:
        return SettingsError(f"type {self._text[:80]!r}: {why}", next_step="minutebook docs columns shows the types")
