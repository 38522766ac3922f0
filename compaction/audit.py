"""The audit of one day: list it, read it, join it with its neighbours, and conclude."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from archive.errors import StoreError
from compaction.conclusion import DayResult, Examined, conclude, unreadable
from compaction.day import Day
from compaction.dropped import check_dropped
from compaction.examine import Fields, Witnesses, head_rows, join, known_spans, pieces_of, sort_out, spans_of
from compaction.facts import SegmentFacts
from compaction.inventory import Inventory, list_day
from compaction.leases import Checkpoints
from compaction.memory import collector_paused
from compaction.merging import Repeat
from compaction.places import Place
from compaction.plan import Task, Unit, group_overlaps, plan_tasks, single_units
from compaction.ports import AuditOptions, Ports
from compaction.result import Check
from compaction.stream_level import StreamResult, check_stream
from compaction.surroundings import read_surroundings
from compaction.tombstones import expired_before
from compaction.work import Order, Outcome, Part

if TYPE_CHECKING:
    from compaction.findings import Finding


class _Read(NamedTuple):
    """What reading the day has given: by tasks (facts) or by HEAD (metadata alone)."""

    metadata: Mapping[str, Fields]
    facts: Mapping[str, SegmentFacts] | None
    outcomes: Sequence[Outcome]


@collector_paused()
def audit_day(ports: Ports, day: Day, options: AuditOptions) -> DayResult:
    """Audit one day. What cannot be read is no failure of the command: the verdict is then `unknown`."""
    try:
        checkpoints = ports.checkpoints()
        inventory = list_day(ports.archive, day, ports.place.prefix, ports.waits).only(options.shard)
        examined = examine(ports, inventory, checkpoints, options, None, "")
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
    out: Place | None,
    folder: str,
) -> Examined:
    """Look at a day: by its metadata at level inventory, else by every line; writes Parquet when `out` is given.

    Suspicious segments (touching spans, unsorted lines) are read a second time and merged; tasks that held one of
    them are written again, and their first files count no more.
    """
    witnesses = Witnesses(
        read_surroundings(ports.archive, ports.place.prefix, ports.waits).only(options.shard),
        checkpoints.by_shard,
        expired_before(ports.archive, ports.place.prefix, inventory.day, ports.waits),
    )
    read = _read(ports, inventory, options, out, folder)
    described = sort_out(ports.archive, inventory, read.metadata, ports.waits)
    repeats: tuple[Repeat, ...] = ()
    parts: tuple[Part, ...] = ()
    if read.facts is not None:
        units = group_overlaps(spans_of(inventory, described, read.facts))
        repeats, parts = _merge(ports, read.outcomes, units, out, folder)
    chains = join(ports.archive, inventory, described, witnesses, ports.waits, lookback_days=options.lookback_days)
    dropped: tuple[Finding, ...] = ()
    if read.facts is not None:
        known = known_spans(described, chains, witnesses)
        dropped = tuple(check_dropped(ports.archive, inventory.prefix, described.segments, known, ports.waits))
    return Examined(inventory, described, chains, witnesses, checkpoints, read.facts, repeats, parts, dropped)


def _read(ports: Ports, inventory: Inventory, options: AuditOptions, out: Place | None, folder: str) -> _Read:
    if options.level == "inventory":
        return _Read(head_rows(ports.archive, inventory.rows, ports.waits), None, ())
    metadata = head_rows(ports.archive, inventory.foreign, ports.waits)
    tasks = plan_tasks(single_units(pieces_of(inventory)))
    outcomes = ports.engine([_order(ports, task, out, folder) for task in tasks])
    facts = {read.key: read for outcome in outcomes for read in outcome.facts}
    metadata |= {key: read.metadata for key, read in facts.items()}
    return _Read(metadata, facts, outcomes)


def _merge(
    ports: Ports, outcomes: Sequence[Outcome], units: Sequence[Unit], out: Place | None, folder: str
) -> tuple[tuple[Repeat, ...], tuple[Part, ...]]:
    """Merge what must be merged; returns repeats, and the files that hold every unit once."""
    good = {unit.pieces[0].key for unit in units if not unit.merge}
    tainted: list[Outcome] = []
    whole: list[Outcome] = []
    for outcome in outcomes:
        lines = {read.key for read in outcome.facts if read.lines or read.problem}
        (whole if lines <= good else tainted).append(outcome)
    again = {read.key for outcome in tainted for read in outcome.facts}
    wanted = [unit for unit in units if unit.merge or (out is not None and unit.pieces[0].key in again)]
    tasks = plan_tasks(wanted, first_number=len(outcomes))
    second = ports.engine([_order(ports, task, out, folder) for task in tasks])
    repeats = tuple(repeat for outcome in second for repeat in outcome.repeats)
    return repeats, tuple(outcome.part for outcome in [*whole, *second] if outcome.part is not None)


def _order(ports: Ports, task: Task, out: Place | None, folder: str) -> Order:
    return Order(task, ports.place.address, None if out is None else out.address, folder)
