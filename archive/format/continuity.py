"""Whether anything may be missing before a piece of evidence: the one place that names the three values."""

import enum


class Continuity(enum.StrEnum):
    """Whether records may be missing between a piece of evidence and what it stands on."""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    LOST = "lost"
