"""The modes of histories: what is archived, who acts on it, and for how long."""

from typing import Final, Literal, TypeAlias, get_args

Mode: TypeAlias = Literal["plain", "claims", "watermark", "operations", "days", "month"]
THINNED: Final[dict[Mode, int]] = {"days": 10, "month": 500}
"""A long history counts as so many short ones in a search of several modes."""
MODES: Final[tuple[Mode, ...]] = get_args(Mode)


def parse_modes(text: str) -> tuple[Mode, ...]:
    """Return the modes that a text names, separated by commas; `all` names all.

    Raises:
        ValueError: a name is not a mode's.
    """
    names = MODES if text == "all" else text.split(",")
    return tuple(MODES[MODES.index(name)] for name in names)
