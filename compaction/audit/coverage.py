"""Coverage: of each shard that must be judged, is everything that arrived in the scope proven to be archived?

The rules are `minutebook.coverage`'s, and `minutebook.proof` searches what they rest on outside of the scope. Here a
time that is not proven becomes a finding, by the name that says most:

    something is certainly gone ............... broken_chain, a defect
    nobody read the shard, or some hash keys .. missing_shard
    it reaches to the scope's end ............. unproven_end
    reading resumed too late .................. unproven_continuity
    anything else ............................. uncovered

A gap that is the shadow of an object that is reported by itself, damaged or missing, is not reported again; nor is a
loss in minutes of which this audit itself reports the missing records, with the uncovered time that it adjoins.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

from compaction.audit.day_auditor import Judgement
from compaction.audit.day_view import DayView
from compaction.audit.shards.group_view import JudgedShard
from compaction.job.context import JobContext
from compaction.job.scope import begins_ms, judged_scope
from compaction.verdict.basis import digest_of_lines
from compaction.verdict.findings import Code, Finding, Severity, finding
from minutebook.coverage.chain import Doubt, Reason
from minutebook.coverage.evidence import EvidenceLink
from minutebook.coverage.intervals import FOREVER, Interval, union
from minutebook.coverage.shard_coverage import Gap, ShardCoverage
from minutebook.coverage.verdict import ShardVerdict, Verdict
from minutebook.format.boundaries import NamedGap
from minutebook.format.coverage_markers import UNDELIVERED
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS, iso_time, minute_text
from minutebook.index.last_segments import LastSegments
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import JudgedScope, ScopeFacts, judge_facts, read_facts

_SHADOWS: Final = frozenset(
    {Reason.BROKEN_CHAIN, Reason.NOT_SEEN, Reason.CONTRADICTED, Reason.NOT_COVERED, Reason.UNDECIDED}
)
_READINGS: Final = 3
_NOBODY: Final = frozenset({Reason.MISSING_SHARD, Reason.HASH_HOLE})


class DayCoverage(NamedTuple):
    """What was judged, and the findings that it calls for; `digest` names the evidence beside the day's objects."""

    judged: JudgedScope
    findings: tuple[Finding, ...]

    @property
    def digest(self) -> str:
        """The hash of the evidence."""
        return self.judged.facts.digest


def judge_coverage(
    context: JobContext,
    view: DayView,
    judgement: Judgement,
    published: LastSegments,
    lookback_days: int,
    further: Sequence[Finding] = (),
) -> DayCoverage:
    """Judge the scope; `published` days say where to search first, `further` findings add to the judgement's.

    Raises SettingsError if nothing of the day is to be judged.
    """
    application, inventory, now_ms = view.markers.application, view.inventory, context.clock.now_ms()
    scope = judged_scope(inventory.day, application, now_ms, inventory.until_ms)
    query = ProofQuery(scope, begins_ms(application), now_ms, view.stream, lookback_days)
    judged = _judge(context, query, view, judgement.proofs, published)
    # Without findings about lines: coverage takes what is known of a shard for the cause of its gaps.
    known = [*judgement.name_findings, *view.markers.findings, *judgement.chain_findings, *further]
    findings = open_time_findings(judged, known, judgement.shards, inventory.shard)
    findings += _undelivered(context, inventory.day, inventory.shard)
    known_problems = set(view.markers.statements.problems)
    findings += [
        finding(Code.FOREIGN_OBJECT, problem.why, keys=[problem.key])
        for problem in judged.facts.problems
        if problem not in known_problems
    ]
    return DayCoverage(judged, tuple(findings))


def open_time_findings(
    judged: JudgedScope, known: Iterable[Finding], shards: Mapping[str, JudgedShard], only: str | None = None
) -> list[Finding]:
    """Return a finding for each time that is not proven and not the shadow of a `known` finding. Pure.

    `shards` give the keys that findings name. `only`: those of one shard, and not of the stream's shape.
    """
    known = list(known)
    reported = {finding.shard for finding in known if finding.severity != "warning"}
    missing = {(about.shard or "", about.minute or "") for about in known if about.code == Code.MISSING_IN_ARCHIVE}
    keys = _Keys(shards)
    findings = [
        _gap_finding(judged.verdict.scope, shard, gap, judged, keys)
        for shard in judged.verdict.shards
        for gap in shard.gaps
        if only in {None, shard.shard_id}
        and not (shard.shard_id in reported and _is_shadow(shard.shard_id, gap, judged, missing))
    ]
    if only is None:
        reported |= {about.shard for about in findings}
        findings += _doubt_findings(judged.verdict, {shard for shard in reported if shard})
    return findings


def defect_times(
    judged: JudgedScope, only: str | None = None, chain_findings: Iterable[Finding] = ()
) -> list[NamedGap]:
    """Return the times of each shard in which something is certainly missing. Pure.

    Also those that no finding repeats, because the break in the chain is one. A time beside it that is only not
    proven yet does not belong to it: a read mark may still come. `only`: those of one shard.

    Of a chain's end no segment says that one is gone: there `chain_findings` do (end.json or KCL's checkpoint names
    more, or a published object is missing), and the time that nobody has seen belongs to it.
    """
    broken = {each.shard for each in chain_findings if each.code == Code.BROKEN_CHAIN and each.severity == "defect"}
    found = []
    for shard in judged.verdict.shards:
        if only not in {None, shard.shard_id}:
            continue
        coverage = judged.coverages.get(shard.shard_id)
        doubts = [doubt for doubt in coverage.doubts if doubt.reason.is_defect] if coverage else []
        for gap in shard.gaps:
            if shard.shard_id in broken and Reason.NOT_SEEN in gap.reasons:
                found.append(NamedGap.of(shard.shard_id, *gap.interval, gap.reasons))
                continue
            within = [doubt for doubt in doubts if doubt.interval.overlaps(gap.interval)]
            for time in union(doubt.interval.common(gap.interval) for doubt in within):
                reasons = {doubt.reason for doubt in within if doubt.interval.overlaps(time)}
                found.append(NamedGap.of(shard.shard_id, *time, sorted(reasons)))
    return found


def _judge(
    context: JobContext,
    query: ProofQuery,
    view: DayView,
    links: Mapping[str, Sequence[EvidenceLink]],
    published: LastSegments,
) -> JudgedScope:
    """Judge, and read again when a segment is missing: behind the scope the archive grows while it is searched."""
    before: ScopeFacts | None = None
    for _ in range(_READINGS):
        facts = read_facts(context.archive, context.place.prefix, query, view.markers.statements, links, published)
        judged = judge_facts(facts)
        if Reason.BROKEN_CHAIN not in judged.verdict.reasons or facts == before:
            break
        before = facts
    return judged


def _undelivered(context: JobContext, day: Day, only: str | None) -> list[Finding]:
    """Report records that KCL would not deliver, and that are kept: worth a look, and no loss of ours."""
    folder = f"{context.place.prefix}{UNDELIVERED}{day}/"
    by_shard: dict[str, list[str]] = defaultdict(list)
    for key in context.archive.keys(folder):
        by_shard[key.removeprefix(folder).partition("/")[0]].append(key)
    message = "KCL would not deliver these records: aggregates that are empty, malformed, or of another shard's keys"
    return [
        finding(Code.UNDELIVERED, message, severity="warning", shard=shard, keys=keys, count=len(keys))
        for shard, keys in sorted(by_shard.items())
        if only in {None, shard}
    ]


class _Keys:
    """The keys of the scope's segments, by what gaps name them by."""

    def __init__(self, shards: Mapping[str, JudgedShard]) -> None:
        self._shards = shards

    def at(self, shard_id: str, doubts: Iterable[Doubt]) -> Iterator[str]:
        """Yield the keys of the segments that doubts are about."""
        for doubt in doubts:
            known = self._shards[shard_id].keys if shard_id in self._shards else {}
            key = None if doubt.position is None else known.get(doubt.position)
            if key is not None:
                yield key

    def tail(self, shard_id: str) -> list[str]:
        """Return the key of a shard's last segment."""
        tail = self._shards[shard_id].tail if shard_id in self._shards else None
        return [] if tail is None else [tail]


def _is_shadow(shard_id: str, gap: Gap, judged: JudgedScope, missing: AbstractSet[tuple[str, str]]) -> bool:
    """Return whether a gap of a shard with findings says nothing more: losses in it lie in `missing` minutes.

    A loss beside a time that nothing covers is one gap with it.
    """
    if not set(gap.reasons) - {Reason.LOST} <= _SHADOWS:
        return False
    coverage = judged.coverages.get(shard_id)
    lost = [doubt.interval for doubt in coverage.doubts if doubt.reason is Reason.LOST] if coverage else []
    return {(shard_id, at) for interval in lost for at in _minutes(interval, gap.interval)} <= missing


def _minutes(interval: Interval, within: Interval) -> Iterator[str]:
    """Yield the minutes that the common part of two times touches."""
    from_ms, until_ms = interval.common(within)
    if from_ms < until_ms:
        yield from map(minute_text, range(from_ms // MINUTE_MS, (until_ms - 1) // MINUTE_MS + 1))


def _gap_finding(scope: Interval, shard: ShardVerdict, gap: Gap, judged: JudgedScope, keys: _Keys) -> Finding:
    coverage = judged.coverages.get(shard.shard_id)
    doubts = [doubt for doubt in coverage.doubts if doubt.interval.overlaps(gap.interval)] if coverage else []
    is_end = gap.interval.until_ms == scope.until_ms
    code, severity = _code(gap.reasons, is_end=is_end)
    why = "; ".join(reason.meaning for reason in gap.reasons)
    positions = [doubt.position for doubt in doubts if doubt.position is not None]
    named = list(keys.at(shard.shard_id, doubts)) or (keys.tail(shard.shard_id) if is_end else [])
    made = finding(
        code,
        f"not proven to be archived: what arrived from {_time(gap.interval.from_ms)} to "
        f"{_time(gap.interval.until_ms)}: {why}",
        severity=severity,
        shard=shard.shard_id,
        keys=named,
        positions=positions,
        contents=() if coverage is None else _skips_of(coverage, gap.interval),
    )
    return _timed(made, gap.interval, gap.reasons)


def _skips_of(coverage: ShardCoverage, interval: Interval) -> tuple[str, ...]:
    """Return the contents of a finding: which skipped batches its time may miss. One more is another finding."""
    return tuple(sorted({digest_of_lines([f"skipped {skip.logged_ms}"]) for skip in coverage.skips_in(interval)}))


def _code(reasons: Sequence[Reason], *, is_end: bool) -> tuple[Code, Severity]:
    if any(reason.is_defect for reason in reasons):
        return Code.BROKEN_CHAIN, "defect"
    if _NOBODY & set(reasons):
        return Code.MISSING_SHARD, "unknown"
    if is_end:
        return Code.UNPROVEN_END, "unknown"
    return (Code.UNPROVEN_CONTINUITY if Reason.UNPROVEN in reasons else Code.UNCOVERED), "unknown"


def _doubt_findings(verdict: Verdict, reported: set[str]) -> list[Finding]:
    """Return what is in doubt about the stream's shape, within the scope, each kind once for a time.

    Where a shard's own end is in doubt, that its successors are unknown is not reported as well.
    """
    findings = {}
    for doubt in verdict.doubts:
        if doubt.shard_id in reported and doubt.reason is not Reason.CIRCLE:
            continue
        interval = verdict.inside(doubt.interval)
        code, severity = _code([doubt.reason], is_end=False)
        message = f"from {_time(interval.from_ms)} to {_time(interval.until_ms)}: {doubt.reason.meaning}"
        findings[doubt.reason, interval] = _timed(
            finding(code, message, severity=severity, shard=doubt.shard_id), interval, [doubt.reason]
        )
    return [findings[name] for name in sorted(findings)]


def _timed(about: Finding, interval: Interval, reasons: Iterable[Reason]) -> Finding:
    names = tuple(str(reason) for reason in reasons)
    begins, until = _time(interval.from_ms), _time(interval.until_ms)
    return msgspec.structs.replace(about, begins=begins, until=until, reasons=names)


def _time(epoch_ms: int) -> str:
    return iso_time(epoch_ms) if 0 < epoch_ms < FOREVER else ""
