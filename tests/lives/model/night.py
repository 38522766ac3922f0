"""A night in steps: between any two of them it may die, time may pass, and another host may work.

The story is that of `compaction.night.rewrite`, `compaction.night.due` and `compaction.tables.commit`, told again
without their I/O; the decisions in it are theirs. Each `yield` is a request, or some that nothing can come between
which would matter. The model's own are the order of the story, what is missing of a published day
(`DayOutput.damage`), and the names of generations' audits.
"""

import enum
import itertools
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec

from compaction.audit.rejudge import with_alterations, with_earlier
from compaction.audit.shards.group_view import unwritten
from compaction.audit.shards.known import EarlierReading, JoinArgument, known_of, last_reading
from compaction.inventory.changes import InventoryChanges, compare_inventories
from compaction.inventory.checkpoints import Checkpoints
from compaction.inventory.segments import ListedSegment, SegmentFacts, with_history
from compaction.inventory.shard_markers import ArchiveMarkers
from compaction.job.context import AuditOptions
from compaction.job.scope import is_settled, judged_scope
from compaction.night.days.run import DayRow, row_of_due, row_of_error
from compaction.night.due import DueDay, PointerWord, days_in_turn, why_due, word_of, zombies_of
from compaction.night.generation_name import generation_of_rows
from compaction.night.rewrite import Compacted, Step
from compaction.publish.publisher import GRACE_MS
from compaction.tables.commit import TableCommit
from compaction.tasks.finished import Reading
from compaction.verdict.acceptance import Decision
from compaction.verdict.audit_document import Audit, blocking, failed_checks, overall_verdict, publishable
from compaction.verdict.basis import Basis, differences
from compaction.verdict.findings import Code
from minutebook.coverage.intervals import Interval
from minutebook.errors import CatalogUnavailable, MinutebookError, SafetyRefusal, StoreUnavailable
from minutebook.format.day import MINUTES_A_DAY, Day, day_of_ms
from minutebook.format.minute import MINUTE_MS, iso_time, parse_iso_time
from minutebook.published.generation import File, Manifest, Pointer, audit_key
from minutebook.published.inventory import PublishedRow, inventory_digest
from minutebook.published.verdict import CLEAN, RULES, Verdict
from minutebook.store.storage import Address
from tests.corpus.model import PREFIX
from tests.lives.model.archive import Entry
from tests.lives.model.judgement import Judged, Rows, View, basis_of, conclude, judge, merge_rows, present_basis
from tests.lives.model.output import DayOutput, InTable, Outputs, PartFile, Table
from tests.lives.model.world import World

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Steps of a run, and what it returns."""
_ATTEMPTS: Final = 5
_OPTIONS: Final = AuditOptions()


class Rule(enum.StrEnum):
    """A rule that the model tells by itself, and that can be left out, to see that lives notice it."""

    SWAP = "a pointer is swapped only if it is the one that was read before all else"
    WITHDRAW = "a scope that is held takes its verdict from the rows that readers see"
    MADE = "a scope that is held while another run publishes it is listed again"
    PART = "where a longer scope is held, the published part is judged by itself"
    UNTIL = "what is published never reaches less far than before"
    GONE = "what is held of an object that went is kept for when it comes back"
    FOLLOW = "the table follows the pointer of a day that is current"
    EACH_NIGHT = "a day that is held is judged each night"


class Night(NamedTuple):
    """What a night found due, and told."""

    due: Mapping[Day, DueDay]
    rows: Mapping[Day, DayRow]


class _View(NamedTuple):
    """The day at the start of an attempt: the pointer was read first. `rows` carry what is known of them."""

    pointer: Pointer | None
    etag: int
    view: View
    generation: str
    rows: Sequence[ListedSegment]


class _Published(NamedTuple):
    pointer: Pointer
    manifest: Manifest
    audit: Audit
    changes: InventoryChanges


class _Settled(NamedTuple):
    swept: int
    table: TableCommit | None
    error: MinutebookError | None


class Site:
    """A world, the output of its nights, and their table, if any."""

    def __init__(self, world: World, table: Table | None = None, without: Rule | None = None) -> None:
        self.world = world
        self.without = without
        self.archive = world.archive
        self.outputs = Outputs()
        self.table = table
        self._numbers = itertools.count(1)
        self._compared: dict[Day, tuple[Basis, list[int], str]] = {}

    def has(self, rule: Rule) -> bool:
        """Return whether a rule is not left out."""
        return rule is not self.without

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.world.clock.now_ms()

    def new_id(self) -> str:
        """Return a new id."""
        return f"run{next(self._numbers)}"

    # A night

    def night(self, window: int, accept: Mapping[Day, str] | None = None) -> Steps[Night]:
        """Do what is due; a day's error is its row. `accept` are a person's decisions on days, made before."""
        for day, reason in (accept or {}).items():
            yield from self.compact(day, accept=reason)
        due = yield from self.find_due(window)
        rows = {}
        for day in sorted(due, reverse=True):
            each = due[day]
            try:
                is_compacted = bool(each.why) and not each.is_expired
                done = yield from (self.compact(day) if is_compacted else self.settle(day))
            except MinutebookError as exc:
                rows[day] = row_of_error(day, exc)
                continue
            pointer = self.word(day) if is_compacted else each.pointer
            rows[day] = row_of_due(each, done, pointer, "unknown", has_table=self.table is not None)
        return Night(due, rows)

    def word(self, day: Day) -> PointerWord:
        """Return what readers see of a day."""
        out = self.outputs.of(day)
        return "none" if out.pointer is None else word_of(out.pointer, out.audit)

    def find_due(self, window: int) -> Steps[dict[Day, DueDay]]:
        """Look at the last days of the archive, and at one or two before them."""
        application, now_ms = self.archive.application, self.now_ms
        assert application is not None
        newest = day_of_ms(now_ms).shift(-1)
        newest = newest if is_settled(newest, now_ms) else newest.shift(-1)
        oldest = day_of_ms(application.begin_ms)
        first = max(oldest, newest.shift(1 - window))
        before = [day for day in sorted(self.outputs.days) if oldest <= day < first]
        expired = dict(self.archive.tombstones)
        turn = [day for day in before if day not in expired and self.outputs.of(day).pointer is not None]
        days = [*days_in_turn(turn, day_of_ms(now_ms)), *map(Day, range(first.number, newest.number + 1))]
        yield
        states = {day: self._why(day) for day in days if day not in expired}
        yield
        known = {
            day: (judged_scope(day, application, now_ms), out.audit.basis)
            for day, (_, why) in states.items()
            if not why and (out := self.outputs.of(day)).audit is not None and out.audit.basis is not None
        }
        touched = {day for scope, _ in known.values() for day in _days_touched(scope)}
        # What changes while the night looks is another state than the one that it has read.
        versions = self.archive.versions.copy()
        markers = self.archive.read_markers(touched)
        due = {}
        for day in days:
            if day in expired:
                row, tombstone = expired[day]
                rows = [entry.row for entry in self.archive.listed(day, None)]
                zombies = zombies_of(tombstone, row.last_modified_ms, rows)
                due[day] = DueDay(day, "expired", is_expired=True, zombies=tuple(zombies))
                continue
            word, why = states[day]
            if day in known:
                yield
                scope, basis = known[day]
                why = self._differences(markers, versions, basis, day, scope)
            due[day] = DueDay(day, word, why)
        return due

    def _differences(
        self, markers: ArchiveMarkers, versions: Counter[object], basis: Basis, day: Day, scope: Interval
    ) -> str:
        """Return how a basis differs from what is listed now; compared once, while nothing changes that it names."""
        minutes = [minute for shard in basis.shards for minute in (shard.minute_before, shard.minute_after) if minute]
        numbers = [day.number - 1, day.number + 1, *(minute // MINUTES_A_DAY for minute in minutes)]
        is_open = any(shard.looks_ahead and not shard.first_after for shard in basis.shards)
        last = max(numbers) if not is_open else day_of_ms(self.now_ms).number
        marks = versions[day], versions[day.shift(1)]
        state = [versions[""], *marks, *(versions[number] for number in range(min(numbers), last + 1))]
        known = self._compared.get(day)
        if known is None or known[0] is not basis or known[1] != state:
            present = present_basis(self.archive, markers, basis, day, scope)
            known = self._compared[day] = (basis, state, "; ".join(differences(basis, present)))
        return known[2]

    def _why(self, day: Day) -> tuple[PointerWord, str]:
        out = self.outputs.of(day)
        pointer, manifest, audit = out.pointer, out.manifest, out.audit
        if pointer is None:
            return "none", "it is not published"
        why = why_due(pointer, manifest, audit)
        if not why and manifest is not None and audit is not None:
            why = out.damage(manifest, 0 if audit.basis is None else audit.basis.facts)
        return word_of(pointer, audit), why

    # One day

    def view(self, day: Day, until_ms: int | None = None) -> Steps[View]:
        """View a day."""
        archive = self.archive
        yield
        judged_from_ms, checkpoints = archive.stamp_ms(), self.world.checkpoints
        yield
        last = day_of_ms(day.end_ms if until_ms is None else until_ms)
        markers = archive.read_markers([day] if last == day else [day, last])
        yield
        end = None if until_ms is None else until_ms // MINUTE_MS
        scope = judged_scope(day, markers.application, self.now_ms, until_ms)
        entries, folders = archive.listed(day, end), archive.folders(day, end)
        yield
        return View(day, scope, end, self.now_ms, judged_from_ms, checkpoints, markers, entries, folders)

    def judge_afresh(self, day: Day) -> Steps[Verdict]:
        """Return the verdict of an audit that knows nothing of what was published.

        But that it judges no shard that was born since, or had no segment then: one whose first segment is gone is
        judged on earlier days, too, because nothing says on which one the segment lay. Nor does it ask KCL's
        checkpoints, which no digest holds: when one comes to pass the last segment later, the segment that is gone
        was stored after the times of a clean day were proven.
        """
        view = yield from self.view(day)
        view = view._replace(checkpoints=Checkpoints({}))
        facts = {entry.key: entry.facts for entry in view.entries}
        judged = judge(self.archive, view, [entry.row for entry in view.entries], facts)
        findings = merge_rows(view, {entry.key: entry for entry in view.entries}).findings
        audit, published = conclude(view, judged, findings, None, is_in_motion=False), self.outputs.of(day).audit
        basis = None if published is None else published.basis
        known: set[str | None] = set()
        if basis is not None:
            inside = {entry.row.parsed.shard_id for entry in view.entries if entry.row.parsed is not None}
            had_one = [
                each.shard
                for each in basis.shards
                if each.looks_ahead or each.first_before or each.first_after or each.shard in inside
            ]
            known = {None, *had_one}
        return overall_verdict([about for about in audit.findings if about.shard in known], audit.checks)

    def compact(self, day: Day, until_ms: int | None = None, accept: str | None = None) -> Steps[Compacted]:
        """Rewrite, audit and publish one day, or a part of it unless the whole day is published."""
        out = self.outputs.of(day)
        if until_ms is None and not is_settled(day, self.now_ms):
            return Compacted("held", None, None, "unknown", reason="it is not over")
        for number in range(1, _ATTEMPTS + 1):
            yield
            if day in self.archive.tombstones:
                return (yield from self._keep_expired(day))
            yield
            published_ms = _published_ms(out.pointer)
            if until_ms is not None and published_ms is None and out.pointer is not None:
                return Compacted("already", None, None, out.pointer.verdict, reason="its day is, as a whole")
            least_ms = (published_ms or 0) if self.has(Rule.UNTIL) else 0
            reach_ms = None if until_ms is None else max(until_ms, least_ms)
            run = _Run(self, day, reach_ms, accept)
            outcome = yield from run.attempt(out.pointer, out.etag, is_last=number == _ATTEMPTS)
            if outcome is not None:
                return outcome
        raise StoreUnavailable("other runs published it in each attempt", next_step="")

    def _keep_expired(self, day: Day) -> Steps[Compacted]:
        kept = yield from self.settle(day)
        if kept.state == "already" and (self.table is None or kept.manifest is None):
            raise SafetyRefusal(f"the raw objects of {day} were expired", next_step="")
        return kept

    def settle(self, day: Day) -> Steps[Compacted]:
        """Let the table follow the pointer, and delete old files; judge nothing."""
        out = self.outputs.of(day)
        yield
        pointer, manifest = out.pointer, out.manifest
        if pointer is None:
            return Compacted("already", None, None, "unknown", reason="it was never published")
        if manifest is None:
            return Compacted("held", None, None, "unknown", reason="its manifest is missing")
        if out.damage(manifest, 0):
            raise SafetyRefusal(f"files of {day} were published and are gone", next_step="")
        if not self.has(Rule.FOLLOW):
            commit = TableCommit("t", "already", manifest.generation, manifest.rows)
            return Compacted("already", manifest, None, pointer.verdict, (), 0, commit)
        settled = yield from self.follow(day)
        return Compacted("already", manifest, None, pointer.verdict, (), *settled)

    def follow(self, day: Day, *, sweeps: bool = True) -> Steps[_Settled]:
        """Write the symlinks, commit to the table, then sweep."""
        out = self.outputs.of(day)
        yield
        while True:
            pointer, manifest = out.pointer, out.manifest
            yield
            if manifest is not None:
                out.symlinks = tuple(file.key for file in manifest.files)
            yield
            if out.pointer == pointer:
                break
        commit, error = yield from self._commit(day)
        if not sweeps:
            return _Settled(0, commit, error)
        yield
        return _Settled(out.sweep(self.now_ms), commit, error)

    def _commit(self, day: Day) -> Steps[tuple[TableCommit | None, MinutebookError | None]]:
        table, out = self.table, self.outputs.of(day)
        if table is None:
            return None, None
        for _ in range(_ATTEMPTS):
            yield
            if self.now_ms < table.away_until_ms:
                return None, CatalogUnavailable("the catalog is away", next_step="")
            snapshot, held = table.snapshots, table.days.get(day)
            yield
            pointer, manifest = out.pointer, out.manifest
            if pointer is None or manifest is None:
                return None, None
            if held is not None and held.files == manifest.files:
                self._unmark(out, held)
                return TableCommit("t", "already", manifest.generation, manifest.rows), None
            out.table_marks[manifest.generation, self.new_id()] = self.now_ms
            yield
            if out.pointer is None or out.pointer.manifest != pointer.manifest:
                continue
            yield
            if self.now_ms < table.away_until_ms or table.snapshots != snapshot:
                continue
            table.days[day] = InTable(manifest.files, manifest.generation, self.now_ms)
            table.snapshots += 1
            yield
            if out.pointer is not None and out.pointer.manifest == pointer.manifest:
                return TableCommit("t", "committed", manifest.generation, manifest.rows), None
        return None, CatalogUnavailable("others keep changing the table", next_step="")

    def _unmark(self, out: DayOutput, held: InTable) -> None:
        before_ms = self.now_ms - GRACE_MS
        if held.committed_ms < before_ms:
            for (generation, run), stored_ms in list(out.table_marks.items()):
                if generation != held.generation and stored_ms < before_ms:
                    del out.table_marks[generation, run]


class _Run:
    """One attempt at one day."""

    def __init__(self, site: Site, day: Day, until_ms: int | None, accept: str | None) -> None:
        self._site = site
        self._archive = site.archive
        self._day = day
        self._until_ms = until_ms
        self._until = None if until_ms is None else iso_time(until_ms)
        self._accept = accept
        self._out = site.outputs.of(day)
        self._folder = self._out.folder
        self._run = site.new_id()

    def attempt(self, pointer: Pointer | None, etag: int, *, is_last: bool) -> Steps[Compacted | None]:
        """Judge, hold or rewrite; None when another run published meanwhile, or the day changed."""
        view = yield from self._view(pointer, etag)
        published = self._published(view)
        if published is not None:
            judged, audit, is_stale = yield from self._judge_again(view, published.audit)
            if not is_stale:
                return (yield from self._rejudge(view, published, judged, audit, is_last=is_last))
        elif (held := (yield from self._held(view))) is not None:
            return (yield from self._hold(view, *held, is_last=is_last))
        rewritten = yield from self._rewrite(view, is_last=is_last)
        if rewritten is None:
            return None
        manifest, audit = rewritten
        if audit.accepted is None and not publishable(audit):
            return (yield from self._hold(view, manifest.audit, audit, is_last=is_last))
        yield from self._store(view, manifest, audit)
        yield
        if not self._swap(manifest, view, iso_time(self._site.now_ms), audit.verdict, manifest.audit):
            return None
        settled = yield from self._site.follow(self._day)
        step: Step = "published" if pointer is None or pointer.until != self._until else "rewritten"
        done = (step, *self._withdrawn(pointer, audit.verdict))
        return self._compacted("published", manifest, audit, done, settled)

    def _view(self, pointer: Pointer | None, etag: int) -> Steps[_View]:
        view = yield from self._site.view(self._day, self._until_ms)
        generation = generation_of_rows(_inventory(view), _OPTIONS, None, None)
        return _View(pointer, etag, view, generation, self._with_known(view, pointer, generation))

    def _with_known(self, view: View, pointer: Pointer | None, generation: str) -> list[ListedSegment]:
        published = "" if pointer is None else pointer.generation
        inventory = () if pointer is None else self._out.inventories.get(pointer.manifest, ())
        rows_before = {row[0]: row for row in inventory}
        earlier: dict[str, list[EarlierReading]] = defaultdict(list)
        for name in sorted({generation, published} - {""}):
            for each in self._out.earlier(name, is_published=name == published):
                earlier[each.reading.facts.key].append(each)
        folder = "" if generation == published else generation
        argument = JoinArgument(0, PREFIX, None, bool(published), Address(None), folder)
        rows = [
            entry.row._replace(
                known=known_of(entry.row, earlier.get(entry.key, ()), rows_before.get(entry.key), argument)
            )
            for entry in view.entries
        ]
        gone = earlier.keys() - {row.key for row in rows}
        if gone and published and folder and self._site.has(Rule.GONE):
            kept = [last_reading(earlier[key], argument) for key in sorted(gone)]
            readings = [_reading(row, facts) for row, facts in kept]
            self._out.keep(generation, self._run, readings, self._site.now_ms, is_later=True)
        return rows

    def _published(self, view: _View) -> _Published | None:
        pointer = view.pointer
        if pointer is None or pointer.until != self._until:
            return None
        before, now = self._out.inventories.get(pointer.manifest), _inventory(view.view)
        changes = compare_inventories(PREFIX, now if before is None else before, now)
        is_of_a_held_run = self._folder.generation_beside(audit_key(pointer)) != pointer.generation
        if is_of_a_held_run or not changes.are_same_slots:
            return None
        stored, judged = self._out.manifests.get(pointer.manifest), self._out.audits.get(audit_key(pointer))
        if stored is None or judged is None or pointer.rules != RULES or self._out.damage(stored[0], 0):
            return None
        name = generation_of_rows(now if before is None else before, _OPTIONS, None, None)
        basis = judged[0].basis
        names = {pointer.generation, *([] if basis is None else [basis.generation])}
        return _Published(pointer, stored[0], judged[0], changes) if names & {name, view.generation} else None

    def _judge_again(self, view: _View, before: Audit) -> Steps[tuple[Judged, Audit, bool]]:
        """Judge by what is known of the objects, and read the others."""
        facts: dict[str, SegmentFacts] = {}
        read = []
        for row in view.rows:
            if row.known is not None and row.known.facts is not None:
                facts[row.key] = row.known.facts
                continue
            facts[row.key], _ = yield from self._read(row)
            read.append(_reading(row, facts[row.key]))
        published = "" if view.pointer is None else view.pointer.generation
        self._out.keep(published or view.generation, self._run, read, self._site.now_ms, is_later=True)
        yield
        judged = judge(self._archive, view.view, view.rows, facts)
        now = conclude(view.view, judged, (), None, is_in_motion=False)
        return judged, with_earlier(now, before), bool(list(unwritten(view.rows, facts)))

    def _read(self, row: ListedSegment) -> Steps[tuple[SegmentFacts, Entry | None]]:
        """Read an object, which may not be the one that was listed any more."""
        yield
        entry = self._archive.get(row.key)
        history = None if row.known is None else row.known.history
        if entry is None:
            return SegmentFacts(row.key, None, problem="it is gone", changed=True), None
        if entry.row.listed != row.listed:
            facts = SegmentFacts(row.key, entry.facts.metadata, problem="it is another one", changed=True)
            return facts, None
        return with_history(entry.facts, history), entry

    def _held(self, view: _View) -> Steps[tuple[str, Audit] | None]:
        """Judge a day by its facts that an earlier run has held; None: none has, or it need not be held any more."""
        if self._accept is not None:
            return None
        yield
        stored = [
            (stored_ms, key)
            for key, (_, stored_ms) in self._out.audits.items()
            if self._folder.generation_beside(key) == view.generation
        ]
        if not stored:
            return None
        before, key = self._out.audits[max(stored)[1]][0], max(stored)[1]
        if not self._site.has(Rule.EACH_NIGHT):
            return key, before
        judged, audit, is_stale = yield from self._judge_again(view, before)
        if is_stale or (yield from self._is_in_motion(view, judged)):
            return None
        audit = yield from self._complete(audit, judged, view, self._before(view.pointer), view.generation)
        if audit.accepted is not None or not blocking(audit):
            return None
        return self._name(view.generation, audit), audit

    def _hold(self, view: _View, key: str, audit: Audit, *, is_last: bool) -> Steps[Compacted | None]:
        pointer, held = view.pointer, Compacted("held", None, None, audit.verdict)
        yield
        self._put_audit(key, audit)
        if pointer is None or pointer.until == self._until:
            yield
            is_other = pointer is not None and (pointer.verdict, pointer.audit) != (audit.verdict, key)
            is_swapped = not self._site.has(Rule.MADE) or self._out.etag == view.etag
            if pointer is not None and is_other and self._site.has(Rule.WITHDRAW):
                changed = msgspec.structs.replace(pointer, verdict=audit.verdict, audit=key, writer=self._run)
                is_swapped = self._out.swap(changed, view.etag)
            if not is_swapped:
                return None
            held = held._replace(done=self._withdrawn(pointer, audit.verdict))
            manifest = self._out.manifest
            if manifest is None or self._out.damage(manifest, 0):
                return held
            _, table, error = yield from self._site.follow(self._day, sweeps=False)
            return held._replace(table=table, table_error=error)
        if not self._site.has(Rule.PART):
            return held
        part = _Run(self._site, self._day, _published_ms(pointer), None)
        judged = yield from part.attempt(pointer, view.etag, is_last=is_last)
        if judged is None:
            return None
        return held._replace(done=judged.done, swept=judged.swept, table=judged.table, table_error=judged.table_error)

    def _rejudge(
        self, view: _View, published: _Published, judged: Judged, audit: Audit, *, is_last: bool
    ) -> Steps[Compacted | None]:
        pointer, manifest, before, changes = published
        if not is_last and (yield from self._is_in_motion(view, judged)):
            return None
        is_altered = any(about.code == Code.ALTERED_OBJECT for about in audit.findings)
        audit = yield from self._complete(audit, judged, view, before, manifest.generation)
        key = self._name(manifest.generation, audit)
        if changes.stored_again and not (is_altered and audit.accepted is None):
            manifest = msgspec.structs.replace(
                manifest,
                inventory=_digest(view.view),
                verdict=audit.verdict,
                audit=key,
                writer=self._site.new_id(),
                written_at=iso_time(self._site.now_ms),
            )
            yield from self._store(view, manifest, audit)
        if (pointer.verdict, pointer.audit) != (audit.verdict, key) or manifest != published.manifest:
            self._put_audit(key, audit)
            yield
            if not self._swap(manifest, view, pointer.written_at, audit.verdict, key):
                return None
        settled = yield from self._site.follow(self._day)
        done: tuple[Step, ...] = ("judged again", *self._withdrawn(pointer, audit.verdict))
        return self._compacted("already", manifest, audit, done, settled)

    def _rewrite(self, view: _View, *, is_last: bool) -> Steps[tuple[Manifest, Audit] | None]:
        facts: dict[str, SegmentFacts] = {}
        entries: dict[str, Entry | None] = {}
        for row in view.rows:
            facts[row.key], entries[row.key] = yield from self._read(row)
        rows = merge_rows(view.view, entries)
        yield
        self._keep_facts(view, facts)
        file = self._write(view, rows)
        yield
        judged = judge(self._archive, view.view, view.rows, facts)
        is_in_motion = yield from self._is_in_motion(view, judged)
        if is_in_motion and not is_last:
            return None
        audit = conclude(view.view, judged, rows.findings, len(rows.rows), is_in_motion=is_in_motion)
        before = self._before(view.pointer)
        if before is not None:
            audit = with_alterations(audit, before, lambda: [row.key for row in view.rows])
        audit = yield from self._complete(audit, judged, view, before, view.generation, is_in_motion=is_in_motion)
        manifest = Manifest(
            format=1,
            day=self._folder.name,
            generation=view.generation,
            files=(file,) if file.rows else (),
            rows=file.rows,
            inventory=_digest(view.view),
            verdict=audit.verdict,
            audit=self._name(view.generation, audit),
            ends={},
            writer=self._run,
            written_at=iso_time(self._site.now_ms),
            rules=RULES,
            until=self._until,
        )
        return manifest, audit

    def _keep_facts(self, view: _View, facts: Mapping[str, SegmentFacts]) -> None:
        now_ms, readings = self._site.now_ms, [_reading(row, facts[row.key]) for row in view.rows]
        self._out.keep(view.generation, self._run, readings, now_ms, is_later=False)
        published = "" if view.pointer is None else view.pointer.generation
        if published in {"", view.generation}:
            return
        altered = [
            _reading(row, facts[row.key])
            for row in view.rows
            if row.known is not None
            and row.known.history is not None
            and facts[row.key].altered > row.known.history.altered
        ]
        self._out.keep(published, self._run, altered, now_ms, is_later=True)

    def _write(self, view: _View, rows: Rows) -> File:
        key = f"{self._folder.generation(view.generation)}part-{self._run}.parquet"
        if rows.rows:
            self._out.files[key] = PartFile(rows.rows, self._site.now_ms)
        return File(key=key, rows=len(rows.rows), bytes=1)

    def _is_in_motion(self, view: _View, judged: Judged) -> Steps[bool]:
        if not judged.looks_broken:
            return False
        yield
        now = self._archive.listed(self._day, view.view.end_minute)
        return [entry.row.listed[:3] for entry in now] != [entry.row.listed[:3] for entry in view.view.entries]

    def _complete(
        self,
        audit: Audit,
        judged: Judged,
        view: _View,
        before: Audit | None,
        made: str,
        *,
        is_in_motion: bool = False,
    ) -> Steps[Audit]:
        yield
        basis = basis_of(self._archive, view.view, judged, view.generation, is_in_motion=is_in_motion)
        basis = msgspec.structs.replace(basis, facts=len(self._out.facts.get(made, {})))
        decision = Decision(None if before is None else before.accepted, self._accept, iso_time(self._site.now_ms))
        accepted = decision.on(audit.verdict, audit.findings, failed_checks(audit))
        return msgspec.structs.replace(audit, basis=basis, accepted=accepted)

    def _before(self, pointer: Pointer | None) -> Audit | None:
        stored = None if pointer is None else self._out.audits.get(audit_key(pointer))
        return None if stored is None else stored[0]

    def _name(self, generation: str, audit: Audit) -> str:
        """Return the key of an audit: of one that says the same and rests on the same, the key that it has."""
        told = _told(audit)
        for key, (stored, _) in self._out.audits.items():
            if self._folder.generation_beside(key) == generation and _told(stored) == told:
                return key
        return self._folder.audit(generation, self._site.new_id())

    def _put_audit(self, key: str, audit: Audit) -> None:
        stored = self._out.audits.get(key)
        if stored is None or stored[0] != audit:
            self._out.audits[key] = (audit, self._site.now_ms)

    def _store(self, view: _View, manifest: Manifest, audit: Audit) -> Steps[None]:
        key = self._folder.manifest(manifest.generation, manifest.writer)
        yield
        self._out.inventories[key] = tuple(_inventory(view.view))
        yield
        self._put_audit(manifest.audit, audit)
        yield
        self._out.manifests[key] = (manifest, self._site.now_ms)

    def _swap(self, manifest: Manifest, view: _View, written_at: str, verdict: Verdict, audit: str) -> bool:
        pointer = Pointer(
            format=1,
            day=self._folder.name,
            generation=manifest.generation,
            manifest=self._folder.manifest(manifest.generation, manifest.writer),
            rows=manifest.rows,
            verdict=verdict,
            writer=self._run,
            written_at=written_at,
            rules=manifest.rules,
            until=manifest.until,
            audit=audit,
        )
        is_swapped = self._out.swap(pointer, view.etag if self._site.has(Rule.SWAP) else self._out.etag)
        if is_swapped:
            self._site.world.see_rows(self._out.rows(manifest))
        return is_swapped

    def _withdrawn(self, pointer: Pointer | None, verdict: Verdict) -> tuple[Step, ...]:
        is_withdrawn = pointer is not None and (pointer.verdict, pointer.until) == (CLEAN, self._until)
        return ("withdrawn",) if is_withdrawn and verdict != CLEAN else ()

    def _compacted(
        self,
        state: Literal["published", "already"],
        manifest: Manifest,
        audit: Audit,
        done: tuple[Step, ...],
        settled: _Settled,
    ) -> Compacted:
        accepted = "" if audit.accepted is None else audit.accepted.reason
        return Compacted(state, manifest, None, audit.verdict, done, *settled, accepted)


def _told(audit: Audit) -> Audit:
    basis = None if audit.basis is None else msgspec.structs.replace(audit.basis, judged_from="")
    return msgspec.structs.replace(audit, audited_at="", basis=basis)


def _reading(row: ListedSegment, facts: SegmentFacts) -> Reading:
    return Reading(row.etag, row.size, row.last_modified_ms, facts)


def _inventory(view: View) -> list[PublishedRow]:
    return [(row.key, row.etag, row.size, row.last_modified_ms) for row in (entry.row for entry in view.entries)]


def _digest(view: View) -> str:
    return inventory_digest(row[:3] for row in _inventory(view))


def _published_ms(pointer: Pointer | None) -> int | None:
    """Return up to when a day is published: 0 where it is not, None where the whole day is."""
    if pointer is None:
        return 0
    return None if pointer.until is None else parse_iso_time(pointer.until)


def _days_touched(scope: Interval) -> list[Day]:
    return [Day(number) for number in range(day_of_ms(scope.from_ms).number, day_of_ms(scope.until_ms).number + 1)]
