"""Decide whether an audit allows its day to be published. Pure."""

from typing import Final

from compaction.verdict.audit_document import Audit
from compaction.verdict.findings import Code

_ONLY_UNPROVEN: Final = frozenset(
    {
        Code.UNPROVEN_END,
        Code.UNPROVEN_CONTINUITY,
        Code.UNCOVERED,
        Code.MISSING_SHARD,
        Code.MISSING_START,
        Code.DROPPED_WITHOUT_ORIGINAL,
        Code.PRODUCER_DUPLICATE,
    }
)
"""Unknowns that concern no row of the day: they say only that records may be missing."""


def publishable(audit: Audit) -> bool:
    """Return whether each row of the rewrite is right: all read, balanced numbers, and every defect repaired."""
    if audit.typed is not None and not audit.typed.balanced:
        return False
    return audit.equation.balanced and not any(
        about.severity == "defect" or (about.severity == "unknown" and about.code not in _ONLY_UNPROVEN)
        for about in audit.findings
        if not about.repaired
    )
