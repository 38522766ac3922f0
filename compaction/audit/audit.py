"""The audit of one day: list it, read it, join it with its neighbours, and conclude."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from archive.errors import StoreError
from archive.format.day import Day
from archive.format.position import Position
from archive.proof.stated import read_statements
from archive.store.places import StorePrefix
from compaction.audit.chains import join, known_spans
from compaction.audit.conclusion import (
    DayResult,
    Examined,
    ProducerDuplicates,
    WorkDone,
    conclude,
    expired,
    of_objects,
    unreadable,
)
from compaction.audit.coverage import judge_coverage
from compaction.audit.dropped import check_dropped
from compaction.audit.evidence import Evidence
from compaction.audit.originals import Originals
from compaction.audit.stream_level import StreamResult, check_stream
from compaction.audit.stream_marks import facts_of, store_marks, stream_mark
from compaction.inventory.heads import head_rows, sort_out
from compaction.inventory.inventory import Inventory, list_day
from compaction.inventory.memory import collector_paused
from compaction.inventory.owner import read_owned
from compaction.inventory.segments import Fields
from compaction.inventory.tombstones import expired_before, is_expired
from compaction.job.context import AuditOptions, JobContext
from compaction.job.scope import judged_scope, scope_end
from compaction.job.sight import Sight, look
from compaction.producers.copies import CollectedIds, Copies, collect_ids, resolve
from compaction.producers.day_before import DayBefore, look_back
from compaction.producers.findings import ids_check, producer_findings
from compaction.tasks.facts import SegmentFacts
from compaction.tasks.finished import YOUNG_MS, Part, find_facts, fingerprint
from compaction.tasks.merging import Repeat
from compaction.tasks.plan import (
    MergeGroup,
    Task,
    group_overlaps,
    plan_tasks,
    raw_objects,
    single_groups,
    spans_of,
    with_restored,
)
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.audit_document import AuditCheck
from compaction.verdict.findings import Code

LOOKS: Final = 3
"""How often a day is looked at that changes while it is read."""


class _Read(NamedTuple):
    """What reading the day has given: by tasks (facts) or by HEAD (metadata alone)."""

    metadata: Mapping[str, Fields]
    facts: Mapping[str, SegmentFacts] | None
    results: Sequence[TaskResult]
    collected: CollectedIds | None = None


class Writing(NamedTuple):
    """Where a rewrite writes: keys of its files begin with `folder`."""

    out: StorePrefix
    folder: str


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
            sight = look(context, day, until_ms, options.shard)
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
    return DayResult(audit, examined.described)


def is_in_motion(context: JobContext, examined: Examined, options: AuditOptions) -> bool:
    """Tell whether a chain looks broken, and the day has changed meanwhile: then it is looked at again.

    What lies behind the scope's end counts for nothing: it always changes.
    """
    if all(found.code != Code.BROKEN_CHAIN for found in examined.about_chains):
        return False
    seen = examined.inventory
    again = list_day(context.archive, seen.day, seen.prefix).until(seen.until_ms).only(options.shard)
    return again.digest() != seen.digest()


def _against_stream(context: JobContext, examined: Examined, options: AuditOptions) -> StreamResult:
    if options.level != "stream":
        return StreamResult((), (), 0)
    if context.stream is None:
        check = AuditCheck(id="stream_readable", status="unknown", message="no stream was given")
        return StreamResult((), (check,), 0)
    markers = examined.evidence.markers
    segments, ends = examined.described.segments, _passed_by_readers(examined)
    return check_stream(context, context.stream(), examined.inventory, segments, markers, ends, options.shard)


def _passed_by_readers(examined: Examined) -> dict[str, Position]:
    """Return, by shard, the last position that its reader has passed: nothing up to there comes again.

    By segments, wherever their day; by marks, which stand where nothing more was deliverable; and by the checkpoint.
    """
    facts = examined.coverage.judged.facts.shards
    passed: dict[str, list[Position]] = defaultdict(list)
    for shard_id, known in facts.items():
        passed[shard_id] += [link.last for link in known.chain.links]
        passed[shard_id] += [piece.position for piece in known.pieces if piece.position is not None]
    for segment in examined.described.segments:
        passed[segment.metadata.shard_id].append(segment.metadata.last)
    for shard_id, links in examined.chains.neighbours.links.items():
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
        stream_mark(facts_of(facts.shards, shard), facts.asked.scope, *read, writer=context.new_id())
        for shard, read in compared.shards.items()
    ]
    store_marks(context.archive, prefix, [mark for mark in marks if mark is not None])
    statements = read_statements(context.archive, prefix, sight.markers.statements.marks)
    sight = sight._replace(markers=sight.markers._replace(statements=statements))
    known = [*examined.of_objects, *compared.findings]
    coverage = judge_coverage(context, sight, examined.described, options, known)
    return examined._replace(sight=sight, coverage=coverage)


@collector_paused()
def examine(
    context: JobContext,
    sight: Sight,
    options: AuditOptions,
    write: Writing | None,
    before: DayBefore | None = None,
) -> Examined:
    """Look at a day: by its metadata at level inventory, else by every line; `write` makes Parquet files of it.

    Suspicious segments (touching spans, unsorted lines) are read a second time and merged; tasks that held one of
    them are written again, and their first files count no more. `before` is the day before, where it was seen.
    """
    inventory = sight.inventory
    evidence = Evidence(
        sight.markers,
        sight.checkpoints.by_shard,
        expired_before(context.archive, context.place.prefix, inventory.day),
    )
    read = _read(context, inventory, options, write, before)
    described = sort_out(context.archive, inventory, read.metadata)
    chains = join(context.archive, inventory, described, evidence, lookback_days=options.lookback_days)
    known = of_objects(sight, described, chains)
    coverage = judge_coverage(context, sight, described, options, known)
    done = WorkDone(len(read.results), sum(result.is_earlier for result in read.results))
    examined = Examined(sight, described, chains, evidence, coverage, read.facts, done)
    return examined if read.facts is None else _join_lines(context, examined, read, options, write)


def _join_lines(
    context: JobContext, examined: Examined, read: _Read, options: AuditOptions, write: Writing | None
) -> Examined:
    """Compare lines with each other and with what was dropped; write again what must be."""
    inventory, described, facts = examined.inventory, examined.described, read.facts or {}
    groups = group_overlaps(spans_of(inventory, described, facts))
    known = known_spans(described, examined.chains, examined.evidence)
    readable = [segment.key for segment in described.segments if not facts[segment.key].problem]
    originals = Originals(context.archive, inventory.prefix, inventory.day, known, days=options.lookback_days)
    dropped = check_dropped(
        context.archive, inventory.prefix, described.segments, originals, writable=readable if write else ()
    )
    copies = None if read.collected is None else resolve(context, read.collected, groups)
    left_out = copies.dropped if copies and write and options.drop_producer_duplicates else {}
    repeats, parts = _write_again(
        context, read.results, with_restored(groups, raw_objects(inventory), dropped.lines), write, left_out
    )
    return examined._replace(
        repeats=repeats,
        parts=parts,
        dropped=dropped.findings,
        restored=dropped.restored,
        producers=_producers(context, copies, options, removed=sum(map(len, left_out.values()))),
    )


def _producers(
    context: JobContext, copies: Copies | None, options: AuditOptions, *, removed: int
) -> ProducerDuplicates:
    if copies is None or options.event_id is None:
        return ProducerDuplicates()
    found = producer_findings(context, copies, left_out=removed > 0)
    return ProducerDuplicates(tuple(found), (ids_check(copies, options.event_id),), removed)


def _read(
    context: JobContext, inventory: Inventory, options: AuditOptions, write: Writing | None, before: DayBefore | None
) -> _Read:
    if options.level == "inventory":
        return _Read(head_rows(context.archive, inventory.rows), None, ())
    metadata = head_rows(context.archive, inventory.foreign)
    tasks = plan_tasks(single_groups(raw_objects(inventory)), sizes=context.sizes)
    # Which lines are left out is known when all are read: nothing is written before that.
    orders = [_order(context, task, None if options.drop_producer_duplicates else write) for task in tasks]
    if write is not None and options.event_id is None:
        orders = _going_on(context, orders, write)
    collected = None
    if options.event_id is not None:
        collected = collect_ids(context, orders, before or look_back(context, inventory.day, options), options)
    results = context.engine(orders) if collected is None else collected.results
    facts = {read.key: read for result in results for read in result.facts}
    metadata |= {key: read.metadata for key, read in facts.items()}
    return _Read(metadata, facts, results, collected)


def _going_on(context: JobContext, orders: Sequence[Order], write: Writing) -> list[Order]:
    """Let each task leave its facts, and see those that a run has left that was ended before it had published."""
    out = context.open(write.out.address)
    left = find_facts(out, write.folder, context.clock.now_ms() - YOUNG_MS)
    return [order._replace(keeps=True, earlier=left.get(fingerprint(order.task), ())) for order in orders]


def _write_again(
    context: JobContext,
    results: Sequence[TaskResult],
    groups: Sequence[MergeGroup],
    write: Writing | None,
    left_out: Mapping[str, Sequence[int]],
) -> tuple[tuple[Repeat, ...], tuple[Part, ...]]:
    """Merge what must be merged; returns repeats, and the files that hold every group once."""
    good = {group.objects[0].key for group in groups if not group.merge}
    merged = {raw_object.key for group in groups if group.merge for raw_object in group.objects}
    tainted: list[TaskResult] = []
    whole: list[TaskResult] = []
    for result in results:
        lines = {read.key for read in result.facts if read.lines or read.problem or read.key in merged}
        (whole if lines <= good and result.part is not None else tainted).append(result)
    again = {read.key for result in tainted for read in result.facts}
    wanted = [group for group in groups if group.merge or (write is not None and group.objects[0].key in again)]
    tasks = plan_tasks(wanted, sizes=context.sizes, first_number=len(results))
    second = context.engine([_order(context, task, write, left_out) for task in tasks])
    repeats = tuple(repeat for result in second for repeat in result.repeats)
    return repeats, tuple(result.part for result in [*whole, *second] if result.part is not None)


def _order(
    context: JobContext, task: Task, write: Writing | None, left_out: Mapping[str, Sequence[int]] | None = None
) -> Order:
    dropped = (
        {raw_object.key: left_out[raw_object.key] for raw_object in task.objects if raw_object.key in left_out}
        if left_out
        else {}
    )
    if write is None:
        return Order(task, context.place.address)
    return Order(task, context.place.address, write.out.address, write.folder, dropped=dropped)
