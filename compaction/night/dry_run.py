"""`compact --dry-run`: say what a run would do with a day, by keys alone. Nothing is written.

It decides as a night does (`due.look_at`): a day whose objects are as they were published may have to be judged
again, because a read mark went. What only the judgement sees (a checkpoint, an object's content) no plan shows.
"""

import msgspec

from compaction.audit.collecting import look_back
from compaction.inventory.day_objects import DayListing, list_objects
from compaction.inventory.segments import row_of_published
from compaction.job.context import JobContext
from compaction.job.scope import is_settled, judged_scope
from compaction.job.so_far import part_end
from compaction.night.due import look_at
from compaction.night.generation_name import generation_of
from compaction.night.mapping import mapping_of
from compaction.night.rewrite import CompactOptions, keeps_files, objection_to_expired
from compaction.parquet.plan import plan_tasks, raw_objects, single_groups
from compaction.publish.publisher import Publisher
from compaction.shard_groups.grouping import ShardGrouping
from compaction.shard_groups.local import LocalGroupSource
from compaction.verdict.findings import Code
from minutebook.format.day import Day
from minutebook.owner import read_owned
from minutebook.published.generation import DayFolder
from minutebook.published.reading import published_until_ms
from minutebook.published.verdict import CLEAN


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """One day's plan: what would be read, the generation it makes, what is published now, and what would be done."""

    day: str
    segments: int
    bytes: int
    tasks: int
    generation: str
    state: str
    action: str
    applied: bool = False

    @property
    def sentence(self) -> str:
        """The plan in words, without the day."""
        return (
            f"{self.segments:,} segments, {self.bytes:,} bytes, {self.tasks} task(s), generation {self.generation}; "
            f"{self.state}; {self.action}"
        )


def plan_dry_run(context: JobContext, day: Day, requested: CompactOptions) -> DryRun:
    """Return what a run would do with the day; raises as `compact_day` does."""
    options, out, prefix = requested.audit, requested.out, context.place.prefix
    application = read_owned(context.archive, prefix, context.owner, application=options.application)
    now_ms = context.clock.now_ms()
    storage = context.open(out.address)
    pointer = Publisher(storage, DayFolder(out.prefix, day)).replaceable().pointer
    published_ms = 0 if pointer is None else published_until_ms(pointer)
    until_ms = part_end(context, day, options.so_far_ms, application, published_ms or 0)
    until_ms = None if until_ms is None or published_ms is None else max(until_ms, published_ms)
    judged_scope(day, application, now_ms, until_ms)
    source, grouping = LocalGroupSource(context.engine), ShardGrouping()
    objects = list_objects(
        DayListing(context.archive, context.place.address, source, grouping), day, prefix, until_ms
    )
    rows = [row_of_published(prefix, row) for row in objects.spool.rows()]
    tasks = plan_tasks(single_groups(raw_objects(rows)), sizes=context.sizes)
    before = look_back(context, day, grouping, options.published) if options.drop_producer_duplicates else None
    publisher = Publisher(storage, DayFolder(out.prefix, day))
    mapping = mapping_of(publisher, pointer, requested.columns, replaces=requested.rewrite_columns)
    generation = generation_of(objects, options, before, mapping.name)
    due = look_at(context, out, options, day)
    is_due = bool(due.why) if until_ms is None else due.doubted is not None or due.pointer != CLEAN
    if until_ms is None and not is_settled(day, now_ms):
        action = "would be held: it is not over"
    elif due.is_expired and requested.rewrite_columns:
        action = "would be refused: its raw objects were expired"
    elif due.is_expired:
        objection = objection_to_expired(context, storage, day, requested, due.tombstone)
        action = "would stay as it was published: its raw objects were expired"
        action = f"would be held: {objection}" if objection else action
    elif pointer is None or not keeps_files(context, storage, day, requested, objects, before):
        action = "would be rewritten" if mapping.is_known else f"would be held: {Code.MAPPING_UNKNOWN}"
    else:
        action = f"would be judged again: {due.why}" if is_due else "nothing to do"
    return DryRun(
        day=str(day),
        segments=sum(row.parsed is not None for row in rows),
        bytes=objects.size,
        tasks=len(tasks),
        generation=generation,
        state="not published" if pointer is None else f"published as {pointer.generation}, verdict {pointer.verdict}",
        action=action,
    )
