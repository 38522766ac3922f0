"""Which audits allow a day to be published. Pure."""

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
"""Unknowns that leave each row of the day right, and say only that there may be more."""


def publishable(audit: Audit) -> bool:
    """Tell whether each row of the rewrite is right: no defect that it did not repair, all read, balanced numbers."""
    left = [found for found in audit.findings if not found.repaired]
    if audit.typed is not None and not audit.typed.balanced:
        return False
    return audit.equation.balanced and not any(
        found.severity == "defect" or (found.severity == "unknown" and found.code not in _ONLY_UNPROVEN)
        for found in left
    )
