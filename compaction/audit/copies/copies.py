"""Producer duplicates of a day: its ids and those of the day before are brought together, and copies are told.

Two steps, because only whole, ordered objects take part, and which those are is known when all tasks are done. Tasks
tell of the groups of their shards; the driver holds what is said of shards, and the numbers of objects in doubt.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from compaction.audit.copies.collecting import CollectedIds
from compaction.audit.shards.group_view import GroupContext, GroupScope
from compaction.audit.shards.misplaced import ask_foreign, copies_by_group, find_misplaced
from compaction.audit.shards.numbers import AgainArgument, TakingPart, named, order_again, taking_part
from compaction.audit.shards.objects import OrderArgument
from compaction.event_ids.copies import Layout, ShardTally
from compaction.inventory.day_objects import DayObjects
from compaction.job.context import AuditOptions, FoundCopies, JobContext
from compaction.parquet.plan import RawObject
from compaction.shard_groups.port import ShardGroups
from minutebook.coverage.intervals import Interval
from minutebook.errors import SafetyRefusal


class Copies(NamedTuple):
    """The copies of a day.

    `objects` are those that findings name, by number. `found` can run the tasks that leave copies out. `doubt` says
    why copies of events of the day before may be among what is not reported. `lines` took part, `without_id` of them
    had no id.
    """

    objects: Mapping[int, RawObject]
    shards: Mapping[str, ShardTally]
    found: FoundCopies
    doubt: str
    lines: int
    without_id: int

    @property
    def total(self) -> int:
        """All copies."""
        return sum(shard.records for shard in self.shards.values())

    @property
    def share(self) -> float:
        """Copies among the lines that have an id."""
        return self.total / max(1, self.lines - self.without_id)


def resolve(
    context: JobContext,
    collected: CollectedIds,
    groups: Mapping[int, GroupContext],
    again: ShardGroups | None = None,
) -> Copies:
    """Tell the copies. Only objects take part that are whole, in order, and overlap no other.

    `groups` are those that the day was judged by. Lines of other objects are in doubt, and kept: a finding of their
    own says what is wrong with them. `again` holds the orders that leave copies out, once they are asked to; None:
    nothing is left out.
    """
    taking = collected.seen.collect(taking_part, groups)
    earlier, doubt = _judge_before(context, collected)
    excluded = frozenset(number for some in (taking, earlier) for group in some.values() for number in group.excluded)
    layout = Layout(collected.first_of_day, collected.shards.starts, excluded)
    if again is not None:
        layout = layout._replace(runs=tuple(collected.runs), tasks=tuple(collected.runs.values()))
    found = collected.collected.find(layout, again, len(collected.results))
    names = collected.shards.names
    shards = {names[number]: tally for number, tally in sorted(found.shards.items())}
    return Copies(
        _named(collected, shards),
        shards,
        found,
        doubt=doubt,
        lines=sum(group.lines for group in taking.values()),
        without_id=sum(group.without_id for group in taking.values()),
    )


def orders_without_copies(collected: CollectedIds, groups: ShardGroups, order: OrderArgument) -> ShardGroups:
    """Return the orders that leave copies out, each in the group of the task that has read its objects.

    `groups` are dealt to these groups; `order` says where they are read and written.
    """
    count = len(collected.results)
    asked = {
        number: AgainArgument(order._replace(number=number, taken=collected.taken.get(number)), collected.expression)
        for number in range(count)
    }
    return groups.repartition(order_again, asked, max(1, count))


def check_share(copies: Copies, options: AuditOptions) -> None:
    """Raise SafetyRefusal where so many records repeat an event that the path is none of an event's id."""
    if copies.share > options.max_repeats:
        raise SafetyRefusal(
            f"{copies.total:,} of {copies.lines - copies.without_id:,} records with an id under "
            f"{options.event_id!r} repeat an event ({copies.share:.0%}; --max-repeats is {options.max_repeats:g}): "
            "nothing is left out, and nothing was written",
            next_step=f"look at them with `{options.command} --event-id ...`; then correct the path, or name a "
            "greater share if that many are copies",
        )


def _judge_before(context: JobContext, collected: CollectedIds) -> tuple[Mapping[int, TakingPart], str]:
    """Return what of the day before takes part, by group, and what is in doubt about the rest."""
    objects = collected.before.inventory
    if objects is None:
        return {}, collected.before.doubt
    taking = collected.seen.collect(taking_part, _groups_before(context, collected, objects))
    others = sum(group.doubtful for group in taking.values())
    return taking, f"{others} object(s) of {objects.day} are not whole and in order" if others else ""


def _groups_before(context: JobContext, collected: CollectedIds, objects: DayObjects) -> dict[int, GroupContext]:
    """Return what the groups of the day before are looked at by; nothing is judged there but objects."""
    foreign = ask_foreign(context.archive, objects)
    copies, _ = find_misplaced(context.archive, objects, collected.seen, foreign, collected.behind)
    of_group = copies_by_group(objects, copies)
    scope = GroupScope(
        context.place.address,
        objects.storage,
        objects.prefix,
        objects.day,
        objects.first_minute,
        objects.end_ms,
        Interval(objects.day.begin_ms, objects.end_ms),
        objects.compression,
        objects.grouping,
        writes=False,
    )
    return {
        collected.behind + number: GroupContext(
            number, scope, objects.marks.get(number, 0), of_group.get(number, {}), (), {}, (), {}, frozenset()
        )
        for number in objects.grouping.numbers
    }


def _named(collected: CollectedIds, shards: Mapping[str, ShardTally]) -> dict[int, RawObject]:
    """Ask for the objects that findings name: the first few of each shard, and what the first of them repeats."""
    wanted: dict[int, set[int]] = defaultdict(set)
    for tally in shards.values():
        numbers = {*tally.numbers, *(sample.first.number for sample in tally.samples)}
        for number in {*numbers, tally.samples[0].original.number}:
            is_before = number < collected.first_of_day
            shard = (collected.shards_before if is_before else collected.shards).of_number(number)
            if shard is not None:
                wanted[is_before * collected.behind + collected.objects.grouping.of(shard)].add(number)
    found = collected.seen.collect(named, {group: frozenset(numbers) for group, numbers in wanted.items()})
    return {number: raw_object for group in found.values() for number, raw_object in group.items()}
