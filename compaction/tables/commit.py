"""Commits of published days to an Iceberg table: one snapshot a day's generation, old rows out, new rows in.

    look       load the table's current snapshot; the day's files in it, and the last commit of the day
    pointer    read `_current.json`: what the table should hold
    mark       dt=D/_tables/<generation>.<table>.<run>.json   a table may name this generation's files
    commit     one snapshot, on condition that the snapshot of the look is still the current one
    look again the pointer: whoever publishes while a commit is on its way is not waited for, but made up for
    unmark     delete marks as old as the grace, of generations that the table left longer than the grace ago

The pointer is read **after** the look. The condition therefore refuses an older view: whoever commits has seen the
pointer after the snapshot that it replaces, so the last commit has seen the last pointer, whichever run made it.
Each commit writes a mark of its own: were one mark shared, who tidies up could take an old one for forgotten while a
run that was content to find it there is about to commit.
Nothing is concluded from an answer that was lost: the next look tells what the table holds. A crash after any step
leaves the old day or the new one, and the next run goes on.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import msgspec
import structlog

from compaction.publish.conflicts import NEXT_STEP, Conflict
from compaction.publish.publisher import GRACE_MS, Publisher
from compaction.tables.plan import LiveFile, Recorded, Replacement, Target, is_rewritten, plan_replacement
from minutebook.clock import Clock, IdSource
from minutebook.errors import CatalogUnavailable, OutcomeUnknown
from minutebook.format.day import Day
from minutebook.published.generation import Manifest, Pointer

DAY_PROPERTY: Final = "minutebook.day"
GENERATION_PROPERTY: Final = "minutebook.generation"
ROWS_PROPERTY: Final = "minutebook.rows"
MANIFEST_PROPERTY: Final = "minutebook.manifest"
"""Properties of a day's snapshot: the day, its generation and rows, the address of its manifest."""

State = Literal["committed", "already", "held"]


class PublishedView(Protocol):
    """A day as one snapshot of the table has it."""

    @property
    def files(self) -> tuple[LiveFile, ...]:
        """Return the files that may hold rows of the day."""
        ...

    @property
    def recorded(self) -> Recorded | None:
        """Return the newest commit of the day that the table remembers."""
        ...

    def conflicts(self, columns: Mapping[str, str] | None) -> Sequence[Conflict]:
        """Return what keeps a day with typed columns (name -> type) out of the table."""
        ...

    def replace(
        self,
        change: Replacement,
        sizes: Mapping[str, int],
        properties: Mapping[str, str],
        columns: Mapping[str, str] | None = None,
    ) -> bool:
        """Commit one snapshot if this view's is still the current one; False when it is not.

        `sizes` maps the address of each file that comes to its rows; the table's schema takes `columns` in the same
        commit. Raises `OutcomeUnknown`, `CatalogRefused`.
        """
        ...


class DayTable(Protocol):
    """The one table that days are committed to."""

    @property
    def name(self) -> str:
        """Return the catalog's and the table's name."""
        ...

    def look(self, day: Day) -> PublishedView:
        """Load the current snapshot; makes the table if there is none. Raises `OutcomeUnknown`, `CatalogRefused`."""
        ...


class FilesByEvent(Protocol):
    """The rows of published days in files of one event day each."""

    def rows(self, manifest: Manifest, held: Collection[str]) -> Mapping[str, int]:
        """Return address -> rows of the files of a manifest; `held` are those that the table holds of the day."""
        ...


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Says that a table may name the files of a generation, so that they must stay."""

    format: int
    table: str
    generation: str


class TableCommit(NamedTuple):
    """What was done. `generation` is what the table holds now, `rows` how many rows that is.

    `held`: the table has what it had before, and `conflicts` say which columns of the day do not fit it.
    """

    table: str
    state: State
    generation: str
    rows: int
    conflicts: tuple[Conflict, ...] = ()


class TableCommitter:
    """Brings one table into step with one day's pointer. Every step may be repeated, by us or by another run."""

    def __init__(
        self,
        table: DayTable,
        publisher: Publisher,
        clock: Clock,
        new_id: IdSource,
        events: FilesByEvent | None = None,
    ) -> None:
        self._table = table
        self._publisher = publisher
        self._clock = clock
        self._new_id = new_id
        self._events = events
        self._short = hashlib.sha256(table.name.encode()).hexdigest()[:16]
        self._log = structlog.get_logger().bind(day=str(publisher.folder.day), table=table.name)

    def commit(self) -> TableCommit | None:
        """Let the table hold what the pointer names; None when the day is not published.

        Raises:
            SafetyRefusal: the table's rows of the day are not those that were committed.
            CatalogRefused, CatalogUnavailable: the catalog.
            StoreUnavailable, StoreRefused: the output.
        """
        backoff = self._publisher.storage.new_backoff()
        while True:
            reason = "others keep changing the table"
            try:
                view = self._table.look(self._publisher.folder.day)
                pointer, manifest = self._publisher.published()
                if pointer is None or manifest is None:
                    return None
                done = self._step(view, pointer, manifest)
            except OutcomeUnknown as exc:
                done, reason = None, str(exc)
            if done is not None:
                return done
            self._log.warning(
                "table_commit_repeated", error=reason, next_step="nothing yet: the table is looked at again"
            )
            if not backoff.wait():
                raise CatalogUnavailable(
                    f"gave up on the commit to {self._table.name}: {reason}",
                    next_step="run the command again: the day is published, and the commit is made up for",
                )

    def _step(self, view: PublishedView, pointer: Pointer, manifest: Manifest) -> TableCommit | None:
        folder, generation = self._publisher.folder, manifest.generation
        rows = {self._publisher.address(file.key): file.rows for file in manifest.files if file.rows}
        target = Target(str(folder.day), generation, self._publisher.address(folder.path), rows)
        conflicts, live = tuple(view.conflicts(manifest.columns)), {file.uri for file in view.files}
        if self._events is not None and live != set(rows) and not is_rewritten(target, view.files, view.recorded):
            if conflicts:  # before files are made in vain
                return (
                    self._already(manifest)
                    if self._is_there(view, manifest)
                    else self._held(view.recorded, conflicts)
                )
            rows = dict(self._events.rows(manifest, live))
        change = plan_replacement(target._replace(files=rows), view.files, view.recorded)
        if change is None:
            self._unmark(view.recorded, generation)
            return self._already(manifest)
        if conflicts:
            return self._held(view.recorded, conflicts)
        mark = Mark(format=1, table=self._table.name, generation=generation)
        self._publisher.table_marks.put(generation, self._short, self._new_id(), msgspec.json.encode(mark) + b"\n")
        properties = {
            DAY_PROPERTY: str(folder.day),
            GENERATION_PROPERTY: generation,
            ROWS_PROPERTY: str(manifest.rows),
            MANIFEST_PROPERTY: self._publisher.address(pointer.manifest),
        }
        if not view.replace(change, {uri: rows[uri] for uri in change.add}, properties, manifest.columns):
            return None
        self._log.info(
            "table_committed",
            generation=generation,
            rows=manifest.rows,
            added=len(change.add),
            removed=len(change.remove),
        )
        now = self._publisher.current().pointer
        if now is None or now.manifest != pointer.manifest:
            return None
        return TableCommit(self._table.name, "committed", generation, manifest.rows)

    def _is_there(self, view: PublishedView, manifest: Manifest) -> bool:
        """Tell whether the table has the generation, in files by event whose names are not known yet.

        Where its snapshot was expired, files of the generation's folder tell, with all its rows.
        """
        if view.recorded is not None:
            return bool(view.files) and view.recorded.generation == manifest.generation
        home = self._publisher.address(self._publisher.folder.generation(manifest.generation))
        is_ours = all(file.uri.startswith(home) for file in view.files)
        return is_ours and sum(file.rows for file in view.files) == manifest.rows

    def _already(self, manifest: Manifest) -> TableCommit:
        return TableCommit(self._table.name, "already", manifest.generation, manifest.rows)

    def _held(self, recorded: Recorded | None, conflicts: tuple[Conflict, ...]) -> TableCommit:
        """Leave the table as it is: the day's Parquet is published, and the table has the former generation."""
        self._log.error(
            "table_held",
            conflicts=[*map(str, conflicts)],
            next_step=NEXT_STEP,
        )
        was = recorded or Recorded("", 0, 0)
        return TableCommit(self._table.name, "held", was.generation, was.rows, conflicts)

    def _unmark(self, recorded: Recorded | None, generation: str) -> None:
        """Let go of generations that the table left longer than the grace ago: queries on them are over."""
        if recorded is None or recorded.generation != generation:
            return
        before_ms = self._clock.now_ms() - GRACE_MS
        if recorded.committed_ms < before_ms:
            self._publisher.table_marks.keep_only(generation, self._short, before_ms)
