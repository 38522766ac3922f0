"""The audit of one day, and the examination that audits and rewrites share."""

from collections import defaultdict
from typing import Final

from compaction.audit import conclusion, copies
from compaction.audit.collecting import CollectedIds, DayBefore
from compaction.audit.conclusion import DayResult, Examined, WorkDone
from compaction.audit.coverage import judge_coverage
from compaction.audit.day_auditor import DayAuditor
from compaction.audit.day_view import DayView, list_into_groups, view_day
from compaction.audit.known import with_published
from compaction.audit.reading import DayRead, Writing, order_argument, orders_again, read_known, read_objects
from compaction.audit.rules.dropped import DroppedRecords
from compaction.audit.stream.level import ComparisonRequest, StreamResult, compare_with_stream, store_stream_marks
from compaction.audit.withdrawing import withdraw_boundaries
from compaction.inventory.memory import collector_paused
from compaction.inventory.tombstones import expired_near
from compaction.job.context import AuditOptions, JobContext
from compaction.job.scope import judged_scope
from compaction.job.so_far import part_end
from compaction.publish.ends import PublishedEnds
from compaction.shard_groups.port import driver_values
from compaction.verdict.audit_document import AuditCheck
from compaction.verdict.findings import Code
from minutebook.errors import StoreError
from minutebook.format.day import Day
from minutebook.format.position import Position
from minutebook.index.last_segments import LastSegments, none_published
from minutebook.owner import read_owned
from minutebook.proof.statements import read_statements
from minutebook.store.places import StorePrefix
from minutebook.store.tombstones import is_expired

VIEWS: Final = 3
"""How often a day is viewed that changes while it is read."""


@collector_paused()
def audit_day(context: JobContext, day: Day, options: AuditOptions) -> DayResult:
    """Audit one day. What cannot be read does not fail the command: the verdict is then `unknown`.

    Raises:
        SafetyRefusal: the prefix belongs to another stream.
        SettingsError: the day ended before the archive begins, or so far nothing of it is to be judged.
        NoFullHour, NoCoveredHour: a day so far without a time has no hour to judge yet.
    """
    prefix = context.place.prefix
    now_ms = context.clock.now_ms()
    compared = StreamResult((), (), 0)
    try:
        application = read_owned(context.archive, prefix, context.owner)
        until_ms = part_end(context, day, options.so_far_ms, application)
        judged_scope(day, application, now_ms, until_ms)
        if is_expired(context.archive, prefix, day):
            return conclusion.expired_result(context, day, options)
        for _ in range(VIEWS):
            view = with_published(context, view_day(context, day, until_ms, options.shard), options)
            examined = examine(context, view, options, None)
            if not is_in_motion(context, examined):
                break
        else:
            examined = examined._replace(is_in_motion=True)
        if options.level == "stream":
            compared = _compare_with_stream(context, examined, options.sample_minutes)
        if compared.lost and has_changed(context, examined):
            # A segment may have been committed after the listing that was compared.
            compared = compared._replace(lost={})
        if compared.shards or compared.lost:
            compared = _store_marks(context, examined, compared)
            examined = _judge_with_stream(context, examined, compared, options.lookback_days)
            if is_in_motion(context, examined):
                examined = examined._replace(is_in_motion=True)
    except StoreError as exc:
        return conclusion.unreadable_result(context, day, options, exc)
    if options.level == "stream":
        withdraw_boundaries(context, examined)
    audit = conclusion.conclude(context, examined, options, None, compared.findings, compared.checks)
    return DayResult(audit, examined.minutes, examined.view.retention_ms)


def is_in_motion(context: JobContext, examined: Examined) -> bool:
    """Return whether a chain looks broken, and the day has changed meanwhile: then it is viewed again.

    What lies behind the scope's end does not count: it always changes.
    """
    if all(finding.code != Code.BROKEN_CHAIN for finding in examined.chain_findings):
        return False
    return has_changed(context, examined)


def has_changed(context: JobContext, examined: Examined) -> bool:
    """Return whether the day lists other objects than those that were examined."""
    before = examined.inventory
    now = list_into_groups(context, before.day, before.until_ms, before.shard, before.grouping)
    return now.digest() != before.digest()


@collector_paused()
def examine(
    context: JobContext,
    view: DayView,
    options: AuditOptions,
    write: Writing | None,
    before: DayBefore | None = None,
) -> Examined:
    """Examine a day: by its metadata at level inventory, else by every line; `write` makes Parquet files of it.

    At level inventory lines count as read that the published day knows (`known.with_published`).
    Suspicious segments (touching spans, unsorted lines) are read a second time and merged; tasks that held one of
    them are written again, and their first files count no more. `before` is the day before, where it is known.
    """
    read = read_objects(context, view.inventory, options, write, before)
    examined = _judge(context, view, options, read, writes=write is not None)
    if options.level == "inventory":
        touching = sum(group.merges for group in examined.judgement.groups.values())
        examined = examined._replace(unread=sum(driver_values(read.objects)) or touching)
        return _with_dropped(examined, examined.auditor.dropped(examined.judgement))
    dropped = examined.auditor.dropped(examined.judgement)
    examined = _with_dropped(examined, dropped)
    if read.collected is not None and write is not None and options.drop_producer_duplicates:
        return _write_without_copies(context, examined, read.collected, dropped, options, write)
    return _merge(context, examined, read, dropped, write)


@collector_paused()
def examine_known(context: JobContext, view: DayView, options: AuditOptions) -> Examined:
    """Examine a published day, or one that was held, by what is known of its objects (`known.with_known`).

    Only objects that are not known are read. Lines are not compared with each other, and nothing but facts is
    written: the findings are those of `examine`, without records that several objects hold.
    """
    read = read_known(context, view)
    examined = _judge(context, view, options, read, writes=True)
    dropped = examined.auditor.dropped(examined.judgement)
    read_again = sum(driver_values(read.objects))
    return _with_dropped(examined, dropped)._replace(read_again=read_again)


def _with_dropped(examined: Examined, dropped: DroppedRecords) -> Examined:
    return examined._replace(
        dropped=dropped.findings,
        restored=dropped.restored,
        restored_digest=dropped.digest,
        outside_hours=dropped.outside,
    )


def _judge(context: JobContext, view: DayView, options: AuditOptions, read: DayRead, *, writes: bool) -> Examined:
    """Judge what was read, as closely as coverage turns out to need it. `writes`: dropped lines may come back."""
    expired = expired_near(context.archive, context.place.prefix, view.inventory.day)
    published, lookback_days = _published_ends(context, options.published), options.lookback_days
    auditor = DayAuditor(
        context,
        view,
        read.objects,
        expired,
        published,
        lookback_days=lookback_days,
        writes=writes,
        numbers=options.numbers,
    )
    judgement = auditor.judge()
    while True:
        coverage = judge_coverage(context, view, judgement, published, lookback_days)
        hidden = judgement.hidden(coverage.judged.facts.shards)
        if not hidden:
            break
        judgement = auditor.judge_closer(judgement, hidden)
    return Examined(view, auditor, judgement, coverage, WorkDone.of(read.results))


def _published_ends(context: JobContext, place: StorePrefix | None) -> LastSegments:
    return none_published if place is None else PublishedEnds(lambda: context.open(place.address), place.prefix)


def _merge(
    context: JobContext,
    examined: Examined,
    read: DayRead,
    dropped: DroppedRecords,
    write: Writing | None,
) -> Examined:
    """Compare the lines of objects that touch each other; write again what the first tasks have not written right."""
    auditor, judgement = examined.auditor, examined.judgement
    redo_tasks = auditor.tasks_to_redo(dropped.lines) if dropped.lines else judgement.redo_tasks
    redo_tasks |= {result.number for result in read.results if result.part is None}
    groups = []
    has_merges = any(group.merges for group in judgement.groups.values())
    if has_merges or dropped.lines or (write is not None and redo_tasks):
        groups = auditor.groups_to_redo(dropped.lines, redo_tasks if write is not None else frozenset())
    second = context.engine(orders_again(context, groups, read.results, write))
    producers = copies.ProducerDuplicates()
    if read.collected is not None:
        day_copies = copies.resolve_copies(context, read.collected, auditor.groups)
        producers = copies.report_copies(context, day_copies, read.collected.expression, removed=0)
    results = [*(result for result in read.results if result.number not in redo_tasks), *second]
    return examined._replace(
        repeats=tuple(repeat for result in second for repeat in result.repeats),
        parts=tuple(result.part for result in results if result.part is not None),
        producers=producers,
    )


def _write_without_copies(
    context: JobContext,
    examined: Examined,
    collected: CollectedIds,
    dropped: DroppedRecords,
    options: AuditOptions,
    write: Writing,
) -> Examined:
    """Write the day without copies: all of it was read, and nothing of it was written. The driver holds no object."""
    groups = examined.auditor.groups
    orders = copies.orders_without_copies(collected, groups, dropped.lines, order_argument(context, write))
    day_copies = copies.resolve_copies(context, collected, groups, orders)
    copies.check_share(day_copies, collected.expression, options.max_repeats, options.command)
    results = day_copies.shuffled.write()
    return examined._replace(
        work=WorkDone.of(results),
        repeats=tuple(repeat for result in results for repeat in result.repeats),
        parts=tuple(result.part for result in results if result.part is not None),
        producers=copies.report_copies(context, day_copies, collected.expression, removed=day_copies.total),
    )


def _compare_with_stream(context: JobContext, examined: Examined, sample_minutes: int | None) -> StreamResult:
    inventory = examined.inventory
    return compare_with_stream(
        context,
        inventory,
        examined.auditor.segments(),
        examined.view.markers,
        _passed_by_readers(examined),
        ComparisonRequest(inventory.shard, sample_minutes),
    )


def _passed_by_readers(examined: Examined) -> dict[str, Position]:
    """Return, by shard, the last position that its reader has passed: nothing up to there comes again.

    By segments, wherever their day; by marks, which stand where nothing more was deliverable; and by the checkpoint.
    """
    passed: dict[str, list[Position]] = defaultdict(list)
    for shard_id, facts in examined.coverage.judged.facts.shards.items():
        passed[shard_id] += [link.last for link in facts.chain.links]
        passed[shard_id] += [piece.position for piece in facts.pieces if piece.position is not None]
    for shard_id, proofs in examined.judgement.proofs.items():
        passed[shard_id] += [proof.last for proof in proofs]
    for shard_id, links in examined.judgement.neighbours.links.items():
        passed[shard_id] += [link.metadata.last for link in links]
    for shard_id, checkpoint in examined.view.checkpoints.by_shard.items():
        passed[shard_id].append(checkpoint)
    return {shard_id: max(positions) for shard_id, positions in passed.items() if positions}


def _store_marks(context: JobContext, examined: Examined, compared: StreamResult) -> StreamResult:
    """Store marks of what a comparison proves or refutes. Where that fails, its findings stand, with a check."""
    statements = examined.view.markers.statements
    before = dict.fromkeys(stored.mark for marks in statements.marks.values() for stored in marks)
    try:
        store_stream_marks(context, compared, examined.coverage.judged.facts, before)
    except StoreError as exc:
        check = AuditCheck(id="stream_marks", status="unknown", message=f"not all marks were stored: {exc}")
        return compared._replace(checks=(*compared.checks, check))
    return compared


def _judge_with_stream(
    context: JobContext, examined: Examined, compared: StreamResult, lookback_days: int
) -> Examined:
    """Judge coverage by the marks of a comparison with the stream, too."""
    view, prefix = examined.view, context.place.prefix
    statements = read_statements(context.archive, prefix, view.markers.statements.marks)
    view = view._replace(markers=view.markers._replace(statements=statements))
    published = examined.auditor.published
    coverage = judge_coverage(context, view, examined.judgement, published, lookback_days, compared.findings)
    return examined._replace(view=view, coverage=coverage)
