"""Read an object to change it, and write it again: every number keeps its digits, and NaN stays what it is."""

from typing import Any, Final

import msgspec

from compaction.columns.decode.outcome import MAX_BYTES, Outcome, too_long, undecoded
from compaction.columns.documents import read_document, twice
from compaction.columns.misfits import Ambiguous, Misfit, NotANumber


class _DoubledKeyError(TypeError):
    """A key is there several times: written again, it would hide that."""


def _as_written(value: object) -> msgspec.Raw:
    if isinstance(value, NotANumber):
        return msgspec.Raw(value.text.encode())
    if isinstance(value, Ambiguous):
        raise _DoubledKeyError(twice(value.key))
    raise TypeError(type(value).__name__)


_encode: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=_as_written).encode


def object_of(payload: bytes, step: str) -> dict[str, Any] | Misfit:
    """Return the object of a payload; a reason if it is none. `encoded` refuses what has a key twice."""
    document, problems = read_document(payload)
    return document if type(document) is dict else undecoded(step, problems[0].what, problems[0].kind)


def encoded(document: object, step: str) -> Outcome:
    """Return a document as JSON text; a reason where it has a key twice."""
    try:
        text = _encode(document)
    except _DoubledKeyError as exc:
        return undecoded(step, str(exc), "duplicate_key")
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as exc:
        return undecoded(step, f"cannot be written as JSON: {exc}")
    return too_long(step) if len(text) > MAX_BYTES else [text]
