"""The modes of histories: what is archived, and who acts on it."""

from typing import Final, Literal, TypeAlias, get_args

Mode: TypeAlias = Literal["plain", "claims", "watermark", "operations"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
