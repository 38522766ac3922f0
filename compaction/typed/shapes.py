"""Payloads of one shape: all have the keys of the first one, as most streams' have.

A struct that requires these keys is decoded in half the time of a dict. Lists and long texts that no column asks for
are passed over: the decoder checks them, and keeps their bytes. A row that is decoded so has each key once at least,
so its text has as many places of keys (`places`) or more. Where there are just as many, no key is there twice, and
none besides.

Any other row is read as if there were no shape (`documents`): one that lacks a key or has another, that nests
otherwise, that is no JSON. A shape therefore never decides what a value is, only how soon it is found.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast

import msgspec

from compaction.typed.places import blanks_in, is_told_alike, places, places_again

MAX_KEYS: Final = 500
_MAX_LEVELS: Final = 10
_TOGETHER: Final = 64
"""Rows that are compared at once where one of a block is not like the others."""
_LONG_TEXT: Final = 64
"""Characters of a text that no column asks for, from which on it is not made: its bytes are passed over."""
_OPENINGS: Final = (b"{", b"[")
Names = tuple[str, ...]


class NoShapeError(ValueError):
    """Payloads like this one are read as dicts."""


class Shaped(NamedTuple):
    """A block of payloads: structs of the shape, and the numbers of those that have another, which are blank."""

    rows: list[Any]
    others: list[int]


class Shape:
    """The keys of a payload, and where the values of columns lie in the structs of it.

    `columns` are the paths of the columns, as names.
    """

    def __init__(
        self, payload: dict[str, Any], columns: Sequence[Names], float_hook: Callable[[str], Any] | None
    ) -> None:
        self._keys = 0
        self._wanted = set(columns)
        self._below = {names[:end] for names in columns for end in range(len(names))}
        self._getters: dict[Names, Callable[[Any], Any]] = {}
        self._open: list[Callable[[Any], Any]] = []
        try:
            kind, self._blank = self._struct(payload, (), "")
        except (TypeError, ValueError) as exc:  # such keys no struct can have
            raise NoShapeError from exc
        self._decode = msgspec.json.Decoder(kind, float_hook=float_hook).decode

    def getter(self, names: Names) -> tuple[Callable[[Any], Any], Names] | None:
        """Return what takes a column's value from a struct, and the names that lead on from there; None: no such."""
        for end in range(len(names), 0, -1):
            if names[:end] in self._getters:
                return self._getters[names[:end]], names[end:]
        return None

    def read(self, texts: Sequence[bytes | None], most_opened: int) -> Shaped:
        """Decode payloads. One that opens more objects, or lists, than `most_opened` has no shape."""
        rows: list[Any] = []
        others: list[int] = []
        waiting = map(self._decode, texts)  # type: ignore[arg-type]  # None raises TypeError
        while len(rows) < len(texts):
            try:
                rows.extend(waiting)
            except (msgspec.MsgspecError, RecursionError, TypeError, ArithmeticError):
                others.append(len(rows))
                rows.append(self._blank)
        decoded: Sequence[int] = range(len(texts))
        if others:
            found = set(others)
            decoded = [number for number in decoded if number not in found]
        others += self._unlike(decoded, texts, rows, most_opened)
        for number in others:
            rows[number] = self._blank
        return Shaped(rows, sorted(others))

    def _unlike(
        self, decoded: Sequence[int], block: Sequence[bytes | None], structs: list[Any], most_opened: int
    ) -> list[int]:
        """Return the numbers of payloads that were decoded and may have keys besides, or twice, or nest deep."""
        is_all = len(decoded) == len(block)
        texts = cast("Sequence[bytes]", block if is_all else [block[number] for number in decoded])
        rows = structs if is_all else [structs[number] for number in decoded]
        blanks = blanks_in(joined := b"".join(texts))

        def are_like(begin: int, end: int, joined: bytes) -> bool:
            part = texts[begin:end]
            return _opens_few(part, joined, most_opened) and self._are_whole(rows[begin:end], joined, blanks)

        if are_like(0, len(texts), joined):
            return []
        return [
            decoded[at]
            for begin in range(0, len(texts), _TOGETHER)
            if not are_like(begin, begin + _TOGETHER, b"".join(texts[begin : begin + _TOGETHER]))
            for at, text in enumerate(texts[begin : begin + _TOGETHER], begin)
            if not are_like(at, at + 1, text)
        ]

    def _are_whole(self, rows: Sequence[Any], joined: bytes, blanks: Sequence[bytes]) -> bool:
        """Tell whether the texts, which are given as one, have as many places of keys as their rows."""
        if self._open and not is_told_alike(joined):
            return False
        values = [value for take in self._open for value in map(take, rows)]
        return places(joined, blanks) == self._keys * len(rows) + (places_again(values) if values else 0)

    def _struct(
        self, payload: dict[str, Any], above: Names, path: str
    ) -> tuple[type[msgspec.Struct], msgspec.Struct]:
        """Return the struct of an object, and a blank one."""
        self._keys += len(payload)
        if self._keys > MAX_KEYS or len(above) > _MAX_LEVELS:
            raise NoShapeError
        fields, blanks = [], []
        for number, (key, value) in enumerate(payload.items()):
            names, place = (*above, key), f"{path}f{number}"
            kind, blank = self._field(value, names, place)
            fields.append((f"f{number}", kind))
            blanks.append(blank)
        names_of = {f"f{number}": key for number, key in enumerate(payload)}
        made = msgspec.defstruct("Shaped", fields, rename=names_of, gc=False)
        return made, made(*blanks)

    def _field(self, value: Any, names: Names, place: str) -> tuple[Any, Any]:  # noqa: ANN401 - any JSON value
        if names not in self._wanted and type(value) is dict:
            return self._struct(value, names, f"{place}.")
        is_open = type(value) is dict or (type(value) is list and any(map(_has_keys, _within(value))))
        if names in self._wanted or names in self._below or is_open:
            self._getters[names] = take = attrgetter(place)
            if is_open:
                self._open.append(take)
            return Any, None
        if type(value) is list or (type(value) is str and len(value) > _LONG_TEXT):
            return msgspec.Raw, msgspec.Raw(b"null")
        return Any, None  # a number or a short text is made in half the time of a `Raw`


def _opens_few(texts: Sequence[bytes], joined: bytes, most: int) -> bool:
    """Tell whether each text opens at most so many objects and lists, looking at as many at once as may be."""
    together = max(1, most * len(texts) // (2 * max(1, _opened(joined))))
    parts = (texts[begin : begin + together] for begin in range(0, len(texts), together))
    return all(_opened(b"".join(part)) <= most or max(map(_opened, part)) <= most for part in parts)


def _opened(text: bytes) -> int:
    """Count what opens an object or a list; to take them out takes half the time of `count`."""
    return sum(len(text) - len(text.replace(opening, b"")) for opening in _OPENINGS)


def _within(value: Any) -> Iterator[Any]:  # noqa: ANN401 - any JSON value
    waiting = [value]
    while waiting:
        value = waiting.pop()
        yield value
        if type(value) is list:
            waiting.extend(value)


def _has_keys(value: object) -> bool:
    return type(value) is dict
