"""The audit of one day: list it, read it, join it with its neighbours, and conclude."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from compaction.audit.conclusion import conclude, expired, unreadable
from compaction.audit.copies.collecting import CollectedIds
from compaction.audit.copies.copies import Copies, check_share, orders_without_copies, resolve
from compaction.audit.copies.day_before import DayBefore
from compaction.audit.copies.findings import ids_check, producer_findings
from compaction.audit.coverage import judge_coverage
from compaction.audit.day_auditor import DayAuditor
from compaction.audit.examined import DayResult, Examined, ProducerDuplicates, WorkDone, of_objects
from compaction.audit.reading import DayRead, Writing, order_argument, order_of, read_objects
from compaction.audit.rules.dropped import DroppedRecords
from compaction.audit.rules.evidence import AuditEvidence
from compaction.audit.stream.level import ComparisonRequest, StreamResult, compare_with_stream
from compaction.audit.stream.marks import facts_of, store_marks, stream_mark
from compaction.inventory.memory import collector_paused
from compaction.inventory.tombstones import expired_before
from compaction.job.context import AuditOptions, JobContext
from compaction.job.day_view import DayView, list_again, view_day
from compaction.job.scope import judged_scope, scope_end
from compaction.parquet.plan import MergeGroup, plan_tasks
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.findings import Code
from minutebook.errors import StoreError
from minutebook.format.day import Day
from minutebook.format.position import Position
from minutebook.owner import read_owned
from minutebook.proof.statements import read_statements
from minutebook.store.tombstones import is_expired

LOOKS: Final = 3
"""How often a day is looked at that changes while it is read."""


@collector_paused()
def audit_day(context: JobContext, day: Day, options: AuditOptions) -> DayResult:
    """Audit one day. What cannot be read does not fail the command: the verdict is then `unknown`.

    Raises:
        SafetyRefusal: the prefix belongs to another stream.
        SettingsError: the day ended before the archive begins, or so far nothing of it is to be judged.
    """
    prefix = context.place.prefix
    now_ms = context.clock.now_ms()
    until_ms = scope_end(day, options.so_far_ms, now_ms)
    try:
        judged_scope(day, read_owned(context.archive, prefix, context.owner), now_ms, until_ms)
        if is_expired(context.archive, prefix, day):
            return expired(context, day, options)
        for attempt in range(1, LOOKS + 1):
            sight = view_day(context, day, until_ms, options.shard)
            examined = examine(context, sight, options, None)
            if not is_in_motion(context, examined, options):
                break
            examined = examined._replace(is_in_motion=attempt == LOOKS)
        further = _against_stream(context, examined, options)
        examined = _with_stream(context, examined, further, options)
        if further.shards and is_in_motion(context, examined, options):
            examined = examined._replace(is_in_motion=True)
    except StoreError as exc:
        return unreadable(context, day, options, exc)
    audit = conclude(context, examined, options, None, further.findings, further.checks)
    return DayResult(audit, examined.minutes)


def is_in_motion(context: JobContext, examined: Examined, options: AuditOptions) -> bool:
    """Tell whether a chain looks broken, and the day has changed meanwhile: then it is looked at again.

    What lies behind the scope's end counts for nothing: it always changes.
    """
    if all(found.code != Code.BROKEN_CHAIN for found in examined.about_chains):
        return False
    seen = examined.inventory
    again = list_again(context, seen.day, seen.until_ms, options.shard, seen.grouping, seen.hour)
    return again.digest() != seen.digest()


def _against_stream(context: JobContext, examined: Examined, options: AuditOptions) -> StreamResult:
    if options.level != "stream":
        return StreamResult((), (), 0)
    markers, segments = examined.evidence.markers, examined.passes.segments()
    asked = ComparisonRequest(options.shard, options.sample_minutes)
    return compare_with_stream(context, examined.inventory, segments, markers, _passed_by_readers(examined), asked)


def _passed_by_readers(examined: Examined) -> dict[str, Position]:
    """Return, by shard, the last position that its reader has passed: nothing up to there comes again.

    By segments, wherever their day; by marks, which stand where nothing more was deliverable; and by the checkpoint.
    """
    facts = examined.coverage.judged.facts.shards
    passed: dict[str, list[Position]] = defaultdict(list)
    for shard_id, known in facts.items():
        passed[shard_id] += [link.last for link in known.chain.links]
        passed[shard_id] += [piece.position for piece in known.pieces if piece.position is not None]
    for shard_id, proofs in examined.judgement.proofs.items():
        passed[shard_id] += [proof.last for proof in proofs]
    for shard_id, links in examined.judgement.neighbours.links.items():
        passed[shard_id] += [link.metadata.last for link in links]
    for shard_id, checkpoint in examined.evidence.checkpoints.items():
        passed[shard_id].append(checkpoint)
    return {shard_id: max(positions) for shard_id, positions in passed.items() if positions}


def _with_stream(context: JobContext, examined: Examined, compared: StreamResult, options: AuditOptions) -> Examined:
    """Write down what a comparison with the stream proves, and judge by that, too."""
    if not compared.shards:
        return examined
    prefix, sight, facts = context.place.prefix, examined.sight, examined.coverage.judged.facts
    marks = [
        stream_mark(facts_of(facts.shards, shard), facts.query.scope, *read, writer=context.new_id())
        for shard, read in compared.shards.items()
    ]
    store_marks(context.archive, prefix, [mark for mark in marks if mark is not None])
    statements = read_statements(context.archive, prefix, sight.markers.statements.marks)
    sight = sight._replace(markers=sight.markers._replace(statements=statements))
    known = [*examined.of_objects, *compared.findings]
    published = examined.passes.published
    coverage = judge_coverage(context, sight, examined.judgement.shards, options, known, published)
    return examined._replace(sight=sight, coverage=coverage)


@collector_paused()
def examine(
    context: JobContext,
    sight: DayView,
    options: AuditOptions,
    write: Writing | None,
    before: DayBefore | None = None,
) -> Examined:
    """Look at a day: by its metadata at level inventory, else by every line; `write` makes Parquet files of it.

    Suspicious segments (touching spans, unsorted lines) are read a second time and merged; tasks that held one of
    them are written again, and their first files count no more. `before` is the day before, where it was seen.
    """
    inventory = sight.inventory
    evidence = AuditEvidence(
        sight.markers,
        sight.checkpoints.by_shard,
        expired_before(context.archive, context.place.prefix, inventory.day),
    )
    read = read_objects(context, inventory, options, write, before)
    passes = DayAuditor(context, sight, options, evidence, read.seen, writes=write is not None)
    judgement = passes.judge()
    while True:
        known = of_objects(sight, judgement)
        coverage = judge_coverage(context, sight, judgement.shards, options, known, passes.published)
        stood_on = judgement.hidden(coverage.judged.facts.shards)
        if not stood_on:
            break
        judgement = passes.judge_closer(judgement, stood_on)
    examined = Examined(sight, passes, judgement, evidence, coverage, WorkDone.of(read.results))
    return examined if options.level == "inventory" else _join_lines(context, examined, read, options, write)


def _join_lines(
    context: JobContext, examined: Examined, read: DayRead, options: AuditOptions, write: Writing | None
) -> Examined:
    """Compare lines with each other and with what was dropped; write again what must be."""
    passes, judgement = examined.passes, examined.judgement
    dropped = passes.dropped(judgement)
    if read.collected is not None and write is not None and options.drop_producer_duplicates:
        return _leave_copies_out(context, examined, read.collected, dropped, options, write)
    tainted = passes.tainted(dropped.lines) if dropped.lines else judgement.tainted
    tainted |= {result.number for result in read.results if result.part is None}
    groups: list[MergeGroup] = []
    if judgement.has_merges or dropped.lines or (write is not None and tainted):
        groups = passes.groups(dropped.lines, tainted if write is not None else frozenset())
    orders = _orders_again(context, read.results, groups, write)
    copies = None if read.collected is None else resolve(context, read.collected, passes.grouping)
    second = context.engine(orders)
    whole = [result for result in read.results if result.number not in tainted]
    return examined._replace(
        repeats=tuple(repeat for result in second for repeat in result.repeats),
        parts=tuple(result.part for result in [*whole, *second] if result.part is not None),
        dropped=dropped.findings,
        restored=dropped.restored,
        producers=_producers(context, copies, options, removed=0),
    )


def _leave_copies_out(
    context: JobContext,
    examined: Examined,
    collected: CollectedIds,
    dropped: DroppedRecords,
    options: AuditOptions,
    write: Writing,
) -> Examined:
    """Write the day without copies: all of it was read, and nothing of it was written. The driver holds no object."""
    passes = examined.passes
    groups = passes.deal_groups(dropped.lines, max(1, len(collected.results)))
    again = orders_without_copies(collected, groups, order_argument(context, write))
    copies = resolve(context, collected, passes.grouping, again)
    check_share(copies, options)
    written = copies.found.write()
    earlier, taken = (sum(getattr(result, what) for result in written) for what in ("is_earlier", "is_taken"))
    return examined._replace(
        work=WorkDone(len(written), earlier, taken, read=examined.work.read + sum(one.read for one in written)),
        repeats=tuple(repeat for result in written for repeat in result.repeats),
        parts=tuple(result.part for result in written if result.part is not None),
        dropped=dropped.findings,
        restored=dropped.restored,
        producers=_producers(context, copies, options, removed=copies.total),
    )


def _orders_again(
    context: JobContext, results: Sequence[TaskResult], groups: Sequence[MergeGroup], write: Writing | None
) -> list[Order]:
    """Order what the first tasks have not written right: groups to merge, or without some lines."""
    first_number = max((result.number for result in results), default=-1) + 1
    tasks = plan_tasks(groups, sizes=context.sizes, first_number=first_number)
    return [order_of(context, task, write)._replace(is_again=True) for task in tasks]


def _producers(
    context: JobContext, copies: Copies | None, options: AuditOptions, *, removed: int
) -> ProducerDuplicates:
    if copies is None or options.event_id is None:
        return ProducerDuplicates()
    found = producer_findings(context, copies, options.event_id, left_out=removed > 0)
    return ProducerDuplicates(tuple(found), (ids_check(copies, options.event_id),), removed)
