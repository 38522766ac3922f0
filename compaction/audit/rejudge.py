"""A day judged again: names, markers and marks as they are now, and its objects by what is known of them.

Objects that were read before are the same while their ETag, size and LastModified are; others are read again, and
only they. So all findings are made anew but those that facts do not show: of records that several objects hold, of
copies of events, of columns and tables. They stand as they were while the contents do.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from compaction.audit.audit import examine_known
from compaction.audit.conclusion import Examined, conclude
from compaction.audit.day_view import DayView
from compaction.job.context import AuditOptions, JobContext
from compaction.verdict.audit_document import Audit, AuditCheck, overall_verdict
from compaction.verdict.findings import Code, Finding, ordered

_CARRIED: Final = frozenset(
    code.value
    for code in (
        Code.DUPLICATE_RECORD,
        Code.PRODUCER_DUPLICATE,
        Code.ID_CONFLICT,
        Code.LATE_MINUTES,
        Code.UNFIT_PAYLOAD,
        Code.TABLE_CONFLICT,
        Code.ALTERED_OBJECT,
    )
)
"""Codes that facts do not show; of altered objects those whose facts are gone."""
_OF_A_REWRITE: Final = ("event_ids", "typed_columns")
"""Checks that a judgement by facts does not have."""


class Rejudged(NamedTuple):
    """A day that was judged again. `stale` says why its Parquet files do not hold its rows; empty: they do."""

    audit: Audit
    examined: Examined
    stale: str = ""


def rejudge(context: JobContext, view: DayView, options: AuditOptions, before: Audit | None) -> Rejudged:
    """Judge by evidence and objects as they are now, and by what `before` says that facts do not show.

    `view` is one of `known.with_known`. `before` None: the day is not published, and was held.
    """
    by_lines = options._replace(level="keys")
    examined = examine_known(context, view, by_lines)
    now = conclude(context, examined, by_lines, None)
    if before is None:
        return Rejudged(now, examined)
    return Rejudged(with_earlier(now, before), examined, _stale(examined, before))


def with_earlier(now: Audit, before: Audit) -> Audit:
    """Return the audit of a judgement by facts, with what an earlier one says that facts do not show. Pure."""
    findings = ordered([*now.findings, *_carried(before, now)])
    checks = _checks(before, now, findings)
    return msgspec.structs.replace(
        now,
        level=before.level,
        equation=before.equation,
        findings=tuple(findings),
        checks=checks,
        verdict=overall_verdict(findings, checks),
        typed=before.typed,
    )


def with_alterations(audit: Audit, before: Audit, keys: Callable[[], Iterable[str]]) -> Audit:
    """Return the audit of a rewrite with what `before` says of altered objects whose facts are gone.

    `keys` are those of the day's objects now: of one that was deleted nothing is altered.
    """
    carried = [about for about in _carried(before, audit) if about.code == Code.ALTERED_OBJECT]
    if not carried:
        return audit
    altered = {key for about in carried for key in about.keys}
    present = {key for key in keys() if key in altered}
    kept = [about for about in carried if present & {*about.keys}]
    earlier = {check.id: check for check in before.checks if kept and check.id == Code.ALTERED_OBJECT}
    checks = tuple(earlier.get(check.id, check) if check.status == "pass" else check for check in audit.checks)
    findings = ordered([*audit.findings, *kept])
    return msgspec.structs.replace(
        audit, findings=tuple(findings), checks=checks, verdict=overall_verdict(findings, checks)
    )


def _stale(examined: Examined, before: Audit) -> str:
    unwritten = examined.judgement.unwritten
    if unwritten:
        return f"{unwritten[0]} is not as it was when the Parquet files were written"
    if examined.restored != before.equation.restored:
        return (
            f"{examined.restored} dropped records have no original now; {before.equation.restored} were brought back"
        )
    if before.basis is not None and examined.restored_digest != before.basis.restored:
        return "the dropped records that have no original now are not those that were brought back"
    return ""


def _carried(before: Audit, now: Audit) -> list[Finding]:
    """Return the earlier findings that facts do not show."""
    reported = {(about.code, about.severity, key) for about in now.findings for key in about.keys}
    many = {(about.code, about.severity, about.shard) for about in now.findings if about.count > len(about.keys)}
    return [
        about
        for about in before.findings
        if about.code in _CARRIED
        and (about.code, about.severity, about.shard) not in many
        and not (
            about.keys
            and all(
                {(about.code, severity, key) for severity in ("defect", about.severity)} & reported
                for key in about.keys
            )
        )
    ]


def _checks(before: Audit, now: Audit, findings: list[Finding]) -> tuple[AuditCheck, ...]:
    """Return the checks of now; those of what was carried over stand as they were."""
    codes = {about.code for about in findings} & _CARRIED
    earlier = {check.id: check for check in before.checks}
    checks = [
        earlier.get(check.id, check)
        if check.status == "not_asked" or (check.id in codes and check.status == "pass")
        else check
        for check in now.checks
    ]
    return (*checks, *(check for check in before.checks if check.id in _OF_A_REWRITE))
