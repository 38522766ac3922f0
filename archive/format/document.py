"""A JSON object of ours: written whole, indented for human readers, and read strictly.

Every document has a field `format`. A field of the wrong type, and a field that its type does not know where that
forbids it, is an error that names the object.
"""

from typing import Final, Protocol, TypeVar

import msgspec

from archive.errors import FormatError

FORMAT: Final = 1
RESTORE: Final = "restore the object from a version of it"


class _Document(Protocol):
    @property
    def format(self) -> int: ...


D = TypeVar("D", bound=_Document)


def encode_document(document: object) -> bytes:
    """Return the object's body."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def decode_document(body: bytes, kind: type[D], key: str, *, next_step: str = RESTORE) -> D:
    """Read an object's body; raises FormatError that names `key`, and `next_step` where it does not parse."""
    try:
        document = msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise FormatError(f"{key} does not parse: {exc}", next_step=next_step) from exc
    if document.format != FORMAT:
        raise FormatError(f"{key}: format {document.format} is not known here", next_step="upgrade Minutebook")
    return document
