"""What changes an audit after its day was read: newer evidence.

Lines say the same as long as their objects do, so findings about them stand. Names, metadata, markers and marks are
read anew: tomorrow's evidence proves today's end, and may show as well that something is missing.
"""

from typing import Final, NamedTuple

import msgspec

from compaction.audit.audit import examine
from compaction.audit.conclusion import BY_LINES, Examined, conclude
from compaction.audit.day_view import DayView
from compaction.job.context import AuditOptions, JobContext
from compaction.verdict.audit_document import Audit, AuditCheck, Shard, overall_verdict
from compaction.verdict.findings import Code, Finding, ordered

_BY_READING: Final = frozenset(
    {*BY_LINES, Code.PRODUCER_DUPLICATE, Code.ID_CONFLICT, Code.LATE_MINUTES, Code.UNFIT_PAYLOAD, Code.TABLE_CONFLICT}
)
_BY_BOTH: Final = frozenset({Code.METADATA_MISMATCH, Code.ARRIVAL_STEP_BACK})
"""Codes that names and metadata show, and lines, too: what lines had shown stands beside what names show now."""
_OF_A_REWRITE: Final = ("event_ids", "typed_columns")
"""Checks that a judgement by names and metadata does not have."""


class Rejudged(NamedTuple):
    """A day that was judged again."""

    audit: Audit
    examined: Examined


def rejudge(context: JobContext, view: DayView, options: AuditOptions, before: Audit) -> Rejudged:
    """Judge by names, metadata and evidence as they are now, and by the findings of `before` about lines."""
    by_names = options._replace(level="inventory")
    examined = examine(context, view, by_names, None)
    now = conclude(context, examined, by_names, None)
    findings = ordered([*now.findings, *_line_findings(before, now)])
    checks = _checks(before, now)
    audit = msgspec.structs.replace(
        now,
        level=before.level,
        equation=before.equation,
        findings=tuple(findings),
        checks=checks,
        verdict=overall_verdict(findings, checks),
        typed=before.typed,
        shards=_with_steps(before, now),
    )
    return Rejudged(audit, examined)


def _line_findings(before: Audit, now: Audit) -> list[Finding]:
    codes = {code.value for code in _BY_READING | _BY_BOTH}
    reported = {(about.code, about.keys) for about in now.findings}
    return [about for about in before.findings if about.code in codes and (about.code, about.keys) not in reported]


def _with_steps(before: Audit, now: Audit) -> tuple[Shard, ...]:
    """Return the shards of now, with the steps back that reading lines had shown."""
    earlier = {row.shard: row.arrival_step_back_ms for row in before.shards}
    return tuple(
        msgspec.structs.replace(row, arrival_step_back_ms=max(row.arrival_step_back_ms or 0, known))
        if (known := earlier.get(row.shard)) is not None
        else row
        for row in now.shards
    )


def _checks(before: Audit, now: Audit) -> tuple[AuditCheck, ...]:
    """Return the checks of now; those that were not asked again, or have nothing new to say, stand as they were."""
    codes = {code.value for code in _BY_READING}
    both = {code.value for code in _BY_BOTH}
    earlier = {check.id: check for check in before.checks}
    checks = [
        earlier.get(check.id, check)
        if check.status == "not_asked" or check.id in codes or (check.id in both and check.status == "pass")
        else check
        for check in now.checks
    ]
    return (*checks, *(check for check in before.checks if check.id in _OF_A_REWRITE))
