"""Bring what is published of a day up to its objects. After a crash, running it again finishes it.

    its objects have the keys and sizes that were published . judge it again: only the verdict may change
    one came late or went, or nothing is published .......... read, audit and publish a new generation
    ... whose audit forbids publishing ...................... held: earlier rows stay, their verdict is withdrawn
    its raw objects were expired ............................ it stays as it was published

A part of a day is a run over that scope. What is published never reaches less far than before: a run that was asked
for less judges what the pointer says. Where a run's own scope is held and the pointer's ends earlier, the pointer's
is judged by itself, so that no verdict stays because later hours are held
(docs/decisions/0040-a-part-of-a-day.md).

The comparison is one of names: `generation_name` hashes the day's objects and all that its rows depend on. Which days
a night does this for, `due` says.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple

import msgspec
import structlog

from compaction.audit import collecting, conclusion, rejudge
from compaction.audit.audit import examine, is_in_motion
from compaction.audit.conclusion import DayResult, Examined
from compaction.audit.day_view import DayView, KnownPlaces, view_day
from compaction.audit.gone import with_gone
from compaction.audit.known import with_known
from compaction.audit.reading import Writing
from compaction.audit.withdrawing import withdraw_boundaries
from compaction.basis.judged import basis_of
from compaction.columns.columns import Columns
from compaction.columns.pinned import encode_pinned
from compaction.inventory.changes import InventoryChanges, compare_inventories
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.segments import row_of_published
from compaction.job import scope
from compaction.job.context import AuditOptions, JobContext
from compaction.job.so_far import NoCoveredHour, NoFullHour, part_end
from compaction.live.day import LiveDay
from compaction.live.sweep import sweep_live
from compaction.night import columns_again
from compaction.night.generation_name import audit_of, generation_of, generation_of_rows
from compaction.night.mapping import DayMapping, mapping_of
from compaction.night.pointer_update import PointerUpdate
from compaction.parquet.rows import ZSTD_LEVEL
from compaction.publish import ends
from compaction.publish.publisher import GRACE_MS, Publisher
from compaction.tables.commit import TableCommit, TableCommitter
from compaction.tables.events import files
from compaction.tables.plan import AHEAD_STEP, Conflict
from compaction.verdict.acceptance import Decision
from compaction.verdict.audit_document import Audit, blocking, decode_audit, encode_audit, failed_checks, publishable
from compaction.verdict.basis import FileBasis
from compaction.verdict.exit_code import was_read
from compaction.verdict.findings import Code, Finding, finding
from minutebook.errors import (
    CatalogRefused,
    CatalogUnavailable,
    FormatError,
    MinutebookError,
    OutcomeUnknown,
    SafetyRefusal,
    StoreUnavailable,
)
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS, iso_time, minute_text
from minutebook.format.tombstone import Tombstone, tombstone_key
from minutebook.owner import read_owned
from minutebook.published import generation
from minutebook.published.generation import FACTS_FOLDER, DayFolder, Manifest, Pointer, PointerVerdict, is_audit
from minutebook.published.inventory import PublishedRow
from minutebook.published.live import live_pointer_key
from minutebook.published.reading import published_until_ms
from minutebook.published.verdict import CLEAN, RULES, Verdict
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import is_expired, read_tombstone

Step = Literal["published", "judged again", "rewritten", "withdrawn", "swept"]
_PUBLISH_ATTEMPTS: Final = 5
_FORBIDDEN: Final = "its audit forbids it (--accept REASON publishes it without what is wrong)"
_NOT_OVER: Final = (
    "it is not over, or ended less than 20 minutes ago: records of it may be on their way "
    "(--so-far publishes the part that is over)"
)
_WHOLE: Final = "it is published as a whole, and is not over by this host's clock: nothing was judged"
_OUTPUT: Final = "the day's output from a backup, or each object"
_READ_AGAIN: Final = "the day is read and published again; find out who writes there"


class CompactOptions(NamedTuple):
    """The options of a compaction; see the command's help.

    `accept` is the reason to accept what is wrong or unproven (`compaction.verdict.acceptance`). `zstd_level` is not
    part of the name of a day's generation: the rows are the same. `columns` are for days that have none yet
    (`compaction.night.mapping`); `rewrite_columns`: for published days, too, and `is_confirmed`: also where values
    would be fewer then.
    """

    audit: AuditOptions
    out: StorePrefix
    accept: str | None = None
    zstd_level: int = ZSTD_LEVEL
    columns: Columns | None = None
    rewrite_columns: bool = False
    is_confirmed: bool = False


class Compacted(NamedTuple):
    """The outcome of a compaction: `published`, `already` (the same rows), `held` (not published, see `reason`).

    `result` is None when the verdict and what it rests on are as they were. `done` are the steps that changed
    something, or that found nothing to do. `swept` counts deleted old files. `table` is the commit to the Iceberg
    table, where one was named; `table_error` says why there is none: the catalog is away, or the table's rows are not
    those that were committed (SafetyRefusal). `accepted` is the reason of a person who
    accepted what is wrong or unproven. `keeps_columns`: the day has other columns than this run was given.
    """

    state: Literal["published", "already", "held"]
    manifest: Manifest | None
    result: DayResult | None
    verdict: Verdict
    done: tuple[Step, ...] = ()
    swept: int = 0
    table: TableCommit | None = None
    table_error: MinutebookError | None = None
    accepted: str = ""
    reason: str = _FORBIDDEN
    keeps_columns: bool = False

    @property
    def conflicts(self) -> str:
        """The columns that keep the day out of the table, in words; empty: none."""
        return "" if self.table is None else "; ".join(map(str, self.table.conflicts))


def compact_day(context: JobContext, out: RetryingStorage, day: Day, options: CompactOptions) -> Compacted:
    """Rewrite, audit and publish one day, or a part of it unless the whole day is published.

    Raises:
        SafetyRefusal: the prefix belongs to another stream or application; or the day's raw objects were expired.
        StoreUnavailable: other runs published the day in each attempt.
        SettingsError: the day ended before the archive begins, or none of it can be judged yet.
    """
    prefix, begun_by, now_ms = context.place.prefix, options.audit.application, context.clock.now_ms()
    application = read_owned(context.archive, prefix, context.owner, application=begun_by)
    is_part, publisher = options.audit.so_far_ms is not None, Publisher(out, DayFolder(options.out.prefix, day))
    published_ms = _published_ms(publisher.replaceable()) if is_part else 0
    try:
        until_ms = part_end(context, day, options.audit.so_far_ms, application, published_ms or 0)
    except (NoFullHour, NoCoveredHour) as exc:
        if published_ms == 0 and isinstance(exc, NoCoveredHour):
            return Compacted("held", None, None, "unknown", reason=str(exc))
        if published_ms == 0:
            raise
        until_ms = day.end_ms if published_ms is None else published_ms
    scope.judged_scope(day, application, now_ms, until_ms)
    if until_ms is None and not scope.is_settled(day, now_ms):
        return Compacted("held", None, None, "unknown", reason=_NOT_OVER)
    for number in range(1, _PUBLISH_ATTEMPTS + 1):
        if is_expired(context.archive, context.place.prefix, day):
            if options.rewrite_columns:
                raise SafetyRefusal(
                    f"the raw objects of {day} were expired: its columns cannot be made again",
                    next_step="leave it out of the range; its published rows stay as they are",
                )
            return _Run(context, out, day, options, until_ms).keep_expired()
        current = publisher.replaceable()
        published_ms = _published_ms(current)
        if is_part and current.pointer is not None and published_ms is None and not scope.is_settled(day, now_ms):
            return Compacted("already", None, None, "unknown", reason=_WHOLE)
        # What was published is judged, also where less of it was asked for.
        until_ms = None if until_ms is None or published_ms is None else max(until_ms, published_ms)
        run = _Run(context, out, day, options, until_ms)
        outcome = run.attempt(current, is_last=number == _PUBLISH_ATTEMPTS)
        if outcome is not None:
            return outcome._replace(keeps_columns=run.mapping.is_other)
    raise StoreUnavailable(
        f"other runs published {day} {_PUBLISH_ATTEMPTS} times while this one worked",
        next_step="run the command again; if that goes on, look for a second schedule",
    )


def _published_ms(current: generation.Current) -> int | None:
    """Return up to when a day is published: 0 where it is not, None where the whole day is."""
    return 0 if current.pointer is None else published_until_ms(current.pointer)


def settle_day(
    context: JobContext,
    out: RetryingStorage,
    day: Day,
    options: CompactOptions,
    tombstone: Tombstone | None = None,
    *,
    is_expired: bool,
) -> Compacted:
    """Let the table follow a day's pointer, and delete old files; judge nothing. The day is published, or expired.

    This night has seen that what is published of a day that is not expired is whole. What is published of an expired
    one is compared with its `tombstone`; where that says something else, or cannot be read (None), nothing follows
    the pointer: `held`. Raises SafetyRefusal if published files are gone of a day whose raw objects are, too.
    """
    return _Run(context, out, day, options, None).settle(tombstone, is_expired=is_expired)


def objection_to_expired(
    context: JobContext, out: RetryingStorage, day: Day, options: CompactOptions, tombstone: Tombstone | None
) -> str:
    """Return why nothing follows the pointer of an expired day; empty: it is whole, and as its tombstone says.

    Nothing is written. Raises SafetyRefusal as `settle_day` does.
    """
    held = _Run(context, out, day, options, None).held_as_expired(tombstone)
    return "" if held is None else held.reason


def keeps_files(
    context: JobContext,
    out: RetryingStorage,
    day: Day,
    options: CompactOptions,
    objects: DayObjects,
    before: collecting.DayBefore | None,
) -> bool:
    """Return whether a run over these objects judges what is published, and writes nothing anew, by names alone."""
    run = _Run(context, out, day, options, objects.until_ms)
    current = Publisher(out, DayFolder(options.out.prefix, day)).replaceable()
    run.look_up_columns(current.pointer)
    made = generation_of(objects, options.audit, before, run.mapping.name)
    return run.published(current, objects, before, made) is not None


def withdraw_day(
    context: JobContext, out: RetryingStorage, day: Day, options: CompactOptions, doubted: Pointer, reason: str
) -> bool:
    """Give up a clean verdict that is in doubt and could not be judged again (`PointerUpdate.withdraw_doubted`)."""
    publisher = Publisher(out, DayFolder(options.out.prefix, day))
    update = PointerUpdate(publisher, context.new_id, options.audit.event_id, options.audit.publish)
    return update.withdraw_doubted(doubted, reason, context.now())


class _View(NamedTuple):
    """The day at the start of an attempt: the pointer was read first."""

    current: generation.Current
    day: DayView
    generation: str
    before: collecting.DayBefore | None

    @property
    def objects(self) -> DayObjects:
        """The day's objects."""
        return self.day.inventory


class _Published(NamedTuple):
    """What readers see of the scope: the pointer, its manifest, the audit, and how the objects have changed since."""

    pointer: Pointer
    manifest: Manifest
    audit: Audit
    changes: InventoryChanges

    @property
    def generations(self) -> frozenset[str]:
        """The names under which its rows are known: copied objects have other tags, and give another name."""
        basis = self.audit.basis
        return frozenset({self.pointer.generation, *([] if basis is None else [basis.generation])})


class _Held(NamedTuple):
    """A scope that is not published: the key of the audit that forbids it, and what it says."""

    audit: str
    result: DayResult


class _Settled(NamedTuple):
    """What followed the pointer: how many old files went, and the commit to the table, or why there is none."""

    swept: int
    table: TableCommit | None
    error: MinutebookError | None


def _compacted(
    state: Literal["published", "already"],
    manifest: Manifest,
    audit: Audit,
    done: tuple[Step, ...],
    settled: _Settled,
    result: DayResult | None = None,
) -> Compacted:
    accepted = "" if audit.accepted is None else audit.accepted.reason
    return Compacted(state, manifest, result, audit.verdict, done, *settled, accepted)


def _verdict_step(pointer: Pointer | None, verdict: Verdict, *, until: str | None) -> tuple[Step, ...]:
    """Return that a clean verdict was withdrawn, where it was."""
    is_withdrawn = pointer is not None and (pointer.verdict, pointer.until) == (CLEAN, until) and verdict != CLEAN
    return ("withdrawn",) if is_withdrawn else ()


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
        self._folder = DayFolder(options.out.prefix, day)
        self._publisher = Publisher(out, self._folder)
        self._log = structlog.get_logger().bind(day=self._folder.name)
        so_far = "" if self._until is None else f" --so-far {self._until}"
        again = f"{audit.publish} --date {day}{so_far}"
        self._pointer = PointerUpdate(self._publisher, context.new_id, audit.event_id, again)
        self._out = out
        self.mapping = DayMapping(options.columns)

    def look_up_columns(self, pointer: Pointer | None) -> None:
        """Find out by which columns the day is written."""
        given, replaces = self._options.columns, self._options.rewrite_columns
        self.mapping = mapping_of(self._publisher, pointer, given, replaces=replaces)

    def attempt(self, current: generation.Current, *, is_last: bool) -> Compacted | None:
        """Do what the table at the head says; None when another run published meanwhile, or the day changed.

        `current` was read before all else: If-Match then rejects an older view of the day.
        """
        self.look_up_columns(current.pointer)
        view = self._view(current)
        published = self.published(view.current, view.objects, view.before, view.generation)
        if published is not None:
            rejudged = rejudge.rejudge(self._context, view.day, self._options.audit, published.audit)
            if not rejudged.stale:
                return self._rejudge(view, published, rejudged, is_last=is_last)
            self._log.info("day_is_stale", generation=published.pointer.generation, reason=rejudged.stale)
        elif (held := self._held(view)) is not None:
            return self._hold(view, held, is_last=is_last)
        rewritten = self._rewrite(view, is_last=is_last)
        if rewritten is None:
            return None
        manifest, result, examined = rewritten
        pointer = view.current.pointer
        if not self.mapping.is_known or (result.audit.accepted is None and not publishable(result.audit)):
            return self._hold(view, _Held(manifest.audit, result), is_last=is_last)
        self._refuse_fewer_values(pointer, result.audit)
        self._store(view, manifest, result.audit, examined, self.mapping.columns)
        if not self._pointer.swap(manifest, view.current, self._context.now()):
            return None
        self._publisher.write_symlinks()
        self._log.info("day_published", generation=view.generation, rows=manifest.rows, files=len(manifest.files))
        settled = self._settle()
        audit = self._pointer.add_conflicts(manifest, rejudge.Rejudged(result.audit, examined), settled.table)
        step: Step = "published" if pointer is None or pointer.until != self._until else "rewritten"
        done = (step, *_verdict_step(pointer, manifest.verdict, until=self._until))
        return _compacted("published", manifest, audit, done, settled, result._replace(audit=audit))

    def _held(self, view: _View) -> _Held | None:
        """Judge a day by its facts that an earlier run has held; None: none has, or it need not be held any more.

        So what blocks a day for a week is told each night, and its lines are read once.
        """
        if self._options.accept is not None:
            return None
        before = self._newest_audit(view.generation)
        if before is None:
            return None
        judged = rejudge.rejudge(self._context, view.day, self._options.audit, before)
        if judged.stale or is_in_motion(self._context, judged.examined):
            return None
        published = self._before(view.current.pointer)
        audit = self._with_mapping(judged.audit)
        audit = self._complete(audit, judged.examined, view, published, view.generation)
        if self.mapping.is_known and (audit.accepted is not None or not blocking(audit)):
            return None
        withdraw_boundaries(self._context, judged.examined)
        key = self._folder.audit(view.generation, audit_of(judged.examined, self._options.audit.event_id, audit))
        return _Held(key, DayResult(audit, judged.examined.minutes, view.day.retention_ms))

    def _newest_audit(self, made: str) -> Audit | None:
        """Return the newest audit of a generation that was stored; None without one, or if it is damaged."""
        rows = [
            row
            for row in self._publisher.storage.list_objects(f"{self._folder.manifests}{made}-")
            if is_audit(row.key)
        ]
        newest = max(rows, key=lambda row: (row.last_modified_ms, row.key), default=None)
        stored = None if newest is None else self._publisher.storage.get(newest.key)
        if newest is None or stored is None:
            return None
        try:
            return decode_audit(stored.body, newest.key)
        except FormatError:
            return None

    def _hold(self, view: _View, held_as: _Held, *, is_last: bool) -> Compacted | None:
        """Publish nothing of this scope, and judge what readers see; None as for an attempt."""
        key, result = held_as
        current, verdict = view.current, result.audit.verdict
        pointer, held = current.pointer, Compacted("held", None, result, verdict)
        if pointer is None or pointer.until == self._until:
            is_withdrawn = self._pointer.withdraw(current, view.generation, key, result.audit)
            done = _verdict_step(pointer, verdict, until=self._until)
            return self._follow(held._replace(done=done)) if is_withdrawn else None
        self._publisher.put_audit(key, encode_audit(result.audit))
        options = self._options._replace(accept=None)
        part = _Run(self._context, self._out, self._day, options, published_until_ms(pointer))
        judged = part.attempt(current, is_last=is_last)
        if judged is None:
            return None
        reason = f"{_FORBIDDEN}; what is published until {pointer.until} was judged by itself: {judged.verdict}"
        done, swept, table, error = judged.done, judged.swept, judged.table, judged.table_error
        return held._replace(done=done, swept=swept, table=table, table_error=error, reason=reason)

    def published(
        self, current: generation.Current, objects: DayObjects, before: collecting.DayBefore | None, made: str
    ) -> _Published | None:
        """Return what is published of this scope, if its files may hold the day's rows; else None.

        `made` is the generation that the objects make.

        All of it is whole and of the same settings, and made of objects with the same keys and sizes. Where these
        were stored again, with other ETags or times, their contents are compared (`rejudge`). The audit of a rewrite
        that was held counts other rows: what was repaired since is read again. Earlier rules of columns are as good:
        a new version rewrites no day for itself.
        """
        pointer, now = current.pointer, objects.spool.rows
        if pointer is None or pointer.until != self._until:
            return None
        try:
            changes = compare_inventories(objects.prefix, self._publisher.inventory(pointer) or now(), now())
        except FormatError as exc:
            self._log.warning("published_day_not_trusted", reason=str(exc), next_step=_READ_AGAIN)
            return None
        is_of_a_held_run = self._folder.generation_beside(generation.audit_key(pointer)) != pointer.generation
        if is_of_a_held_run or not changes.are_same_slots:
            return None
        names = {
            generation_of_rows(self._publisher.inventory(pointer) or now(), self._options.audit, before, each)
            for each in self.mapping.alike
        }
        manifest = self._publisher.intact(pointer)
        audit = None if manifest is None else self._audit_of(pointer)
        if manifest is None or audit is None:
            return None
        published = _Published(pointer, manifest, audit, changes)
        return published if published.generations & {*names, made} else None

    def _before(self, pointer: Pointer | None) -> Audit | None:
        """Return the audit of what is published of this scope, or of less of it: what it says and accepts goes on."""
        return None if pointer is None else self._audit_of(pointer)

    def _audit_of(self, pointer: Pointer) -> Audit | None:
        """Return the audit of a published day; None: it is gone or damaged, so the day is read again."""
        try:
            body = self._publisher.audit(pointer)
            return None if body is None else decode_audit(body, generation.audit_key(pointer))
        except FormatError as exc:
            self._log.warning("published_day_not_trusted", reason=str(exc), next_step=_READ_AGAIN)
            return None

    def keep_expired(self) -> Compacted:
        """Leave an expired day as it was published, but commit it to the table: its raw objects are gone."""
        tombstone: Tombstone | None = None
        with suppress(FormatError):  # `--due` names it
            tombstone = read_tombstone(self._context.archive, self._context.place.prefix, self._day)
        kept = self.settle(tombstone, is_expired=True)
        if kept.state == "already" and (self._context.table is None or kept.manifest is None):
            raise SafetyRefusal(
                f"the raw objects of {self._day} were expired: the published Parquet is all there is of them",
                next_step="read the published day; it must not be rewritten from what is left",
            )
        return kept

    def settle(self, tombstone: Tombstone | None = None, *, is_expired: bool) -> Compacted:
        """Do what follows the pointer, and judge nothing; see `settle_day`."""
        try:
            pointer, manifest = self._publisher.published()
        except FormatError as exc:
            return _unproven(str(exc))
        if is_expired and (held := self._not_followed(pointer, manifest, tombstone)):
            return held
        if pointer is None:
            return Compacted("already", None, None, "unknown", reason="it was never published")
        if manifest is None:
            return _unproven(f"{pointer.manifest} is missing")
        is_given_back = is_expired and pointer.verdict != CLEAN and self._give_back(pointer, manifest)
        done: tuple[Step, ...] = ("judged again",) if is_given_back else ()
        verdict = CLEAN if is_given_back else pointer.verdict
        self.look_up_columns(pointer)
        self._pin(manifest)
        self._publisher.write_symlinks()
        return Compacted("already", manifest, None, verdict, done, *self._settle())

    def _give_back(self, pointer: Pointer, manifest: Manifest) -> bool:
        """Give an expired day, whose output is as it was, the verdict back that it lost; return whether it did."""
        audit = self._audit_of(pointer)
        if audit is None or not self._is_given_up(audit, manifest):
            return False
        current, judged = self._publisher.current(), PointerVerdict(CLEAN, manifest.audit)
        return current.pointer == pointer and self._publisher.swap_verdict(current, self._context.new_id(), judged)

    def held_as_expired(self, tombstone: Tombstone | None) -> Compacted | None:
        """Return the outcome of an expired day whose pointer nothing follows; None: it is whole, and as expired."""
        try:
            return self._not_followed(*self._publisher.published(), tombstone)
        except FormatError as exc:
            return _unproven(str(exc))

    def _not_followed(
        self, pointer: Pointer | None, manifest: Manifest | None, tombstone: Tombstone | None
    ) -> Compacted | None:
        if (
            tombstone is not None
            and tombstone.generation
            and (other := self._not_as_expired(pointer, manifest, tombstone))
        ):
            return other
        if pointer is None:
            return None
        if manifest is None:
            return _unproven(f"{pointer.manifest} is missing")
        if why := self._publisher.damage(pointer, manifest, reads=tombstone is not None):
            if self._publisher.is_whole(manifest):
                return _unproven(why)
            raise SafetyRefusal(
                f"files of {self._day} were published and are gone, and so are the raw objects",
                next_step="restore the files from versions of them: nothing else holds these records",
            )
        if tombstone is None:
            # It may say that another generation was published then: a sweep would take that one's only files.
            key = tombstone_key(self._context.place.prefix, self._day)
            return _unproven("nobody knows what was published then", restore=key)
        return self._less_than_clean(pointer, manifest) if tombstone.generation else None

    def _less_than_clean(self, pointer: Pointer, manifest: Manifest) -> Compacted | None:
        """Return the outcome of an expired day whose verdict is not clean, as it was then; None: it may stay so."""
        if pointer.verdict == CLEAN:
            return None
        audit = self._audit_of(pointer)
        if audit is not None and (audit.accepted is not None or self._is_given_up(audit, manifest)):
            return None
        why = f"its verdict is {pointer.verdict}, and was clean when it was expired"
        return _unproven(why, pointer.verdict, restore=self._folder.pointer)

    def _is_given_up(self, audit: Audit, manifest: Manifest) -> bool:
        """Return whether an expired day was withdrawn only because its output was not what it was expired with.

        Where it is so again, the verdict with which the manifest was published is true again, too.
        """
        is_known = manifest.verdict == CLEAN and not was_read(audit)
        return is_known and self._publisher.storage.head(manifest.audit) is not None

    def _not_as_expired(
        self, pointer: Pointer | None, manifest: Manifest | None, tombstone: Tombstone
    ) -> Compacted | None:
        """Return the outcome of an expired day that is not published as its tombstone says; None: it is.

        Its raw objects were deleted because that generation was whole and clean: any other state is older, and a
        sweep would take the files of that generation for replaced ones.
        """
        expected = tombstone.generation
        if pointer is None or pointer.generation != expected:
            is_there = any("/part-" in key for key in self._out.keys(self._folder.generation(expected)))
            now = "nothing" if pointer is None else pointer.generation
            left = "its files still lie there" if is_there else "no file of it is left there"
            why = f"{expected} was published then and {now} is now; {left}"
            return _unproven(why, "unknown" if is_there else "defects", restore=_OUTPUT)
        if pointer.until is not None:
            return _unproven(f"it is published until {pointer.until} alone", restore=_OUTPUT)
        if manifest is not None and self._is_older(manifest, pointer.manifest, tombstone.manifest):
            why = f"{tombstone.manifest} was published then, and the older {pointer.manifest} is now"
            return _unproven(why, restore=_OUTPUT)
        return None

    def _is_older(self, manifest: Manifest, key: str, expected: str) -> bool:
        """Return whether an expired day's manifest is older than the one that it was expired with.

        Both are of one generation; the older one can name objects that were stored again since. A younger one is of a
        run that was under way when the day was expired. Of another output of the archive its generation must do.
        """
        then = None if key == expected else self._publisher.manifest_at(expected)
        return then is not None and manifest.written_at < then.written_at

    def _view(self, current: generation.Current) -> _View:
        audit = self._options.audit
        day = view_day(self._context, self._day, self._until_ms)
        objects = day.inventory
        before = None
        if audit.event_id is not None:
            before = collecting.look_back(self._context, self._day, objects.grouping, audit.published)
        name = generation_of(objects, audit, before, self.mapping.name)
        places = KnownPlaces.of(self._options.out, self._folder, name, current.pointer)
        day = with_gone(day, self._publisher, current.pointer)
        return _View(current, with_known(self._context, day, places), name, before)

    def _rejudge(
        self, view: _View, published: _Published, rejudged: rejudge.Rejudged, *, is_last: bool
    ) -> Compacted | None:
        """Publish the verdict of today's evidence: only it may change, in either direction.

        Where objects were stored again with their contents, a new manifest of the generation names them as they are.
        None: another run swapped the pointer meanwhile, or the day changed.
        """
        pointer, manifest, before, changes = published
        if not is_last and is_in_motion(self._context, rejudged.examined):
            return None
        withdraw_boundaries(self._context, rejudged.examined)
        files = self._files_of(manifest, before)
        audit = self._complete(rejudged.audit, rejudged.examined, view, before, manifest.generation, files)
        key = self._folder.audit(
            manifest.generation, audit_of(rejudged.examined, self._options.audit.event_id, audit)
        )
        judged = PointerVerdict(audit.verdict, key)
        is_altered = audit.accepted is None and any(
            about.code == Code.ALTERED_OBJECT for about in rejudged.audit.findings
        )
        if changes.stored_again and not is_altered:
            manifest = msgspec.structs.replace(
                manifest,
                inventory=view.objects.digest(),
                verdict=judged.verdict,
                audit=judged.audit,
                writer=self._context.new_id(),
                written_at=self._context.now(),
            )
            self._store(view, manifest, audit, rejudged.examined, self.mapping.published)
        result: DayResult | None = None
        is_another = (pointer.verdict, pointer.audit) != judged or manifest != published.manifest
        if is_another or _without_times(audit) != _without_times(before):
            # One of the same name that says something else is damaged.
            self._publisher.put_audit(key, encode_audit(audit))
        if is_another:
            if not self._pointer.swap(manifest, view.current, pointer.written_at, judged):
                return None
            result = DayResult(audit, rejudged.examined.minutes, view.day.retention_ms)
        self._pin(manifest)
        self._publisher.write_symlinks()
        settled = self._settle()
        self._pointer.add_conflicts(manifest, rejudged._replace(audit=audit), settled.table)
        done: tuple[Step, ...] = ("judged again", *_verdict_step(pointer, audit.verdict, until=self._until))
        return _compacted("already", manifest, audit, done, settled, result)

    def _files_of(self, manifest: Manifest, before: Audit) -> tuple[FileBasis, ...]:
        """Return the files as they were stored, by the audits that may know; else as they are: they are whole."""
        keys = [file.key for file in manifest.files]
        latest = () if before.basis is None else before.basis.files
        if [file.key for file in latest] == keys:
            return latest
        first = self._publisher.judgement(manifest.audit)
        if first is not None and [*first.files] == keys:
            return tuple(FileBasis(key=key, etag=etag, digest=digest) for key, (etag, digest) in first.files.items())
        # An earlier version did not say what it had stored.
        etags = {row.key: row.etag for row in self._out.list_objects(self._folder.generation(manifest.generation))}
        return tuple(FileBasis(key=file.key, etag=etags[file.key]) for file in manifest.files if file.key in etags)

    def _complete(
        self,
        audit: Audit,
        examined: Examined,
        view: _View,
        before: Audit | None,
        made: str,
        files: tuple[FileBasis, ...] = (),
    ) -> Audit:
        """Return the audit with what it rests on, and with a person's decision if that was given or still holds.

        `made` is the generation whose facts the next night reads, `files` are its Parquet files.
        """
        options = self._options
        basis = basis_of(
            self._context,
            examined,
            options.audit,
            view.generation,
            () if view.before is None else view.before.folders,
        )
        facts = self._publisher.storage.keys(f"{self._folder.generation(made)}{FACTS_FOLDER}")
        clean_inventory = "" if audit.verdict == CLEAN else view.day.clean_inventory
        basis = msgspec.structs.replace(basis, facts=len(facts), files=files, clean_inventory=clean_inventory)
        decision = Decision(None if before is None else before.accepted, options.accept, self._context.now())
        accepted = decision.on(audit.verdict, audit.findings, failed_checks(audit))
        pointer = view.current.pointer
        is_of_this_scope = pointer is not None and pointer.until == self._until
        if is_of_this_scope and accepted is None and decision.earlier is not None and audit.verdict != CLEAN:
            self._log.warning(
                "acceptance_ended",
                reason=decision.earlier.reason,
                next_step="look at the findings that are new; --accept REASON accepts them, too",
            )
        return msgspec.structs.replace(audit, basis=basis, accepted=accepted)

    def _tell_conflicts(self) -> None:
        """Say which columns the table will not take, before the day is read: its commit comes an hour later."""
        table, columns = self._context.table, self.mapping.columns
        if table is None:
            return
        conflicts: Sequence[Conflict] = ()
        with suppress(CatalogRefused, CatalogUnavailable, OutcomeUnknown):  # the commit waits for it, or says why not
            conflicts = table.conflicts(None if columns is None else columns.types)
        if conflicts:
            texts = [*map(str, conflicts)]
            self._log.error("table_conflict_ahead", table=table.name, conflicts=texts, next_step=AHEAD_STEP)

    def _rewrite(self, view: _View, *, is_last: bool) -> tuple[Manifest, DayResult, Examined] | None:
        if view.objects.objects:
            self._tell_conflicts()
        folder = self._folder.generation(view.generation)
        options, columns = self._options.audit, self.mapping.columns
        if columns is not None:  # each task gets a copy
            columns = columns._replace(schemas=())
        published = "" if view.day.known is None else view.day.known.published
        writing = Writing(self._options.out, folder, self._options.zstd_level, columns, published)
        examined = examine(self._context, view.day, options, writing, view.before)
        work = examined.work
        if work.earlier:
            self._log.info("day_goes_on", tasks=work.tasks, done_before=work.earlier)
        if is_in_motion(self._context, examined):
            if not is_last:
                return None
            examined = examined._replace(is_in_motion=True)
        withdraw_boundaries(self._context, examined)
        late = _late_minutes(self._publisher, view.current.pointer, view.objects)
        audit = conclusion.conclude_rewrite(self._context, examined, options, columns, late)
        before = self._before(view.current.pointer)
        if before is not None:
            audit = rejudge.with_alterations(audit, before, lambda: (row[0] for row in view.objects.spool.rows()))
        parts = sorted(examined.parts, key=lambda part: part.key)
        files = tuple(FileBasis(key=part.key, etag=part.etag, digest=part.digest) for part in parts)
        audit = self._with_mapping(audit)
        audit = self._complete(audit, examined, view, before, view.generation, files)
        manifest = Manifest(
            format=1,
            day=self._folder.name,
            generation=view.generation,
            files=generation.files_of([(part.key, part.rows, part.size) for part in examined.parts]),
            rows=sum(part.rows for part in examined.parts),
            inventory=view.objects.digest(),
            verdict=audit.verdict,
            audit=self._folder.audit(view.generation, audit_of(examined, options.event_id, audit)),
            ends={shard.shard: shard.last for shard in audit.shards if shard.last is not None},
            writer=self._context.new_id(),
            written_at=self._context.now(),
            rules=RULES,
            until=self._until,
            removed=audit.equation.removed,
            restored=audit.equation.restored,
            event_id=options.event_id,
            columns=None if columns is None else columns.types,
        )
        return manifest, DayResult(audit, examined.minutes, examined.view.retention_ms), examined

    def _store(
        self, view: _View, manifest: Manifest, audit: Audit, examined: Examined, columns: Columns | None
    ) -> None:
        """Store the inventory, the ends of the chains, the columns and the audit, then the manifest."""
        key = self._folder.manifest(manifest.generation, manifest.writer)
        self._put_columns(manifest, columns)
        self._publisher.put_inventory(key, view.objects.spool.chunks())
        self._publisher.put_beside(generation.ends_beside(key), ends.encode_ends(manifest, examined.ends))
        self._publisher.put_audit(manifest.audit, encode_audit(audit))
        self._publisher.put_manifest(manifest)

    def _put_columns(self, manifest: Manifest, columns: Columns | None) -> None:
        """Store the columns of a whole day beside its manifest: what comes late is read by them (`mapping`)."""
        if columns is None or manifest.until is not None:
            return
        key = generation.columns_beside(self._folder.manifest(manifest.generation, manifest.writer))
        self._publisher.storage.put_if_absent(key, encode_pinned(manifest.day, manifest.generation, columns))

    def _pin(self, manifest: Manifest) -> None:
        """Store the columns of a day that an earlier release published, where they are known."""
        if not self.mapping.is_stored:
            self._put_columns(manifest, self.mapping.published)

    def _with_mapping(self, audit: Audit) -> Audit:
        """Return an audit of what was not published, which says whether the day's columns are known."""
        return columns_again.with_mapping(audit, self._options.audit.publish, is_known=self.mapping.is_known)

    def _refuse_fewer_values(self, pointer: Pointer | None, audit: Audit) -> None:
        """Raise SafetyRefusal where columns that a person asked for would hold fewer values than those of the day."""
        if not self._options.rewrite_columns or self._options.is_confirmed or pointer is None:
            return
        manifest = self._publisher.manifest(pointer)
        stored = None if manifest is None else self._publisher.storage.get(manifest.audit)
        published = None if stored is None or manifest is None else decode_audit(stored.body, manifest.audit).typed
        columns_again.refuse_fewer(self._day, published, audit.typed)

    def _follow(self, held: Compacted) -> Compacted:
        """Let symlinks and table follow what stays published of a held day, if that is whole.

        Nothing is swept: the next run takes what was read of the held generation.
        """
        try:
            pointer, manifest = self._publisher.published()
        except FormatError:
            return held
        if pointer is None:
            # Its live rows are all that readers have of the day.
            key = live_pointer_key(self._folder)
            if self._context.table is None or self._publisher.storage.head(key) is None:
                return held
        elif manifest is None or self._publisher.damage(pointer, manifest):
            return held
        else:
            self._publisher.write_symlinks()
        commit, error = self._commit()
        return held._replace(table=commit, table_error=error)

    def _settle(self) -> _Settled:
        """Commit to the table, then sweep: until then the table may name the replaced generation."""
        commit, error = self._commit(sweeps=True)
        return _Settled(len(self._publisher.sweep(self._context.clock.now_ms())), commit, error)

    def _commit(self, *, sweeps: bool = False) -> tuple[TableCommit | None, MinutebookError | None]:
        """Commit what the pointers name to the table; then delete live parts that nothing names any more."""
        context, table = self._context, self._context.table
        commit: TableCommit | None = None
        if table is None:
            return None, None
        work = files.EventWork(self._options.out.address, context.spread, context.clock)
        events = files.files_by_event(self._publisher, self.mapping.columns, work)
        live = LiveDay(self._publisher, context.archive, context.place.prefix, context.clock, context.new_id)
        committer = TableCommitter(table, self._publisher, context.clock, context.new_id, events, live)
        try:
            commit = committer.commit()
            # Not in the run that has replaced them: a snapshot that is hours old may name these files.
            is_swept = sweeps and events is None and commit is not None and commit.state == "already"
            pointer = self._publisher.current().pointer if is_swept else None
            if pointer is not None:
                names, before_ms = {committer.table_uuid, table.name}, context.clock.now_ms() - GRACE_MS
                sweep_live(live, pointer, committer.present, names, before_ms)
        except (CatalogRefused, CatalogUnavailable, SafetyRefusal) as exc:
            self._log.error("table_commit_failed", reason=str(exc), next_step=exc.next_step)
            return commit, exc
        return commit, None


def _without_times(audit: Audit) -> Audit:
    """Return what two audits of one name have in common."""
    basis = None if audit.basis is None else msgspec.structs.replace(audit.basis, judged_from="")
    return msgspec.structs.replace(audit, audited_at="", version="", basis=basis)


def _unproven(damage: str, verdict: Verdict = "unknown", *, restore: str = "the object") -> Compacted:
    """Return the outcome of an expired day of which something published is damaged: nothing can be made anew."""
    reason = f"its raw objects were expired, and {damage}: restore {restore} from a version of it"
    return Compacted("held", None, None, verdict, reason=reason)


def _late_minutes(publisher: Publisher, pointer: Pointer | None, objects: DayObjects) -> list[Finding]:
    """Return a warning if objects came late, went or changed since the generation that readers see was made."""
    if pointer is None:
        return []
    try:
        changes = compare_inventories(
            objects.prefix, publisher.inventory(pointer) or (), _rows_before(objects, published_until_ms(pointer))
        )
    except FormatError as exc:
        structlog.get_logger().warning(
            "published_day_not_trusted", day=pointer.day, reason=str(exc), next_step=_READ_AGAIN
        )
        return []
    if not changes.late or not changes.compared:
        return []
    return [
        finding(
            Code.LATE_MINUTES,
            f"{changes.late} object(s) in {len(changes.minutes)} minute(s) differ from the published generation "
            f"{pointer.generation}: a new one replaces it",
            severity="warning",
            minute=minute_text(min(changes.minutes)) if changes.minutes else None,
            keys=changes.keys,
            count=changes.late,
        )
    ]


def _rows_before(objects: DayObjects, until_ms: int | None) -> Iterator[PublishedRow]:
    """Yield the objects of minutes before a time, and those that are no segments; None: all."""
    for row in objects.spool.rows():
        parsed = None if until_ms is None else row_of_published(objects.prefix, row).parsed
        if until_ms is None or parsed is None or parsed.minute * MINUTE_MS < until_ms:
            yield row
