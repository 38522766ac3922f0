"""Read an object to change it, and write it again: every number keeps its digits."""

from typing import Any, Final

import msgspec

from compaction.columns.decode.outcome import MAX_BYTES, Outcome, too_long, undecoded
from compaction.columns.documents import read_document
from compaction.columns.misfits import Misfit

_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


def object_of(payload: bytes, step: str) -> dict[str, Any] | Misfit:
    """Return the object of a payload; a reason if it is none, or has a key twice, which rewriting would hide."""
    document, problems = read_document(payload)
    return undecoded(step, problems[0].what, problems[0].kind) if problems else document


def encoded(document: object, step: str) -> Outcome:
    """Return a document as JSON text."""
    try:
        text = _encode(document)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as exc:
        return undecoded(step, f"cannot be written as JSON: {exc}")
    return too_long(step) if len(text) > MAX_BYTES else [text]
