"""The verdict of a day, as pointer, manifest and audit name it, and the rules that it was given by."""

from typing import Final, Literal

Verdict = Literal["clean", "defects", "unknown"]
CLEAN: Final = "clean"
RULES: Final = 2
"""The rules that verdicts are given by; 1 where none are named. Nobody deletes on a verdict by older rules."""
