"""The steps `bom`, `base64` and `json-text`: text within text."""

import base64
import binascii
import re
from typing import Any, Final

import msgspec

from compaction.columns.decode.outcome import Outcome, undecoded
from compaction.columns.decode.rewriting import encoded, object_of

BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = re.compile(rb"[ \t\r\n]+")
_BASE64: Final = re.compile(rb"(?:[A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}")
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_decode_text: Final = msgspec.json.Decoder(str).decode
_check: Final = msgspec.json.Decoder(msgspec.Raw).decode


def without_bom(payload: bytes) -> Outcome:
    """Remove the byte order mark of UTF-8; a payload without one is returned as it is."""
    return [payload.removeprefix(BOM)]


def from_base64(payload: bytes) -> Outcome:
    """Decode base64 of either alphabet, with or without padding and line breaks; anything else is a reason."""
    text = _BLANKS.sub(b"", payload)
    digits = text.rstrip(b"=")
    if _BASE64.fullmatch(text) is None or (len(digits) < len(text) and len(text) % 4):
        return undecoded("base64", "not base64")
    try:
        return [base64.b64decode(digits.translate(_URL_SAFE) + b"=" * (-len(digits) % 4), validate=True)]
    except binascii.Error as exc:
        return undecoded("base64", f"not base64: {exc}")


def from_json_text(payload: bytes) -> Outcome:
    """Return the text that a JSON string holds."""
    text = _text(payload)
    return undecoded("json-text", "not a JSON string") if text is None else [text]


def with_json_text(payload: bytes, path: tuple[str, ...]) -> Outcome:
    """Return an object in which the JSON of the string at `path` stands in its place.

    A path that leads nowhere, or to null, changes nothing: an envelope may be empty.
    """
    document = object_of(payload, "json-text")
    if not isinstance(document, dict):
        return document
    holder: Any = document
    for name in path[:-1]:
        holder = holder.get(name) if isinstance(holder, dict) else holder
    value = holder.get(path[-1]) if isinstance(holder, dict) else holder
    if value is None:
        return [payload]
    text = _json_of(value) if isinstance(holder, dict) else None
    if text is None:
        return undecoded("json-text", f"{'.'.join(path)} is no string of JSON")
    holder[path[-1]] = msgspec.Raw(text)
    return encoded(document, "json-text")


def _json_of(value: object) -> bytes | None:
    """Return a text that is JSON, as bytes."""
    try:
        text = value.encode() if isinstance(value, str) else b""
        _check(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return text


def _text(payload: bytes) -> bytes | None:
    try:
        return _decode_text(payload).encode()
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
