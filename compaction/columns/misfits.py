"""Reasons why a payload does not fit its columns: a kind to count, and a sentence for a person."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, Literal, NamedTuple

Kind = Literal[
    "undecoded",
    "not_utf8",
    "not_json",
    "not_an_object",
    "too_long",
    "too_deep",
    "duplicate_key",
    "not_a_number",
    "bad_path",
    "missing",
    "wrong_type",
    "out_of_range",
    "lossy",
    "invalid",
    "far_off",
]
PAYLOAD: Final = "payload"
"""The column name of misfits that concern the payload itself."""
LIST: Final = "[]"
"""The step to the elements of a list in the name of a leaf."""
_LONGEST: Final = 40
_MOST: Final = 5


class Misfit(NamedTuple):
    """A value that does not fit; `path` is its leaf within the column, as in `.zip` or `[].price`.

    For a payload it is the step that fails, as in ` (gzip)`.

    `indexes` are those of the elements on the way to it, one for each `[]`. Of a row's elements those of one leaf and
    kind are one misfit, the first of so many `values`: a kilobyte may be a million of them.
    """

    kind: Kind
    what: str
    path: str = ""
    indexes: tuple[int, ...] = ()
    values: int = 1

    def below(self, step: str) -> "Misfit":
        """Return the misfit with `step` put before its path."""
        return Misfit(self.kind, self.what, step + self.path, self.indexes, self.values)

    def within(self, index: int) -> "Misfit":
        """Return the misfit as that of an element of a list."""
        return Misfit(self.kind, self.what, LIST + self.path, (index, *self.indexes), self.values)


class Ambiguous:
    """The value of a key that occurs several times in an object."""

    def __init__(self, key: str = "") -> None:
        self.key = key


class NotANumber:
    """NaN, Infinity or -Infinity: not JSON, but written by Python's encoder."""

    def __init__(self, text: str) -> None:
        self.text = text


def reason(misfits: Sequence[tuple[str, Misfit]]) -> str:
    """Return the text of `_unfit` for the misfits (column, misfit) of one row.

    Every leaf that was emptied is named, the first five reasons in full. Values of one list share a reason:

        items[].price: "x" is not decimal(10,2) (3 values, the first at [4])
    """
    if len(misfits) == 1 and not misfits[0][1].indexes:
        return f"{misfits[0][0]}{misfits[0][1].path}: {misfits[0][1].what}"
    groups: dict[tuple[str, str], list[Misfit]] = {}
    for column, misfit in misfits:
        apart = misfit.kind if misfit.indexes else misfit.what
        groups.setdefault((column + misfit.path, apart), []).append(misfit)
    texts = [f"{path}: {_told(group)}" for (path, _), group in [*groups.items()][:_MOST]]
    named = {path for path, _ in [*groups][:_MOST]}
    more = [path for path in dict.fromkeys(path for path, _ in groups) if path not in named]
    return "; ".join([*texts, f"also {', '.join(more)}"] if more else texts)


def _told(group: Sequence[Misfit]) -> str:
    first = group[0]
    if not first.indexes:
        return first.what
    place = "".join(f"[{index}]" for index in first.indexes)
    count = sum(each.values for each in group)
    return f"{first.what} ({f'{count:,} values, the first ' if count > 1 else ''}at {place})"


def is_unicode(text: str) -> bool:
    """Return whether a text can be encoded: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """Return a value for a reason: short and on one line, whatever a producer wrote."""
    if type(value) is Decimal:
        return cut(str(value))
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    if isinstance(value, str):
        text = json.dumps(value[:_LONGEST], ensure_ascii=False)
        return text.encode(errors="backslashreplace").decode() + ("…" if len(value) > _LONGEST else "")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _LONGEST * 4:
        return f"a number of {value.bit_length()} bits"
    return cut(str(value) if isinstance(value, int | float) else type(value).__name__)


def cut(text: str, longest: int = _LONGEST) -> str:
    """Return the beginning of a text for a reason."""
    return text if len(text) <= longest else f"{text[:longest]}…"
