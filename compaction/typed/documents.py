"""Payloads as JSON values, block by block. Payloads are hostile: depth and size are bounded, nothing is evaluated.

Rows that are well are decoded by msgspec, in one loop of C. A row that it refuses, or in which a key may be there
twice, is read again by Python's own decoder, which tells what is wrong with it:

    "a":1  and  "a":2 in one object     the key stands for nothing
    NaN, Infinity                       no JSON, and yet the rest of the row can be read
    1e400, a number of 5000 digits      numbers of JSON that fit no type
"""

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise, repeat
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from compaction.typed.misfits import Ambiguous, Misfit, NotANumber
from compaction.typed.places import CONTAINERS, blanks_in, is_told_alike, keys_of, places, places_again
from compaction.typed.shapes import Names, NoShapeError, Shape

MAX_DEPTH: Final = 100
"""Objects and lists in one another."""
MAX_BYTES: Final = 1 << 20
"""Bytes of a payload. Decoded JSON takes up to twenty times as much."""
_LONG_INTEGER: Final = 80
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
"""A string, or one without an end: were that no match, each quote in it would be tried as a beginning of its own."""
_decode: Final = msgspec.json.Decoder().decode
_decode_exactly: Final = msgspec.json.Decoder(float_hook=Decimal).decode


class Documents(NamedTuple):
    """The objects of a block of payloads, {} where there is none.

    `problems` says what is wrong with a payload itself, by row; rows in `unread` gave nothing at all. With a `shape`
    the rows are its structs, but for those in `apart`: these are objects, as all are without one. Values of rows that
    were read by Python may be `Ambiguous` or `NotANumber`: these rows are `apart`, too.
    """

    rows: list[Any]
    problems: dict[int, list[Misfit]]
    unread: frozenset[int]
    apart: dict[int, Any]
    shape: Shape | None = None


class DocumentReader:
    """Reads payloads, block by block. `exact`: numbers with a fraction are Decimal, not float.

    `paths` are those of the columns, as names, where all are: a shape is then looked for.
    """

    def __init__(self, *, exact: bool, paths: Sequence[Names] | None = None) -> None:
        self._exact = exact
        self._paths = paths
        self._shape: Shape | None = None
        self._attempts = 0 if paths is None else _ATTEMPTS

    def read(self, data: pa.StringArray) -> Documents:
        """Decode payloads; null ones are not UTF-8."""
        texts = _texts(data)
        shape = self._shape_for(texts)
        if shape is None:
            return read_texts(texts, exact=self._exact)
        rows, others = shape.read(_bounded(texts), MAX_DEPTH)
        if len(others) * _FEW > len(texts) >= _FEW:  # a long payload that is read alone says nothing
            self._shape = None
            self._attempts -= 1
        rest = read_texts([texts[number] for number in others], exact=self._exact)
        return Documents(
            rows,
            {others[row]: problems for row, problems in rest.problems.items()},
            frozenset(others[row] for row in rest.unread),
            {others[row]: value for row, value in enumerate(rest.rows)},
            shape,
        )

    def _shape_for(self, texts: Sequence[bytes | None]) -> Shape | None:
        """Return the shape; looks for one while there is hope."""
        if self._shape is None and self._attempts and self._paths is not None and len(texts) >= _FEW:
            try:
                payload = (_decode_exactly if self._exact else _decode)(_sample(texts))
                self._shape = (
                    Shape(payload, self._paths, Decimal if self._exact else None) if type(payload) is dict else None
                )
            except (msgspec.MsgspecError, NoShapeError, RecursionError, ArithmeticError):
                self._attempts -= 1
        return self._shape


_ATTEMPTS: Final = 3
"""How many shapes are tried: each that does not hold costs the decoding of a block."""
_FEW: Final = 8
"""One row in so many may have another shape."""


def _sample(texts: Sequence[bytes | None]) -> bytes:
    """Return one payload to learn from: the middle one by length of the first few."""
    few = sorted((text for text in texts[:_FEW] if text is not None), key=len)
    return few[len(few) // 2] if few else b""


def read_texts(texts: Sequence[bytes | None], *, exact: bool) -> Documents:
    """Decode payloads as dicts; None: it is not UTF-8."""
    reader = _Reader(texts, exact=exact)
    rows = reader.decode_all()
    decoded = texts
    if reader.careful:
        decoded = [None if number in reader.careful else text for number, text in enumerate(texts)]
    for number in {*_perhaps_doubled(decoded, rows), *_too_deep(decoded, rows)}:
        rows[number] = reader.read_carefully(number)
    if set(map(type, rows)) != {dict}:
        for number, row in enumerate(rows):
            if type(row) is not dict:
                if number not in reader.unread:
                    reader.refuse(number, Misfit("not_an_object", f"{_KINDS[type(row)]}, not an object"))
                rows[number] = {}
    apart = {number: rows[number] for number in reader.careful}
    return Documents(rows, reader.problems, frozenset(reader.unread), apart)


_KINDS: Final = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"} | dict.fromkeys(
    (int, float, Decimal, NotANumber), "a number"
)


class _Reader:
    def __init__(self, texts: Sequence[bytes | None], *, exact: bool) -> None:
        self._texts = texts
        self._decode = _decode_exactly if exact else _decode
        self.problems: dict[int, list[Misfit]] = {}
        self.unread: set[int] = set()
        self.careful: set[int] = set()

    def refuse(self, number: int, why: Misfit) -> None:
        self.problems.setdefault(number, []).append(why)
        self.unread.add(number)

    def decode_all(self) -> list[Any]:
        """Decode all payloads. `extend` keeps what came before a payload that raises: the loop goes on behind it."""
        rows: list[Any] = []
        texts = _bounded(self._texts)
        waiting = map(self._decode, texts)  # type: ignore[arg-type]  # None raises TypeError
        while len(rows) < len(texts):
            try:
                rows.extend(waiting)
            except (msgspec.MsgspecError, RecursionError, TypeError, InvalidOperation):
                rows.append(self.read_carefully(len(rows)))
        return rows

    def read_carefully(self, number: int) -> Any:  # noqa: ANN401 - whatever the producer wrote
        """Read one payload by Python's decoder, or say why it cannot be read."""
        self.careful.add(number)
        text = self._texts[number]
        if text is None:
            return self.refuse(number, Misfit("not_utf8", "not UTF-8 text"))
        if len(text) > MAX_BYTES:
            return self.refuse(number, Misfit("too_long", f"{len(text)} bytes, more than {MAX_BYTES} are not read"))
        if _depth(text) > MAX_DEPTH:
            return self.refuse(number, Misfit("too_deep", f"nested deeper than {MAX_DEPTH}"))
        found: list[Misfit] = []
        try:
            value = _load(text, found)
        except ValueError as exc:
            said = "empty" if not text.strip() else f"not JSON: {str(exc)[:80]}"
            return self.refuse(number, Misfit("not_json", said))
        if found:
            self.problems.setdefault(number, []).extend(found)
        return value


def _texts(data: pa.StringArray) -> list[bytes | None]:
    """Return the payloads as bytes: half the time of `to_pylist`."""
    if not len(data):
        return []
    offsets = memoryview(data.buffers()[1]).cast("i")[data.offset : data.offset + len(data) + 1]
    blob = memoryview(data.buffers()[2] or b"")[offsets[0] : offsets[-1]].tobytes()
    begin = offsets[0]
    texts: list[bytes | None] = [blob[low - begin : high - begin] for low, high in pairwise(offsets)]
    if data.null_count:
        for number in pc.indices_nonzero(pc.is_null(data)).to_pylist():
            texts[number] = None
    return texts


def _bounded(texts: Sequence[bytes | None]) -> Sequence[bytes | None]:
    """Return the payloads without those that are too long."""
    if max((len(text or b"") for text in texts), default=0) <= MAX_BYTES:
        return texts
    return [None if text is not None and len(text) > MAX_BYTES else text for text in texts]


def _perhaps_doubled(texts: Sequence[bytes | None], rows: Sequence[Any]) -> list[int]:
    """Return the rows in which the text has more places of keys than were decoded."""
    joined = b"".join(text for text in texts if text is not None)
    blanks = blanks_in(joined)
    read = [row for text, row in zip(texts, rows, strict=True) if text is not None and type(row) in CONTAINERS]
    if is_told_alike(joined) and places(joined, blanks) == places_again(read):
        return []
    return [
        number
        for number, (text, row) in enumerate(zip(texts, rows, strict=True))
        if type(row) is dict and text is not None and _is_perhaps_doubled(text, row, blanks)
    ]


def _is_perhaps_doubled(text: bytes, row: dict[str, Any], blanks: Sequence[bytes]) -> bool:
    found = places(text, blanks)
    if len(row) == found or keys_of(row) == found:
        return False
    return not is_told_alike(text) or places_again([row]) != found


def _too_deep(texts: Sequence[bytes | None], rows: Sequence[Any]) -> list[int]:
    """Return the rows that were decoded and nest too deep; only what opens many objects and lists is looked into."""
    known = [text for text in texts if text is not None]
    most = sum(max(map(bytes.count, known, repeat(opening)), default=0) for opening in (b"{", b"["))
    if most <= MAX_DEPTH:
        return []
    return [
        number
        for number, (text, row) in enumerate(zip(texts, rows, strict=True))
        if text is not None and len(text) > 2 * MAX_DEPTH and _opened(text) > MAX_DEPTH and _is_deep(row)
    ]


def _is_deep(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    level = [value] if type(value) in CONTAINERS else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            for inner in (each.values() if type(each) is dict else each)
            if type(inner) in CONTAINERS
        ]
    return bool(level)


def _opened(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _depth(text: bytes) -> int:
    """Return how deep a text nests, exactly where that matters."""
    if _opened(text) <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    for byte in _STRING.sub(b"", text):
        if byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest


def _load(text: bytes, found: list[Misfit]) -> Any:  # noqa: ANN401 - whatever the producer wrote
    def whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        row = dict(pairs)
        if len(row) != len(pairs):
            seen: set[str] = set()
            doubled = {name for name, _ in pairs if name in seen or seen.add(name)}  # type: ignore[func-returns-value]
            row |= dict.fromkeys(doubled, Ambiguous())
            found.append(Misfit("duplicate_key", f"the key {json.dumps(min(doubled)[:40])} is there several times"))
        return row

    def constant(name: str) -> NotANumber:
        found.append(Misfit("not_a_number", f"{name} is not JSON"))
        return NotANumber(name)

    return json.loads(
        text.decode(), object_pairs_hook=whole, parse_float=_exactly, parse_int=_integer, parse_constant=constant
    )


def number_of(text: str) -> int | Decimal | NotANumber:
    """Read the text of a number of JSON, with all its digits."""
    return _integer(text) if text.lstrip("-").isdigit() else _exactly(text)


def _exactly(text: str) -> Decimal | NotANumber:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of more than 18 digits
        return NotANumber(text)


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _LONG_INTEGER else Decimal(text)
