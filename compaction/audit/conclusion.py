"""A day that was examined, and its conclusion: findings, checks and the equation, as `audit.json` says it."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self

import msgspec

from compaction.audit.copies import ProducerDuplicates
from compaction.audit.coverage import DayCoverage
from compaction.audit.day_auditor import DayAuditor, Judgement
from compaction.audit.day_view import DayView
from compaction.audit.rules.chain import PUBLISHED_AND_GONE
from compaction.audit.rules.lines import Rows, balance, repeat_findings
from compaction.audit.shards.minutes import Minutes
from compaction.columns.columns import Columns
from compaction.columns.verdict import judge_columns
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.neighbours import LOOKBACK_DAYS
from compaction.inventory.tombstones import damage_of
from compaction.job.context import AuditOptions, JobContext
from compaction.job.scope import SETTLED_MS, is_settled
from compaction.tasks.finished import Part
from compaction.tasks.merging import Repeat
from compaction.tasks.task import TaskResult
from compaction.verdict.audit_document import (
    SCHEMA,
    Audit,
    AuditCheck,
    CheckStatus,
    Equation,
    Scope,
    overall_verdict,
)
from compaction.verdict.exit_code import UNREAD
from compaction.verdict.findings import Code, Finding, Severity, finding, ordered
from minutebook.coverage.chain import Reason
from minutebook.errors import StoreError
from minutebook.format.day import Day
from minutebook.format.minute import iso_time
from minutebook.format.tombstone import tombstone_key
from minutebook.index.last_segments import LastSegment
from minutebook.published.inventory import inventory_digest
from minutebook.published.verdict import RULES

BY_LINES: Final = frozenset(
    {
        Code.DUPLICATE_RECORD,
        Code.OUT_OF_ORDER,
        Code.COUNT_MISMATCH,
        Code.UNREADABLE_OBJECT,
        Code.WRONG_MINUTE,
        Code.DROPPED_WITHOUT_ORIGINAL,
    }
)
"""Codes that only lines show: not asked where some were not read."""
LINES_NOT_READ: Final = "lines_not_read"
"""The check that keeps level inventory from `clean`."""
_BY_EVENT_ID: Final = frozenset({Code.PRODUCER_DUPLICATE, Code.ID_CONFLICT})
_BY_MORE_SHARDS: Final = _BY_EVENT_ID | {Code.DROPPED_WITHOUT_ORIGINAL, Code.MISSING_SHARD}
"""Codes that need all shards of the day: the other records may be in another one."""
AGAIN: Final = "seen-again/"
"""Where a rewrite that shows a finding again writes, beside nothing that anybody reads."""
_BY_STREAM: Final = frozenset({Code.MISSING_IN_ARCHIVE, Code.NOT_IN_STREAM})
_BY_HISTORY: Final = frozenset({Code.ALTERED_OBJECT, Code.REPLACED})
_ELSEWHERE: Final = frozenset(
    {Code.LATE_MINUTES, Code.EXPIRED_DAY, Code.UNFIT_PAYLOAD, Code.TABLE_CONFLICT, Code.MAPPING_UNKNOWN}
)
_STATUS: Final[dict[Severity, CheckStatus]] = {"defect": "fail", "unknown": "unknown", "warning": "warning"}
"""What the worst finding makes of a check, the worst first."""


class DayResult(NamedTuple):
    """The audit, each shard's minutes for the report, and how long the stream keeps a record (None: not known)."""

    audit: Audit
    minutes: Mapping[str, Minutes]
    retention_ms: int | None = None


class WorkDone(NamedTuple):
    """How many tasks read the day's lines, and how many of them an earlier run had done."""

    tasks: int = 0
    earlier: int = 0

    @classmethod
    def of(cls, results: Sequence[TaskResult]) -> Self:
        """Return what the results of tasks add up to."""
        return cls(len(results), sum(result.is_earlier for result in results))


class Examined(NamedTuple):
    """A day that was examined.

    `restored` lines were dropped and come back; `restored_digest` is theirs. `outside_hours` are segments with
    originals of dropped records, by their hours. `is_in_motion`: its objects changed each time while they were read,
    so what is missing may not be. `read_again`: how many were read to judge the day by what is known of the others.
    `unread`: of how many objects lines were not read, or not compared with those of objects that touch.
    """

    view: DayView
    auditor: DayAuditor
    judgement: Judgement
    coverage: DayCoverage
    work: WorkDone = WorkDone()
    repeats: tuple[Repeat, ...] = ()
    parts: tuple[Part, ...] = ()
    dropped: tuple[Finding, ...] = ()
    producers: ProducerDuplicates = ProducerDuplicates()
    restored: int = 0
    restored_digest: str = ""
    outside_hours: Mapping[str, tuple[str, ...]] = {}
    is_in_motion: bool = False
    read_again: int = 0
    unread: int = 0

    @property
    def inventory(self) -> DayObjects:
        """The day's objects."""
        return self.view.inventory

    @property
    def chain_findings(self) -> list[Finding]:
        """Findings about the links between segments, and about times that nothing proves."""
        return [*self.judgement.chain_findings, *self.coverage.findings]

    @property
    def minutes(self) -> dict[str, Minutes]:
        """What each shard holds, by minute."""
        return {shard: judged.minutes for shard, judged in self.judgement.shards.items()}

    @property
    def ends(self) -> dict[str, LastSegment]:
        """Where each shard's chain stood when the day ended."""
        shards = self.view.markers.shards
        return self.judgement.ends({shard for shard, markers in shards.items() if markers.end is not None})


def conclude(
    context: JobContext,
    examined: Examined,
    options: AuditOptions,
    compacted: int | None,
    further: Sequence[Finding] = (),
    further_checks: Sequence[AuditCheck] = (),
    records: int | None = None,
) -> Audit:
    """Write the verdict down; `further` findings are the caller's, `records` those of the compacted rows."""
    inventory = examined.inventory
    all_findings = [*_findings(examined), *further]
    rows = Rows(compacted, examined.producers.removed, examined.restored, records)
    equation = balance(examined.judgement.counts, sum(repeat.surplus for repeat in examined.repeats), rows)
    now_ms = context.clock.now_ms()
    checks = _checks(examined, all_findings, equation, further_checks)
    checks += _unread(examined.unread)
    checks += [*examined.producers.checks, *further_checks]
    checks += _unfinished(inventory, now_ms)
    reproducible = _Reproducible(options, inventory.day, inventory.until_ms, _shards_beside_others(all_findings))
    findings = tuple(map(reproducible.with_command, ordered(all_findings)))
    return Audit(
        schema=SCHEMA,
        rules=RULES,
        version=context.version,
        audited_at=iso_time(now_ms),
        level=options.level,
        verdict=overall_verdict(findings, checks),
        scope=_scope(context, _Scoped.of(inventory), options, examined.coverage.judged.facts.query.scope.from_ms),
        equation=equation,
        shards=tuple(judged.row for judged in examined.judgement.shards.values()),
        checks=tuple(checks),
        findings=findings,
    )


def conclude_rewrite(
    context: JobContext,
    examined: Examined,
    options: AuditOptions,
    columns: Columns | None,
    further: Sequence[Finding],
) -> Audit:
    """Write down the verdict on a day that was rewritten, and what became of its payloads' columns."""
    rows = sum(part.rows for part in examined.parts)
    if columns is None:
        return conclude(context, examined, options, rows, further)
    records = sum(part.records for part in examined.parts) if columns.multiplies else None
    typed = judge_columns(columns, [part.typed for part in examined.parts], rows, examined.inventory.day, records)
    audit = conclude(context, examined, options, rows, [*further, *typed.findings], typed.checks, records)
    return msgspec.structs.replace(audit, typed=typed.numbers)


def _findings(examined: Examined) -> list[Finding]:
    """Collect the findings of every step of the examination."""
    chain_findings = [
        msgspec.structs.replace(finding, severity="unknown")
        if examined.is_in_motion and finding.code == Code.BROKEN_CHAIN
        else finding
        for finding in examined.chain_findings
    ]
    return [
        *examined.judgement.name_findings,
        *examined.view.markers.findings,
        *chain_findings,
        *examined.judgement.line_findings,
        *repeat_findings(examined.repeats),
        *examined.dropped,
        *examined.producers.findings,
    ]


def unreadable_result(context: JobContext, day: Day, options: AuditOptions, error: StoreError) -> DayResult:
    """Return the verdict on an archive that could not be read: unknown."""
    return _unjudged(context, day, options, check=AuditCheck(id=UNREAD, status="unknown", message=str(error)))


def expired_result(context: JobContext, day: Day, options: AuditOptions) -> DayResult:
    """Return the verdict on a day whose raw segments were deleted on purpose: unknown.

    What was published of it was judged before; to repeat that verdict would prove nothing.
    """
    prefix = context.place.prefix
    key, damage = tombstone_key(prefix, day), damage_of(context.archive, prefix, day)
    message = (
        "the raw segments of the day were expired: nothing is left to judge; "
        "its verdict was given when it was published"
    )
    findings = [finding(Code.EXPIRED_DAY, message, severity="unknown", keys=[key])]
    if damage is not None:
        findings.append(finding(Code.UNREADABLE_OBJECT, damage, severity="unknown", keys=[key]))
    check = AuditCheck(id=Code.EXPIRED_DAY.value, status="unknown", message=message)
    return _unjudged(context, day, options, *map(_Reproducible(options, day).with_command, findings), check=check)


def _unjudged(
    context: JobContext, day: Day, options: AuditOptions, *findings: Finding, check: AuditCheck
) -> DayResult:
    audit = Audit(
        schema=SCHEMA,
        rules=RULES,
        version=context.version,
        audited_at=context.now(),
        level=options.level,
        verdict="unknown",
        scope=_scope(context, _Scoped(day, day.end_ms, inventory_digest(())), options, day.begin_ms),
        equation=Equation(raw=0, unique=0, duplicates=0, rejected=0, compacted=None, removed=0, balanced=True),
        shards=(),
        checks=(check,),
        findings=findings,
    )
    return DayResult(audit, {})


class _Scoped(NamedTuple):
    """What was listed, in numbers."""

    day: Day
    end_ms: int
    digest: str
    objects: int = 0
    size: int = 0

    @classmethod
    def of(cls, objects: DayObjects) -> Self:
        """Return those of a day's objects."""
        return cls(objects.day, objects.end_ms, objects.digest(), objects.objects, objects.size)


def _unfinished(inventory: DayObjects, now_ms: int) -> list[AuditCheck]:
    """Say what a verdict leaves out, or that there can be none yet."""
    if inventory.until_ms is not None:
        message = f"the verdict is about what arrived before {iso_time(inventory.until_ms)}"
        return [AuditCheck(id="day_is_over", status="warning", message=message)]
    if is_settled(inventory.day, now_ms):
        return []
    message = (
        "the day is not over, or ended less than 20 minutes ago: records of it may be on their way until "
        f"{iso_time(inventory.day.end_ms + SETTLED_MS)}; --so-far judges the part that is over"
    )
    return [AuditCheck(id="day_is_over", status="unknown", message=message)]


def _unread(objects: int) -> list[AuditCheck]:
    """Say that lines were not read: names and metadata alone prove no day."""
    if not objects:
        return []
    message = (
        f"the lines of {objects:,} object(s) were not read, or not compared with others that they touch, and the "
        "published day does not know them as they are: --level keys does both"
    )
    return [AuditCheck(id=LINES_NOT_READ, status="unknown", message=message)]


def _scope(context: JobContext, inventory: _Scoped, options: AuditOptions, begin_ms: int) -> Scope:
    return Scope(
        stream=options.stream,
        application=options.application,
        archive=context.archive.uri(context.place.prefix),
        day=str(inventory.day),
        day_is_over=is_settled(inventory.day, context.clock.now_ms()),
        objects=inventory.objects,
        bytes=inventory.size,
        inventory=inventory.digest,
        generation=None,
        begins=iso_time(begin_ms),
        until=iso_time(inventory.end_ms),
        shard=options.shard,
    )


def _checks(
    examined: Examined,
    findings: Sequence[Finding],
    equation: Equation,
    further: Sequence[AuditCheck],
) -> list[AuditCheck]:
    was_compared = any(check.id == "stream_compared" for check in further)
    checks = []
    for code in Code:
        hits = [hit for hit in findings if hit.code == code.value]
        is_asked = not (
            (code in BY_LINES and examined.unread)
            or (code in _BY_STREAM and not was_compared)
            or (code in _BY_EVENT_ID and not examined.producers.checks)
            or (code in _BY_HISTORY and (examined.unread or examined.view.known is None))
            or code in _ELSEWHERE
        )
        checks.append(_check(code, hits, is_asked=is_asked))
    checks.append(
        AuditCheck(
            id="equation",
            status="pass" if equation.balanced else "fail",
            message=f"raw {equation.raw} = unique {equation.unique} + duplicates {equation.duplicates} "
            f"+ producer duplicates left out {equation.removed} + rejected {equation.rejected}",
        )
    )
    if not examined.judgement.shards:
        message = "no shard is known here that could have lived on this day: is this the right bucket and prefix?"
        checks.append(AuditCheck(id="shards_known", status="unknown", message=message))
    if examined.is_in_motion:
        message = "the day's objects changed each time while they were read: look again later"
        checks.append(AuditCheck(id="day_at_rest", status="unknown", message=message))
    if examined.view.checkpoints.error:
        checks.append(AuditCheck(id="lease_table", status="warning", message=examined.view.checkpoints.error))
    checks += examined.view.checks
    return checks


def _check(code: Code, hits: Sequence[Finding], *, is_asked: bool) -> AuditCheck:
    severities = {hit.severity for hit in hits}
    for severity, status in _STATUS.items():
        if severity in severities:
            return AuditCheck(id=code.value, status=status, message=f"{len(hits)} finding(s)")
    return AuditCheck(id=code.value, status="pass" if is_asked else "not_asked")


class _Reproducible(NamedTuple):
    """How a run is repeated. `until_ms`: its scope ends there. `wide`: shards that must be read with all others."""

    options: AuditOptions
    day: Day
    until_ms: int | None = None
    wide: frozenset[str] = frozenset()

    def with_command(self, about: Finding) -> Finding:
        """Return the finding with the command line that finds it again.

        Without one where none can: late and replaced objects are those of a comparison with what readers saw before.
        """
        options = self.options
        scope = ["--date", str(self.day), *([] if self.until_ms is None else ["--so-far", iso_time(self.until_ms)])]
        is_by_history = about.code == Code.ALTERED_OBJECT or PUBLISHED_AND_GONE in about.reasons
        if is_by_history and about.severity == "defect":  # it keeps the day from being published
            return msgspec.structs.replace(about, reproduce=" ".join([options.publish, *scope]))
        if about.code == Code.LATE_MINUTES or about.code in _BY_HISTORY:
            return about
        if about.code == Code.UNFIT_PAYLOAD:  # a rewrite alone reads payloads, and has nothing to do where they are
            return msgspec.structs.replace(about, reproduce=" ".join([options.rewrite, *scope, "--out", AGAIN]))
        words = [options.command, *scope, "--level", options.level]
        if options.sample_minutes is not None:
            words += ["--sample", str(options.sample_minutes)]
        if options.lookback_days != LOOKBACK_DAYS:
            words += ["--lookback", str(options.lookback_days)]
        if about.code in _BY_EVENT_ID and options.event_id is not None:
            words += ["--event-id", shlex.quote(options.event_id)]
        is_alone = about.shard is not None and about.shard not in self.wide and about.code not in _BY_MORE_SHARDS
        shard = about.shard if is_alone else options.shard
        if shard is not None:
            words += ["--shard", shlex.quote(shard)]
        return msgspec.structs.replace(about, reproduce=" ".join(words))


def _shards_beside_others(findings: Sequence[Finding]) -> frozenset[str]:
    """Return the shards that are judged by others, too, because their objects or their descent are mixed up."""
    return frozenset(
        about.shard
        for about in findings
        if about.shard is not None
        and (Reason.CIRCLE in about.reasons or any(f"/{about.shard}/" not in key for key in about.keys))
    )
