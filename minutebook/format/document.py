"""JSON objects with a field `format`, indented for human readers and parsed strictly.

A field of the wrong type, and an unknown field if its type forbids those, raises an error that names the object.
"""

from collections.abc import Collection
from typing import Final, Protocol, TypeVar

import msgspec

from minutebook.errors import FormatError

FORMAT: Final = 1
RESTORE: Final = "restore the object from a version of it"


class _Document(Protocol):
    @property
    def format(self) -> int: ...


D = TypeVar("D", bound=_Document)


class _Numbered(msgspec.Struct):
    format: int


def encode_document(document: object) -> bytes:
    """Return the object's body."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def decode_document(
    body: bytes, kind: type[D], key: str, *, next_step: str = RESTORE, formats: Collection[int] = (FORMAT,)
) -> D:
    """Parse an object's body in one of `formats`; raises FormatError that names `key`, also for later formats."""
    try:
        # The format first: in a later one the other fields may have other meanings.
        number = msgspec.json.decode(body, type=_Numbered).format
        if number not in formats:
            raise FormatError(f"{key}: format {number} is not known here", next_step="upgrade Minutebook")
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise FormatError(f"{key} does not parse: {exc}", next_step=next_step) from exc
