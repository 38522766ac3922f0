"""The rewrite of a day, or an hour: read, audit, publish. After a crash anywhere, running it again finishes it."""

from functools import partial
from typing import Final, Literal, NamedTuple

import structlog

from compaction.audit import conclusion, rejudge
from compaction.audit.audit import examine, is_in_motion
from compaction.audit.copies import day_before
from compaction.audit.examined import DayResult, Examined
from compaction.audit.reading import Writing
from compaction.columns.columns import Columns
from compaction.hours import kept, published, taking
from compaction.inventory.day_objects import DayObjects
from compaction.job import scope
from compaction.job.context import AuditOptions, JobContext
from compaction.job.day_view import DayView, view_day
from compaction.night import generation_name
from compaction.night.late_minutes import late_minutes
from compaction.night.pointer_update import PointerUpdate
from compaction.parquet.rows import ZSTD_LEVEL
from compaction.publish import ends
from compaction.publish.publisher import Publisher
from compaction.tables.commit import TableCommit, TableCommitter
from compaction.tables.events import files
from compaction.verdict.audit_document import Audit, decode_audit, encode_audit
from compaction.verdict.publishable import publishable
from minutebook.errors import SafetyRefusal
from minutebook.format.day import Day, Hour
from minutebook.format.minute import iso_time
from minutebook.owner import read_owned
from minutebook.published import generation
from minutebook.published.generation import DayFolder, Manifest, Pointer, PointerVerdict
from minutebook.published.verdict import RULES, Verdict
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import is_expired

_PUBLISH_ATTEMPTS: Final = 3
_NOT_OVER: Final = (
    "it is not over, or ended less than 20 minutes ago: records of it may be on their way "
    "(--so-far publishes the part that is over)"
)


class CompactOptions(NamedTuple):
    """What is asked of a compaction; see the command's help.

    `zstd_level` is no part of a day's generation's name: its rows are the same. `hour`: that hour of the day alone.
    """

    audit: AuditOptions
    out: StorePrefix
    accept_defects: bool = False
    zstd_level: int = ZSTD_LEVEL
    columns: Columns | None = None
    hour: Hour | None = None


class Compacted(NamedTuple):
    """What a compaction did: `published`, `already` (nothing was to do), `held` (its audit forbids it).

    `result` is None when the day was not read rejudge. `swept` counts old files that were deleted. `table` says what
    became of the day in an Iceberg table, where one was named; `reason` why a day is held.
    """

    state: Literal["published", "already", "held"]
    manifest: Manifest | None
    result: DayResult | None
    verdict: Verdict
    swept: int = 0
    table: TableCommit | None = None
    reason: str = "its audit forbids it (--accept-defects publishes it without what is wrong)"

    @property
    def conflicts(self) -> str:
        """Return the columns that keep the day out of the table, in words; empty where none does."""
        return "" if self.table is None else "; ".join(map(str, self.table.conflicts))


def compact_day(context: JobContext, out: RetryingStorage, day: Day, options: CompactOptions) -> Compacted:
    """Rewrite, audit and publish one day, or an hour of it; a part of a day that is whole is published already.

    Raises:
        SafetyRefusal: the prefix belongs to another stream; the raw objects of the day were expired; or the day
            changes as fast as it is rewritten.
        SettingsError: the day ended before the archive begins, or so far nothing of it is to be judged.
        StoreError: the archive or the output.
    """
    application, now_ms = read_owned(context.archive, context.place.prefix, context.owner), context.clock.now_ms()
    hour = options.hour
    until_ms = scope.scope_end(day, options.audit.so_far_ms, now_ms) if hour is None else hour.end_ms
    scope.judged_scope(day, application, now_ms, until_ms, hour)
    if until_ms is not None and (whole := published.whole_day(out, options.out.prefix, day)) is not None:
        return Compacted("already", None, None, whole.verdict, reason="its day is, as a whole")
    if (until_ms is None or hour is not None) and not scope.is_settled(hour or day, now_ms):
        return Compacted("held", None, None, "unknown", reason=_NOT_OVER)
    run = _Run(context, out, day, options, until_ms)
    for number in range(1, _PUBLISH_ATTEMPTS + 1):
        done = run.attempt(is_last=number == _PUBLISH_ATTEMPTS)
        if done is not None:
            return done
    raise SafetyRefusal(
        f"other runs published {day} {_PUBLISH_ATTEMPTS} times while this one worked",
        next_step="let one run a day do the work; look for a second schedule",
    )


class _View(NamedTuple):
    """What was seen of the day: the pointer first, then all else."""

    seen: generation.Current
    sight: DayView
    generation: str
    before: day_before.DayBefore | None

    @property
    def inventory(self) -> DayObjects:
        """The day's objects."""
        return self.sight.inventory


class _Run:
    def __init__(
        self, context: JobContext, out: RetryingStorage, day: Day, options: CompactOptions, until_ms: int | None
    ) -> None:
        self._until_ms = until_ms
        self._until = None if until_ms is None else iso_time(until_ms)
        self._context = context
        self._day = day
        audit = options.audit._replace(published=options.audit.published or options.out)
        self._options = options._replace(audit=audit)
        self._hour_name = partial(
            generation_name.hour_generation_of, columns=options.columns, zstd_level=options.zstd_level
        )
        self._folder = DayFolder(options.out.prefix, day, options.hour)
        self._publisher = Publisher(out, self._folder)
        self._log = structlog.get_logger().bind(day=self._folder.name)
        self._pointing = PointerUpdate(self._publisher, context.new_id, audit, self._until)

    def attempt(self, *, is_last: bool) -> Compacted | None:
        """Look, work, publish; None when another run published meanwhile, or the day changed under our eyes."""
        if is_expired(self._context.archive, self._context.place.prefix, self._day):
            return self._as_published()
        view = self._look()
        pointer = view.seen.pointer
        if pointer is not None and (pointer.generation, pointer.until) == (view.generation, self._until):
            standing = self._publisher.intact(pointer, view.inventory.digest())
            before = None if standing is None else self._publisher.audit(pointer)
            if standing is not None and before is not None:
                return self._judge_again(view, pointer, standing, decode_audit(before), is_last=is_last)
        rewritten = self._rewrite(view, is_last=is_last)
        if rewritten is None:
            return None
        manifest, result, examined = rewritten
        if not self._options.accept_defects and not publishable(result.audit):
            is_told = self._pointing.withdraw(view.seen, manifest, result.audit)
            return Compacted("held", None, result, manifest.verdict) if is_told else None
        self._keep(view, manifest, result.audit, examined)
        if not self._pointing.swap(manifest, view.seen, self._context.now()):
            return None
        self._publisher.write_symlinks()
        self._log.info("day_published", generation=view.generation, rows=manifest.rows, files=len(manifest.files))
        swept, table = self._settle()
        audit = self._pointing.tell(manifest, rejudge.Rejudged(result.audit, examined), table)
        return Compacted("published", manifest, result._replace(audit=audit), manifest.verdict, swept, table)

    def _as_published(self) -> Compacted:
        """Never rewrite an expired day from what is left of it; what was published can still go into a table."""
        pointer, manifest = self._publisher.published()
        if manifest is not None and not self._publisher.is_whole(manifest):
            raise SafetyRefusal(
                f"files of {self._day} were published and are gone, and so are the raw objects",
                next_step="restore the files from versions of them: nothing else holds these records",
            )
        if self._context.table is None or pointer is None:
            raise SafetyRefusal(
                f"the raw objects of {self._day} were expired: the published Parquet is all there is of them",
                next_step="read the published day; it must not be rewritten from what is left",
            )
        return Compacted("already", manifest, None, pointer.verdict, *self._settle())

    def _look(self) -> _View:
        """Read the pointer first: If-Match then refuses whoever has an older view of the day."""
        seen = self._publisher.current()
        asked, hour = self._options, self._options.hour
        sight = view_day(self._context, self._day, self._until_ms, hour=hour)
        if hour is not None:
            return _View(seen, sight, self._hour_name(sight.inventory.digest, asked.audit.event_id), None)
        before = None
        if asked.audit.event_id is not None:
            before = day_before.look_back(self._context, self._day, asked.audit, sight.inventory.grouping)
        return _View(
            seen, sight, generation_name.generation_of(sight.inventory, asked.audit, before, asked.columns), before
        )

    def _judge_again(
        self, view: _View, pointer: Pointer, manifest: Manifest, before: Audit, *, is_last: bool
    ) -> Compacted | None:
        """Judge a published day by the evidence of now: its verdict changes in either direction, and nothing else.

        Its lines were read when it was published and its objects are the same, so names and metadata are enough.
        None: another run swapped the pointer meanwhile, or the day changed.
        """
        rejudged = rejudge.rejudge(self._context, view.sight, self._options.audit, before)
        if not is_last and is_in_motion(self._context, rejudged.examined, self._options.audit):
            return None
        digest = rejudge.audit_digest(rejudged.examined, self._options.audit, rejudged.audit)
        key = self._folder.audit(view.generation, digest)
        judged = PointerVerdict(rejudged.audit.verdict, key)
        if (pointer.verdict, pointer.audit) != judged:
            self._publisher.put_audit(key, encode_audit(rejudged.audit))
            if not self._pointing.swap(manifest, view.seen, pointer.written_at, judged):
                return None
        self._publisher.write_symlinks()
        swept, table = self._settle()
        self._pointing.tell(manifest, rejudged, table)
        return Compacted("already", manifest, None, judged.verdict, swept, table)

    def _rewrite(self, view: _View, *, is_last: bool) -> tuple[Manifest, DayResult, Examined] | None:
        folder = self._folder.generation(view.generation)
        options, columns = self._options.audit, self._options.columns
        source = taking.HourSource(self._publisher.storage, self._folder, self._hour_name)
        hours = taking.take_hours(source, view.inventory)
        keeps_ids = "" if self._options.hour is None or options.event_id is None else options.event_id
        writing = Writing(self._options.out, folder, self._options.zstd_level, columns, hours, keeps_ids)
        examined = examine(self._context, view.sight, options, writing, view.before)
        if examined.work.earlier:
            self._log.info("day_goes_on", tasks=examined.work.tasks, done_before=examined.work.earlier)
        if hours:
            work = examined.work
            self._log.info("hours_taken_over", hours=len(hours), tasks=work.tasks, taken=work.taken, read=work.read)
        if is_in_motion(self._context, examined, options):
            if not is_last:
                return None
            examined = examined._replace(is_in_motion=True)
        rows = sum(part.rows for part in examined.parts)
        late = late_minutes(self._publisher, view.seen.pointer, view.inventory)
        audit = conclusion.conclude_rewrite(self._context, examined, options, columns, late)
        writer = self._context.new_id()
        manifest = Manifest(
            format=1,
            day=self._folder.name,
            generation=view.generation,
            files=generation.files_of([(part.key, part.rows, part.size) for part in examined.parts]),
            rows=rows,
            inventory=view.inventory.digest(),
            verdict=audit.verdict,
            audit=self._folder.audit(view.generation, rejudge.audit_digest(examined, options, audit)),
            ends={shard.shard: shard.last for shard in audit.shards if shard.last is not None},
            writer=writer,
            written_at=self._context.now(),
            rules=RULES,
            until=self._until,
            removed=audit.equation.removed,
            restored=audit.equation.restored,
            event_id=options.event_id,
            columns=None if columns is None else columns.types,
        )
        return manifest, DayResult(audit, examined.minutes), examined

    def _keep(self, view: _View, manifest: Manifest, audit: Audit, examined: Examined) -> None:
        """Store the manifest, after what it was made from, where chains stood, and the audit that allowed it."""
        key = self._folder.manifest(manifest.generation, manifest.writer)
        self._publisher.put_inventory(key, view.inventory.spool.chunks())
        if self._options.hour is None:
            self._publisher.put_beside(generation.ends_beside(key), ends.encode_ends(manifest, examined.ends))
        else:
            kept.keep_tasks(self._publisher.storage, self._folder, manifest, examined.work.done)
        self._publisher.put_audit(manifest.audit, encode_audit(audit))
        self._publisher.put_manifest(manifest)

    def _settle(self) -> tuple[int, TableCommit | None]:
        """Bring the table into step before anything is swept: it may name the generation that was replaced."""
        context, done = self._context, None
        published.give_way(self._publisher.storage, self._folder.root, self._day)
        if context.table is not None:
            work = files.EventWork(self._options.out.address, context.spread, context.clock)
            events = files.files_by_event(self._publisher, self._options.columns, work)
            done = TableCommitter(context.table, self._publisher, context.clock, context.new_id, events).commit()
        return len(self._publisher.sweep(context.clock.now_ms())), done
