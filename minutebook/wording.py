"""Wording of sentences that list names."""

from collections.abc import Sequence


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first `most` names and the number of the others: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
