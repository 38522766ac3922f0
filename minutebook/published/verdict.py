"""The verdict of a day in pointer, manifest and audit, and the version of its rules."""

from typing import Final, Literal

Verdict = Literal["clean", "defects", "unknown"]
CLEAN: Final = "clean"
DEFECTS: Final = "defects"
RULES: Final = 2
"""The version of the rules, 1 if a document names none. No command deletes on a verdict by older rules.

It rises when a day that was clean may not be clean any more.
"""
