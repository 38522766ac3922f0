"""Decode payloads as JSON. They are untrusted: depth and size are bounded, nothing is evaluated.

msgspec decodes them. A payload that it rejects, or that may repeat a key, is decoded again by Python's own decoder,
which reports the problem:

    "a":1  and  "a":2 in one object     the key has no value
    NaN, Infinity                       not JSON, but the rest of the row is readable
    1e400, a number of 5000 digits      JSON numbers that fit no type

Like most decoders, msgspec silently keeps the last of two equal keys. In a text, `":` or a blank and `:` follow each
key. There can only be more of these ends than keys (strings may contain them), and only fewer keys are decoded, so no
key was lost if both counts are equal.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.arrays import EPOCH_UNITS, MOST_INTEGER_BYTES
from compaction.columns.misfits import Ambiguous, Misfit, NotANumber
from compaction.columns.types import ColumnType
from minutebook.format.payload import JSON_STRING, MAX_PAYLOAD_BYTES, is_decodable

MAX_DEPTH: Final = 100
"""Levels of nested objects and lists."""
_EXACT: Final = frozenset({"decimal", "json"})
_KEY_END: Final = b'":'
_KEY_ENDS: Final = (_KEY_END, b" :", b"\t:", b"\n:", b"\r:")
_HIDDEN: Final = re.compile(rb"\\u00(22|3[aA])")
"""An escaped quote or colon: the decoded string may contain the end of a key that the text does not."""
_CONTAINERS: Final = frozenset({dict, list})
_DOUBTFUL: Final = object()
_EXACT_DECODE: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_DOUBLE_DECODE: Final = msgspec.json.Decoder().decode
_encode_lines: Final = msgspec.json.Encoder(decimal_format="number").encode_lines


def is_exact(kind: ColumnType) -> bool:
    """Return whether a type takes numbers with a fraction as they were written."""
    return kind.name in _EXACT or kind.how in EPOCH_UNITS


class Documents(NamedTuple):
    """The objects of payloads; {} for rows in `unread`, which cannot be decoded. `problems` holds errors by row.

    Rows in `apart` were read by Python's decoder: values may be `Ambiguous`, `NotANumber`, or Decimal beyond doubles.
    """

    rows: list[Any]
    problems: dict[int, list[Misfit]]
    unread: set[int]
    apart: set[int]


def read_documents(data: pa.StringArray, *, exact: bool) -> Documents:
    """Decode payloads (null: not UTF-8). With `exact`, numbers with a fraction are Decimal, not float."""
    decode = _EXACT_DECODE if exact else _DOUBLE_DECODE
    texts = bytes_of(data)
    rows = [_decoded(text, decode) for text in texts]
    for number in _repeating(texts, rows, [number for number, row in enumerate(rows) if type(row) is dict]):
        rows[number] = _DOUBTFUL
    documents = Documents(rows, {}, set(), set())
    for number in [number for number, row in enumerate(rows) if type(row) is not dict]:
        row, problems = rows[number], list[Misfit]()
        if row is _DOUBTFUL:
            documents.apart.add(number)
            row, problems = _read_carefully(texts[number], exact=exact)
        else:
            problems.append(_not_an_object(row))
        if problems:
            documents.problems[number] = problems
        if type(row) is not dict:
            documents.unread.add(number)
        rows[number] = row if type(row) is dict else {}
    return documents


def read_document(text: bytes) -> tuple[Any, list[Misfit]]:
    """Decode one payload with exact numbers; return its object and no problems, or any value and its problems."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return _read_carefully(None, exact=True)
    row = _decoded(text, _EXACT_DECODE)
    if row is _DOUBTFUL or (type(row) in _CONTAINERS and _repeating([text], [row], [0])):
        return _read_carefully(text, exact=True)
    return row, [] if type(row) is dict else [_not_an_object(row)]


def _decoded(text: bytes | None, decode: Callable[[bytes], Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Decode a payload with msgspec; return `_DOUBTFUL` if msgspec rejects it, or if it is too long or too deep."""
    if text is None or not is_decodable(text):
        return _DOUBTFUL
    try:
        row = decode(text)
    except (msgspec.MsgspecError, RecursionError, InvalidOperation):
        return _DOUBTFUL
    return _DOUBTFUL if _opened(text) > MAX_DEPTH and key_count(row) is None else row


def key_count(value: Any) -> int | None:  # noqa: ANN401 - any JSON value
    """Count the keys of all objects in a value; None: it is nested deeper than `MAX_DEPTH`."""
    level, keys = [value] if type(value) in _CONTAINERS else [], 0
    for _ in range(MAX_DEPTH):
        keys += sum(len(each) for each in level if type(each) is dict)
        level = [
            inner
            for each in level
            for inner in (each.values() if type(each) is dict else each)
            if type(inner) in _CONTAINERS
        ]
        if not level:
            return keys
    return None


def _repeating(texts: Sequence[Any], rows: Sequence[Any], numbers: Sequence[int]) -> list[int]:
    """Return which of these objects may repeat a key, by bisection."""
    if _has_all_keys(b"".join(texts[number] for number in numbers), [rows[number] for number in numbers]):
        return []
    if len(numbers) == 1:
        return [number for number in numbers if key_count(rows[number]) != _key_ends(texts[number])]
    middle = len(numbers) // 2
    return [*_repeating(texts, rows, numbers[:middle]), *_repeating(texts, rows, numbers[middle:])]


def _has_all_keys(text: bytes, rows: Sequence[Any]) -> bool:
    """Return whether objects certainly have all keys of their text: re-encoded, they have as many ends of keys.

    Both counts include the ends inside strings, which are many if strings contain JSON.
    """
    if b"\\u00" in text and _HIDDEN.search(text) is not None:
        return False
    try:
        return _encode_lines(rows).count(_KEY_END) == _key_ends(text)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError):  # not everything decoded can be encoded
        return False


def _key_ends(text: bytes) -> int:
    return sum(text.count(end) for end in _KEY_ENDS if end[:1] in text)  # searching one byte is faster than two


_KINDS: Final = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"} | dict.fromkeys(
    (int, float, Decimal, NotANumber), "a number"
)


def _not_an_object(value: object) -> Misfit:
    return Misfit("not_an_object", f"{_KINDS[type(value)]}, not an object")


def _read_carefully(text: bytes | None, *, exact: bool) -> tuple[Any, list[Misfit]]:
    """Read a payload with Python's decoder; return its value (None: unreadable) and its problems."""
    if text is None:
        return None, [Misfit("not_utf8", "not UTF-8 text")]
    if not is_decodable(text):
        is_long = len(text) > MAX_PAYLOAD_BYTES
        why = f", more than {MAX_PAYLOAD_BYTES} are not read" if is_long else " of too many values"
        return None, [Misfit("too_long", f"{len(text)} bytes{why}")]
    if _depth(text) > MAX_DEPTH:
        return None, [Misfit("too_deep", f"nested deeper than {MAX_DEPTH}")]
    try:
        value, problems = _load(text, _exactly if exact else _nearly)
    except ValueError as exc:
        return None, [Misfit("not_json", _not_json(text, exc))]
    return value, problems if type(value) is dict else [*problems, _not_an_object(value)]


def _not_json(text: bytes, exc: ValueError) -> str:
    if not text.strip():
        return "empty"
    count = _count(text)
    return f"several JSON documents: {count:,}" if count > 1 else f"not JSON: {str(exc)[:80]}"


def _count(text: bytes) -> int:
    """Count JSON documents one after another, with or without blanks between; 0 unless the text is nothing else."""
    words, at, count = text.decode(), 0, 0
    decode, blanks = json.JSONDecoder().raw_decode, re.compile(r"[ \t\n\r]*")
    try:
        while at < len(words):
            _, at = decode(words, at)
            at = blanks.match(words, at).end()  # type: ignore[union-attr]  # it matches no blank, too
            count += 1
    except ValueError:
        return 0
    return count


def bytes_of(data: pa.StringArray | pa.BinaryArray) -> list[bytes | None]:
    """Return payloads as bytes (None: null), in half the time of `to_pylist`."""
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


def _opened(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _depth(text: bytes) -> int:
    """Return the nesting depth of a text; 0 if it cannot exceed `MAX_DEPTH`."""
    if _opened(text) <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    for byte in JSON_STRING.sub(b"", text):
        if byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest


def _load(text: bytes, fraction: Callable[[str], Any]) -> tuple[Any, list[Misfit]]:
    """Decode a text, and report bad keys and numbers; raise ValueError if it is not JSON."""
    problems: list[Misfit] = []

    def whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        row = dict(pairs)
        if len(row) != len(pairs):
            seen: set[str] = set()
            doubled = {name for name, _ in pairs if name in seen or seen.add(name)}  # type: ignore[func-returns-value]
            row |= {name: Ambiguous(name) for name in doubled}
            problems.append(Misfit("duplicate_key", twice(min(doubled))))
        return row

    def constant(name: str) -> NotANumber:
        problems.append(Misfit("not_a_number", f"{name} is not JSON"))
        return NotANumber(name)

    value = json.loads(
        text.decode(), object_pairs_hook=whole, parse_float=fraction, parse_int=_integer, parse_constant=constant
    )
    return value, problems


def twice(key: str) -> str:
    """Return the reason of a key that occurs several times in an object."""
    return f"the key {json.dumps(key[:40])} is there several times"


def number_of(text: str) -> int | Decimal | NotANumber:
    """Read a JSON number with all its digits."""
    return _integer(text) if text.lstrip("-").isdigit() else _exactly(text)


def _nearly(text: str) -> float | Decimal | NotANumber:
    """Read a fraction as msgspec does; one that is no double is told with its digits."""
    number = float(text)
    return number if math.isfinite(number) else _exactly(text)


def _exactly(text: str) -> Decimal | NotANumber:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of more than 18 digits
        return NotANumber(text)


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= MOST_INTEGER_BYTES else Decimal(text)
