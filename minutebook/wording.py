"""Wording: sentences that list names, and texts of others as a terminal may show them.

Producers choose partition keys and event ids, and whoever can write below the prefix chooses object keys. On a
terminal such a text could move the cursor, hide or forge a line, or send input. So whatever is printed is escaped:
control characters (of C1, too), marks that change the direction of text, line breaks within a text.
"""

from collections.abc import Callable, Sequence
from typing import Final

ITEM: Final = "\n  - "
"""Begins an item of a list in the message of an error of ours."""


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first `most` names and the number of the others: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def printable(text: str) -> str:
    r"""Return a text as one line, with unprintable characters escaped as in Python's literals: `\x1b`."""
    return _escaped(text, lambda character: character.encode("unicode_escape").decode("ascii"))


def printable_json(document: str) -> str:
    r"""Return JSON with the unprintable characters in its strings escaped as `\u001b`; its line breaks stay."""
    return "\n".join(_escaped(line, _json_escape) for line in document.split("\n"))


def printable_message(text: str) -> str:
    """Return the message of an error; a list in it keeps its lines."""
    return ITEM.join(map(printable, text.split(ITEM)))


def error_lines(message: str, next_step: str) -> str:
    """Return what a command writes to stderr of an error: its message, and what to do, if that is known."""
    step = f"next step: {printable_message(next_step)}\n" if next_step else ""
    return f"minutebook: {printable_message(message)}\n{step}"


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else escape(c) for c in text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
