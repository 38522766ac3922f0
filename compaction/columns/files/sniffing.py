"""Say what payloads are that hold no JSON object, by their first bytes. Pure."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from compaction.columns.decode.avro import FILE_MAGIC
from compaction.columns.decode.glue_registry import GLUE_MAGIC
from compaction.columns.decode.texts import BOM
from compaction.columns.misfits import Misfit
from minutebook.compression import Compression

_MAGIC: Final = {
    Compression.GZIP.magic: "gzip",
    Compression.ZSTD.magic: "zstd",
    FILE_MAGIC: "Avro files",
    b"\xc3\x01": "Avro with a single-object header",
    **dict.fromkeys(GLUE_MAGIC, "behind a header of the Glue schema registry"),
    b"\x00\x00\x00": "behind a header of Confluent's schema registry",
    BOM: "behind a byte order mark",
}
_WORDS: Final = {
    "a list": "lists",
    "a string": "strings",
    "a number": "numbers",
    "a boolean": "booleans",
    "null": "null",
    "empty": "empty",
}
_KINDS: Final = {"not_utf8": "binary", "too_long": "too long", "too_deep": "nested too deeply"}
_BASE64: Final = re.compile(rb"\s*(?:[A-Za-z0-9+/]{4}){4,}(?:[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/]=))?\s*")
_SEVERAL: Final = "several JSON documents"
_SEVERAL_EACH: Final = f"{_SEVERAL} each"
_DECODABLE: Final = frozenset(
    {
        "gzip",
        "zstd",
        "behind a byte order mark",
        "behind a header of the Glue schema registry",
        "Avro files",
        "base64",
        "strings",
        "lists",
        _SEVERAL_EACH,
    }
)
"""Kinds for which there is a step."""


def kind_of(payload: bytes, misfit: Misfit) -> str:
    """Return what a payload is, to follow "5 of 5 payloads are"; `misfit` says why it is no object."""
    if misfit.path:
        return f"not decoded by{misfit.path}: {misfit.what}"
    for magic, kind in _MAGIC.items():
        if payload.startswith(magic):
            return kind
    if misfit.what.startswith(_SEVERAL):
        return _SEVERAL_EACH
    if misfit.kind == "not_json" and _BASE64.fullmatch(payload) is not None:
        return "base64"
    return _KINDS.get(misfit.kind) or _WORDS.get(misfit.what.partition(",")[0]) or "text that is no JSON"


def is_decodable(kind: str) -> bool:
    """Return whether there is a step for payloads of a kind."""
    return kind in _DECODABLE


def told(kinds: Iterable[str], count: int, what: str = "payloads") -> list[str]:
    """Return a sentence for each kind of payload, or of what its steps found, the most frequent first."""
    return [f"{some:,} of {count:,} {what} are {kind}" for kind, some in Counter(kinds).most_common()]
