"""How sentences name things of which there may be thousands."""

from collections.abc import Sequence


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first names, `most` of them, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
