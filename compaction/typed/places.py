"""Places of keys in JSON texts: how a key that is there twice is found without looking at keys.

Most decoders keep the last of two equal keys without a word. Each key of a text is followed by `":`, or by a blank
and `:`. Counted in the text, these places can only be more than the keys (they may occur in strings), and the keys
that were decoded can only be fewer. Where both counts are equal, no key was lost.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_PLACE: Final = b'":'
_AS_NUMBER: Final = pa.scalar(int.from_bytes(_PLACE, "little"), pa.uint16())
_LONG: Final = 16 << 10
"""Bytes of a text from which on Arrow counts sooner than `bytes` does, in two fifths of the time."""
_BLANKS: Final = (b" :", b"\t:", b"\n:", b"\r:")
_HIDDEN: Final = re.compile(rb"\\u00(22|3[aA])")
CONTAINERS: Final = frozenset({dict, list})
_again: Final = msgspec.json.Encoder(decimal_format="number")


def blanks_in(joined: bytes) -> tuple[bytes, ...]:
    """Return the blanks that stand before a colon in some texts, which are given as one."""
    return tuple(blank for blank in _BLANKS if blank[:1] in joined and blank in joined)  # one byte is found at once


def places(text: bytes, blanks: Iterable[bytes]) -> int:
    """Count the places in a text where a key may end."""
    return _count(text) + sum(map(text.count, blanks))


def _count(text: bytes) -> int:
    """Count `":` in a text: as numbers of two bytes, those at even places and those at odd ones."""
    if len(text) < _LONG:
        return text.count(_PLACE)
    whole = pa.py_buffer(text)
    return sum(
        pc.sum(pc.equal(pa.Array.from_buffers(pa.uint16(), pairs, [None, whole.slice(begin)]), _AS_NUMBER)).as_py()
        for begin, pairs in ((0, len(text) // 2), (1, (len(text) - 1) // 2))
    )


def is_told_alike(text: bytes) -> bool:
    r"""Tell whether strings hold no place that only a decoder sees, such as \u0022:."""
    return b"\\" not in text or b"\\u00" not in text or _HIDDEN.search(text) is None  # one byte is found at once


def places_again(values: list[Any]) -> int:
    """Count the places in decoded values, by writing them again: their keys, and the places within strings.

    No more than the texts had, where these are told alike. -1: the values cannot be written.
    """
    try:
        return _count(_again.encode_lines(values))
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError, OverflowError):
        return -1


def keys_of(value: Any) -> int:  # noqa: ANN401 - any JSON value
    """Count the keys of all objects; no deeper than the decoder itself went."""
    waiting, count = [value], 0
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            count += len(value)
            value = value.values()
        waiting.extend(each for each in value if type(each) in CONTAINERS)
    return count
