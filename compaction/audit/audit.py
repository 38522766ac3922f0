"""The audit of one day: list it, read it, join it with its neighbours, and conclude."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from archive.errors import StoreError
from archive.format.day import Day
from archive.store.places import StorePrefix
from compaction.audit.chains import Fields, Witnesses, head_rows, join, known_spans, pieces_of, sort_out, spans_of
from compaction.audit.conclusion import DayResult, Examined, ProducerDuplicates, conclude, unreadable
from compaction.audit.dropped import check_dropped
from compaction.audit.stream_level import StreamResult, check_stream
from compaction.inventory.checkpoints import Checkpoints
from compaction.inventory.inventory import Inventory, list_day
from compaction.inventory.memory import collector_paused
from compaction.inventory.shard_markers import read_surroundings
from compaction.inventory.tombstones import expired_before
from compaction.job.context import AuditOptions, Ports
from compaction.producers.copies import Copies, Dealt, deal, resolve
from compaction.producers.day_before import DayBefore, look_back
from compaction.producers.findings import ids_check, producer_findings
from compaction.tasks.facts import SegmentFacts
from compaction.tasks.merging import Repeat
from compaction.tasks.plan import Task, Unit, group_overlaps, plan_tasks, single_units, with_back
from compaction.tasks.task import Order, Outcome, Part
from compaction.verdict.audit_document import Check


class _Read(NamedTuple):
    """What reading the day has given: by tasks (facts) or by HEAD (metadata alone)."""

    metadata: Mapping[str, Fields]
    facts: Mapping[str, SegmentFacts] | None
    outcomes: Sequence[Outcome]
    dealt: Dealt | None = None


class Writing(NamedTuple):
    """Where a rewrite writes: keys of its files begin with `folder`."""

    out: StorePrefix
    folder: str


@collector_paused()
def audit_day(ports: Ports, day: Day, options: AuditOptions) -> DayResult:
    """Audit one day. What cannot be read is no failure of the command: the verdict is then `unknown`."""
    try:
        checkpoints = ports.checkpoints()
        inventory = list_day(ports.archive, day, ports.place.prefix, ports.waits).only(options.shard)
        examined = examine(ports, inventory, checkpoints, options, None)
        further = _against_stream(ports, examined, options)
    except StoreError as exc:
        return unreadable(ports, day, options, exc)
    audit = conclude(ports, examined, options, None, further.findings, further.checks)
    return DayResult(audit, examined.described)


def _against_stream(ports: Ports, examined: Examined, options: AuditOptions) -> StreamResult:
    if options.level != "stream":
        return StreamResult((), (), 0)
    if ports.stream is None:
        check = Check(id="stream_readable", status="unknown", message="no stream was given")
        return StreamResult((), (check,), 0)
    surroundings = examined.witnesses.surroundings
    segments = examined.described.segments
    return check_stream(ports, ports.stream(), examined.inventory, segments, surroundings, options.shard)


@collector_paused()
def examine(
    ports: Ports,
    inventory: Inventory,
    checkpoints: Checkpoints,
    options: AuditOptions,
    write: Writing | None,
    before: DayBefore | None = None,
) -> Examined:
    """Look at a day: by its metadata at level inventory, else by every line; `write` makes Parquet files of it.

    Suspicious segments (touching spans, unsorted lines) are read a second time and merged; tasks that held one of
    them are written again, and their first files count no more. `before` is the day before, where it was seen.
    """
    witnesses = Witnesses(
        read_surroundings(ports.archive, ports.place.prefix, ports.waits).only(options.shard),
        checkpoints.by_shard,
        expired_before(ports.archive, ports.place.prefix, inventory.day, ports.waits),
    )
    read = _read(ports, inventory, options, write, before)
    described = sort_out(ports.archive, inventory, read.metadata, ports.waits)
    chains = join(ports.archive, inventory, described, witnesses, ports.waits, lookback_days=options.lookback_days)
    examined = Examined(inventory, described, chains, witnesses, checkpoints, read.facts)
    return examined if read.facts is None else _join_lines(ports, examined, read, options, write)


def _join_lines(
    ports: Ports, examined: Examined, read: _Read, options: AuditOptions, write: Writing | None
) -> Examined:
    """Compare lines with each other and with what was dropped; write again what must be."""
    inventory, described, facts = examined.inventory, examined.described, read.facts or {}
    units = group_overlaps(spans_of(inventory, described, facts))
    known = known_spans(described, examined.chains, examined.witnesses)
    readable = [one.key for one in described.segments if not facts[one.key].problem]
    dropped = check_dropped(
        ports.archive, inventory.prefix, described.segments, known, ports.waits, writable=readable if write else ()
    )
    copies = None if read.dealt is None else resolve(ports, read.dealt, units)
    left_out = copies.dropped if copies and write and options.drop_producer_duplicates else {}
    repeats, parts = _write_again(
        ports, read.outcomes, with_back(units, pieces_of(inventory), dropped.back), write, left_out
    )
    return examined._replace(
        repeats=repeats,
        parts=parts,
        dropped=dropped.findings,
        restored=dropped.restored,
        producers=_producers(ports, copies, options, removed=sum(map(len, left_out.values()))),
    )


def _producers(ports: Ports, copies: Copies | None, options: AuditOptions, *, removed: int) -> ProducerDuplicates:
    if copies is None or options.event_id is None:
        return ProducerDuplicates()
    found = producer_findings(ports, copies, left_out=removed > 0)
    return ProducerDuplicates(tuple(found), (ids_check(copies, options.event_id),), removed)


def _read(
    ports: Ports, inventory: Inventory, options: AuditOptions, write: Writing | None, before: DayBefore | None
) -> _Read:
    if options.level == "inventory":
        return _Read(head_rows(ports.archive, inventory.rows, ports.waits), None, ())
    metadata = head_rows(ports.archive, inventory.foreign, ports.waits)
    tasks = plan_tasks(single_units(pieces_of(inventory)))
    # Which lines are left out is known when all are read: nothing is written before that.
    orders = [_order(ports, task, None if options.drop_producer_duplicates else write) for task in tasks]
    dealt = None
    if options.event_id is not None:
        dealt = deal(ports, orders, before or look_back(ports, inventory.day, options), options)
    outcomes = ports.engine(orders) if dealt is None else dealt.outcomes
    facts = {read.key: read for outcome in outcomes for read in outcome.facts}
    metadata |= {key: read.metadata for key, read in facts.items()}
    return _Read(metadata, facts, outcomes, dealt)


def _write_again(
    ports: Ports,
    outcomes: Sequence[Outcome],
    units: Sequence[Unit],
    write: Writing | None,
    left_out: Mapping[str, Sequence[int]],
) -> tuple[tuple[Repeat, ...], tuple[Part, ...]]:
    """Merge what must be merged; returns repeats, and the files that hold every unit once."""
    good = {unit.pieces[0].key for unit in units if not unit.merge}
    merged = {piece.key for unit in units if unit.merge for piece in unit.pieces}
    tainted: list[Outcome] = []
    whole: list[Outcome] = []
    for outcome in outcomes:
        lines = {read.key for read in outcome.facts if read.lines or read.problem or read.key in merged}
        (whole if lines <= good and outcome.part is not None else tainted).append(outcome)
    again = {read.key for outcome in tainted for read in outcome.facts}
    wanted = [unit for unit in units if unit.merge or (write is not None and unit.pieces[0].key in again)]
    tasks = plan_tasks(wanted, first_number=len(outcomes))
    second = ports.engine([_order(ports, task, write, left_out) for task in tasks])
    repeats = tuple(repeat for outcome in second for repeat in outcome.repeats)
    return repeats, tuple(outcome.part for outcome in [*whole, *second] if outcome.part is not None)


def _order(
    ports: Ports, task: Task, write: Writing | None, left_out: Mapping[str, Sequence[int]] | None = None
) -> Order:
    dropped = {piece.key: left_out[piece.key] for piece in task.pieces if piece.key in left_out} if left_out else {}
    if write is None:
        return Order(task, ports.place.address)
    return Order(task, ports.place.address, write.out.address, write.folder, dropped=dropped)
