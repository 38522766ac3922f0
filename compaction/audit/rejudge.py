"""Judging a day again whose lines were read before: its objects are the same, and the evidence may not be.

Lines say the same as long as their objects do, so what was found of them stands. Names, metadata, markers and marks
are read anew: tomorrow's evidence proves today's end, and may show as well that something is missing.
"""

import hashlib
from typing import Final, NamedTuple

import msgspec

from compaction.audit.audit import examine
from compaction.audit.conclusion import BY_LINES, conclude
from compaction.audit.examined import Examined
from compaction.job.context import AuditOptions, JobContext
from compaction.job.day_view import DayView
from compaction.verdict.audit_document import Audit, AuditCheck, overall_verdict
from compaction.verdict.findings import Code, Finding, ordered

_BY_READING: Final = frozenset(
    {*BY_LINES, Code.PRODUCER_DUPLICATE, Code.LATE_MINUTES, Code.UNFIT_PAYLOAD, Code.TABLE_CONFLICT}
)
_OF_A_REWRITE: Final = ("event_ids", "typed_columns")
"""Checks that a judgement by names and metadata does not have."""


class Rejudged(NamedTuple):
    """A day that was judged again."""

    audit: Audit
    examined: Examined


def rejudge(context: JobContext, sight: DayView, options: AuditOptions, before: Audit) -> Rejudged:
    """Judge by names, metadata and evidence as they are now, and by what `before` found of the lines.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    asked = options._replace(level="inventory")
    examined = examine(context, sight, asked, None)
    now = conclude(context, examined, asked, None)
    findings = ordered([*now.findings, *_of_lines(before, now)])
    checks = _checks(before, now)
    audit = msgspec.structs.replace(
        now,
        level=before.level,
        equation=before.equation,
        findings=tuple(findings),
        checks=checks,
        verdict=overall_verdict(findings, checks),
        typed=before.typed,
    )
    return Rejudged(audit, examined)


def audit_digest(examined: Examined, options: AuditOptions, audit: Audit) -> str:
    """Return the name of an audit: what it rests on, how it was asked, and what it found.

    What it found, too, because not all that a verdict rests on is evidence: KCL's checkpoint may name more than is
    archived, and an object may be damaged under its old tag. Under the name of the evidence alone the first audit
    stayed, and the pointer named one that gave another verdict.
    """
    found = [
        (about.code, about.severity, about.shard, about.minute, about.keys, about.count, *_conflict(about))
        for about in audit.findings
    ]
    parts = (
        examined.inventory.digest(),
        examined.coverage.digest,
        options.event_id or "",
        audit.verdict,
        repr(found),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _conflict(about: Finding) -> tuple[str, ...]:
    return () if about.conflict is None else msgspec.structs.astuple(about.conflict)


def _of_lines(before: Audit, now: Audit) -> list[Finding]:
    codes = {code.value for code in _BY_READING}
    told = {(about.code, about.keys) for about in now.findings}
    return [about for about in before.findings if about.code in codes and (about.code, about.keys) not in told]


def _checks(before: Audit, now: Audit) -> tuple[AuditCheck, ...]:
    """Return the checks of now; what was not asked again stands as it was."""
    codes = {code.value for code in _BY_READING}
    earlier = {check.id: check for check in before.checks}
    checks = [
        earlier.get(check.id, check) if check.status == "not_asked" or check.id in codes else check
        for check in now.checks
    ]
    return (*checks, *(check for check in before.checks if check.id in _OF_A_REWRITE))
