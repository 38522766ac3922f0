"""Copies of events in a day, by their ids: producers that retry send an event twice, with the same payload.

    objects of both days, with their ids -> which take part: those that are whole, in order, and overlap no other
    ids of these                         -> copies, each with the task that leaves it out; and conflicts, which stay
    copies, conflicts                    -> a finding a shard, and how many records had an id

Two steps, because it is known which objects take part when all tasks are done. Tasks answer for the groups of their
shards; the driver holds a few values per shard, and the numbers of objects in doubt.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from compaction.audit.collecting import CollectedIds
from compaction.audit.rules.chain import JudgedMinutes
from compaction.audit.shards.group_view import GroupContext, GroupScope, GroupView
from compaction.audit.shards.misplaced import ask_foreign, by_group_of_key, find_misplaced
from compaction.audit.shards.objects import OrderArgument, all_objects
from compaction.event_ids.copies import SAMPLES, IdConflict, Layout, ShardTally, Tally
from compaction.event_ids.dropping import DroppedLines, Drops, pack_drops, pack_line, unpack_drops
from compaction.inventory.day_objects import DayObjects
from compaction.job.context import FoundCopies, JobContext
from compaction.parquet.plan import MergeGroup, RawObject, RestoredLines, Task, order_of_objects, raw_objects
from compaction.shard_groups.port import GroupValue, ShardGroups, Values
from compaction.tasks.finished import fingerprint
from compaction.verdict.audit_document import AuditCheck
from compaction.verdict.basis import digest_of_lines
from compaction.verdict.findings import Code, Finding, finding
from minutebook.compression import compression_of
from minutebook.coverage.intervals import Interval
from minutebook.errors import SafetyRefusal
from minutebook.format.minute import MINUTE_MS, minute_text
from minutebook.format.position import Position
from minutebook.format.record import decode_line
from minutebook.format.segment import inflate

_READ_AGAIN: Final = 3
"""How many objects of a shard are read once more, for the positions that its finding shows."""


class Copies(NamedTuple):
    """The copies of a day, and the records that have the id of an event and another payload.

    `objects` are those that findings name, by number. `shuffled` can run the tasks that leave copies out. `doubt`
    says why copies of events of the day before may not be reported, and `doubted` is a digest of the objects that are
    the reason. `lines` took part, `without_id` of them had no id.
    """

    objects: Mapping[int, RawObject]
    shards: Mapping[str, ShardTally]
    shuffled: FoundCopies
    doubt: str
    doubted: str
    lines: int
    without_id: int

    @property
    def total(self) -> int:
        """All copies."""
        return sum(shard.copies.records for shard in self.shards.values())

    @property
    def conflicts(self) -> int:
        """All conflicts."""
        return sum(shard.conflicts.records for shard in self.shards.values())

    @property
    def share(self) -> float:
        """Records whose id another record had before, among the lines that have an id."""
        return (self.total + self.conflicts) / max(1, self.lines - self.without_id)


class ProducerDuplicates(NamedTuple):
    """What an audit says of copies, where the user named the event id. `removed` lines are left out."""

    findings: tuple[Finding, ...] = ()
    checks: tuple[AuditCheck, ...] = ()
    removed: int = 0


def orders_without_copies(
    collected: CollectedIds,
    groups: Mapping[int, GroupContext],
    lines: Mapping[str, RestoredLines],
    order: OrderArgument,
) -> ShardGroups:
    """Return the orders that leave copies out, each in the group of the task that has read its objects.

    `groups` are those that the day was judged by, `lines` come back; `order` says where tasks read and write.
    """
    tasks = max(1, len(collected.results))
    restored = by_group_of_key(collected.inventory, lines)
    redone = {number: GroupToWrite(group, restored.get(number, {})) for number, group in groups.items()}
    dropping = order.order._replace(dropped=DroppedLines(collected.expression), is_again=True)
    arguments = {number: order._replace(order=dropping).numbered(number) for number in range(len(collected.results))}
    return collected.objects.repartition(groups_to_tasks, redone, tasks).repartition(
        order_without_copies, arguments, tasks
    )


def resolve_copies(
    context: JobContext,
    collected: CollectedIds,
    groups: Mapping[int, GroupContext],
    orders: ShardGroups | None = None,
) -> Copies:
    """Find the copies. Only objects take part that are whole, in order, and overlap no other.

    `groups` are those that the day was judged by. Lines of other objects are in doubt, and kept: a finding of their
    own says what is wrong with them. `orders` are those that leave copies out; None: nothing is left out.
    """
    of_day = collected.objects.collect(taking_part, groups)
    of_before, doubt, doubted = _taking_part_before(context, collected)
    excluded = frozenset(number for day in (of_day, of_before) for group in day.values() for number in group.excluded)
    layout = Layout(collected.first_of_day, collected.shards.starts, excluded)
    if orders is not None:
        layout = layout._replace(runs=tuple(collected.runs), tasks=tuple(collected.runs.values()))
    shuffled = collected.read.find(layout, orders, len(collected.results))
    names = collected.shards.names
    shards = {names[number]: tally for number, tally in sorted(shuffled.shards.items())}
    return Copies(
        _named_objects(collected, shards),
        shards,
        shuffled,
        doubt=doubt,
        doubted=doubted,
        lines=sum(group.lines for group in of_day.values()),
        without_id=sum(group.without_id for group in of_day.values()),
    )


def check_share(copies: Copies, expression: str, max_repeats: float, command: str) -> None:
    """Raise SafetyRefusal where so many records repeat an id that the path is none of an event's id."""
    if copies.share > max_repeats:
        raise SafetyRefusal(
            f"{copies.total + copies.conflicts:,} of {copies.lines - copies.without_id:,} records with an id under "
            f"{expression!r} repeat an id ({copies.share:.0%}; --max-repeats is {max_repeats:g}): "
            "nothing is left out, and nothing was written",
            next_step=f"look at them with `{command} --event-id ...`; then correct the path, or name a "
            "greater share if that many are copies",
        )


def report_copies(context: JobContext, copies: Copies, expression: str, *, removed: int) -> ProducerDuplicates:
    """Return warnings for each shard with copies or conflicts, an unknown if the day before is in doubt, and a check.

    Where no line has an id, nothing is proven: the path is probably wrong. Raises FormatError if an object that was
    read before does not read the same again.
    """
    left_out = "; they are left out of the Parquet files" if removed else ""
    messages = {
        Code.PRODUCER_DUPLICATE: f"repeat an event that was there before{left_out}; the first of them repeats",
        Code.ID_CONFLICT: "have the id of an earlier event and another payload, and are kept; the first has that of",
    }
    findings = [
        _shard_finding(context, copies, shard, expression, code, tally, message)
        for shard, of_shard in copies.shards.items()
        for (code, message), tally in zip(messages.items(), of_shard, strict=True)
        if tally.records
    ]
    if copies.doubt:
        message = f"copies of events of the day before may be missing here: {copies.doubt}"
        contents = (digest_of_lines([copies.doubt, copies.doubted]),)
        findings.append(finding(Code.PRODUCER_DUPLICATE, message, severity="unknown", contents=contents))
    message = f"{copies.without_id} of {copies.lines} lines have no id under {expression!r}, and are kept"
    is_unknown = copies.lines > 0 and copies.without_id == copies.lines
    check = AuditCheck(id="event_ids", status="unknown" if is_unknown else "pass", message=message)
    return ProducerDuplicates(tuple(findings), (check,), removed)


# What tasks do with the groups of shards


class GroupToWrite(NamedTuple):
    """A group of shards that is written without copies, with lines that come back."""

    group: GroupContext
    restored: Mapping[str, RestoredLines]


class NumberedGroup(NamedTuple):
    """Objects that are written together, and their numbers."""

    group: MergeGroup
    numbers: tuple[int, ...]


class TakingPart(NamedTuple):
    """The lines of a group that count, those without an id, and the numbers of objects in doubt.

    `doubtful` counts these, but for whole copies of others; `doubted` is the sum of their contents' hashes, the same
    in whatever groups they lie.
    """

    lines: int
    without_id: int
    excluded: "array[int]"
    doubtful: int
    doubted: int


def groups_to_tasks(values: Values, argument: GroupToWrite) -> Iterator[GroupValue]:
    """Give objects that are written together to the tasks that have read the first of them. The work of a task."""
    view = GroupView(values, argument.group)
    numbers = {facts.row.key: facts.number for facts in all_objects(values)}
    by_task: dict[int, list[NumberedGroup]] = defaultdict(list)
    for group in view.merge_groups(argument.restored):
        numbered = NumberedGroup(group, tuple(numbers[raw_object.key] for raw_object in group.objects))
        by_task[view.tasks[group.objects[0].key]].append(numbered)
    yield from by_task.items()


def order_without_copies(values: Values, argument: OrderArgument) -> Iterator[GroupValue]:
    """Give a task that leaves copies out its order; none where nothing is to be written. The work of a task.

    One that merges keeps no facts: it holds what is in doubt.
    """
    groups = sorted(
        (group for of_group in values for group in of_group),
        key=lambda group: order_of_objects(group.group.objects[0]),
    )
    if not groups:
        return
    task = Task(argument.order.task.number, tuple(group.group for group in groups))
    order = argument.order._replace(task=task, numbers=tuple(number for group in groups for number in group.numbers))
    if argument.left is not None and not any(group.merge for group in task.groups):
        order = order._replace(keeps=True, earlier=argument.left.get(fingerprint(task), ()))
    yield task.number, order


def taking_part(values: Values, group: GroupContext) -> TakingPart:
    """Return which objects take part: those that are whole, in order, and overlap no other. The work of a task."""
    view = GroupView(values, group)
    alone = {merge_group.objects[0].key for merge_group in view.merge_groups({}) if not merge_group.merge}
    lines = without_id = doubtful = doubted = 0
    excluded = array("Q")
    for facts in all_objects(values):
        if facts.read is None:
            continue
        if facts.row.key in alone:
            lines += facts.read.lines
            without_id += facts.without_id
        elif facts.read.lines or facts.read.problem:
            excluded.append(facts.number)
            if facts.row.key not in view.classified.copies:
                doubtful += 1
                doubted += int(digest_of_lines([f"{facts.row.key} {facts.read.digest}"]), 16)
    return TakingPart(lines, without_id, excluded, doubtful, doubted)


def objects_of_numbers(values: Values, numbers: frozenset[int]) -> dict[int, RawObject]:
    """Return the objects of some numbers. The work of a task."""
    objects = [facts for facts in all_objects(values) if facts.number in numbers]
    return {facts.number: raw_object for facts in objects for raw_object in raw_objects([facts.row])}


# The driver again


def _taking_part_before(context: JobContext, collected: CollectedIds) -> tuple[Mapping[int, TakingPart], str, str]:
    """Return what of the day before takes part, by group, and what is in doubt about the rest, with its digest."""
    inventory = collected.before.inventory
    if inventory is None:
        return {}, collected.before.doubt, ""
    of_before = collected.objects.collect(taking_part, _groups_before(context, collected, inventory))
    doubtful = sum(group.doubtful for group in of_before.values())
    doubt = f"{doubtful} object(s) of {inventory.day} are not whole and in order" if doubtful else ""
    return of_before, doubt, f"{sum(group.doubted for group in of_before.values()):x}"


def _groups_before(context: JobContext, collected: CollectedIds, inventory: DayObjects) -> dict[int, GroupContext]:
    """Return what the groups of the day before are classified by; nothing is judged there but objects."""
    foreign = ask_foreign(context.archive, inventory)
    copies, _ = find_misplaced(context.archive, inventory, collected.objects, foreign, collected.behind)
    copies_of = by_group_of_key(inventory, copies)
    scope = GroupScope(
        context.place.address,
        inventory.storage,
        inventory.prefix,
        inventory.day,
        JudgedMinutes(inventory.day.first_minute, inventory.end_ms // MINUTE_MS),
        Interval(inventory.day.begin_ms, inventory.end_ms),
        inventory.compression,
        inventory.grouping,
        writes=False,
    )
    return {
        collected.behind + number: GroupContext(
            number, scope, inventory.marks.get(number, 0), copies_of.get(number, {})
        )
        for number in inventory.grouping.numbers
    }


def _named_objects(collected: CollectedIds, shards: Mapping[str, ShardTally]) -> dict[int, RawObject]:
    """Ask for the objects that findings name: the first few of each shard, and what the first of them repeats."""
    numbers_of: dict[int, set[int]] = defaultdict(set)
    for tally in [kind for shard in shards.values() for kind in shard if kind.records]:
        numbers = {*tally.numbers, *(sample.first.number for sample in tally.samples)}
        for number in {*numbers, tally.samples[0].original.number}:
            is_before = number < collected.first_of_day
            shard = (collected.shards_before if is_before else collected.shards).of_number(number)
            if shard is not None:
                numbers_of[is_before * collected.behind + collected.inventory.grouping.of(shard)].add(number)
    arguments = {group: frozenset(numbers) for group, numbers in numbers_of.items()}
    by_group = collected.objects.collect(objects_of_numbers, arguments)
    return {number: raw_object for objects in by_group.values() for number, raw_object in objects.items()}


def _shard_finding(
    context: JobContext, copies: Copies, shard: str, expression: str, code: Code, tally: Tally, message: str
) -> Finding:
    objects = [raw_object for number in tally.numbers if (raw_object := copies.objects.get(number)) is not None]
    minutes = {raw_object.minute for raw_object in objects}
    original, line = "a record of the day before", tally.samples[0].original
    first = copies.objects.get(line.number)
    if first is not None:
        positions = _positions(context, first, Drops([line.line]), expression)
        original = f"{first.shard_id}/{positions[0]}" if positions else first.key
    return finding(
        code,
        f"{tally.records} record(s) {message} {original}",
        severity="warning",
        shard=shard,
        minute=minute_text(minutes.pop()) if len(minutes) == 1 else None,
        keys=[raw_object.key for raw_object in objects],
        positions=_sampled_positions(context, copies, tally, expression),
        count=tally.records,
    )


def _sampled_positions(context: JobContext, copies: Copies, tally: Tally, expression: str) -> list[Position]:
    """Return the positions of the first few records of a tally, as far as they lie in the first few objects."""
    chunks: dict[int, list[bytes]] = {}
    for sample in tally.samples:
        chunks.setdefault(sample.first.number, []).append(
            pack_line(sample.first) if isinstance(sample, IdConflict) else pack_drops(sample)
        )
    positions: list[Position] = []
    for number in list(chunks)[:_READ_AGAIN]:
        raw_object = copies.objects.get(number)
        if raw_object is not None and len(positions) < SAMPLES:
            drops = unpack_drops(chunks[number], {number: raw_object.key})[raw_object.key]
            positions += _positions(context, raw_object, drops, expression)
    return positions[:SAMPLES]


def _positions(context: JobContext, raw_object: RawObject, drops: Drops, expression: str) -> list[Position]:
    """Read the positions of some lines of an object, the first few; none when it is gone meanwhile."""
    stored = context.archive.get(raw_object.key)
    positions: list[Position] = []
    is_dropped = drops.test(expression)
    lines = () if stored is None else inflate([stored.body], compression_of(raw_object.key))
    for number, line in enumerate(lines):
        if drops.events or number in drops.lines:
            record = decode_line(line)[1]
            if is_dropped(number, record.data):
                positions.append(record.position)
        if len(positions) == SAMPLES or (not drops.events and number >= drops.lines[-1]):
            break
    return positions
