"""Commit published days to an Iceberg table: one snapshot replaces the files of a day with those of a generation.

    view       load the table's current snapshot: the day's files in it, and the last commit of the day
    pointer    read `_current.json`: what the table should hold
    mark       dt=D/_tables/<generation>.<table>.<run>.json   a table may name this generation's files
    pointer    read it again: a generation that was replaced before the mark may be swept already
    commit     one snapshot, on condition that the snapshot of the view is still the current one
    pointer    read it again; if another run has published meanwhile, start over
    unmark     delete marks older than the grace, of generations that the table left longer than the grace ago

The pointer is read **after** the view, and the commit's condition rejects an outdated view. So every commit is based
on a pointer read after the snapshot that it replaces, and the last commit on the last pointer, whichever run made it.
Each commit writes its own mark: with a shared one, a cleanup could delete an old mark that a run about to commit
relies on. If a response is lost, the next view shows what the table holds. A crash after any step leaves the old or
the new files, and the next run continues.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import msgspec
import structlog

from compaction.publish.publisher import GRACE_MS, Publisher
from compaction.tables.plan import (
    NEXT_STEP,
    Conflict,
    LiveFile,
    Recorded,
    Replacement,
    Target,
    is_rewritten,
    plan_replacement,
)
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
        """The files that may hold rows of the day."""
        ...

    @property
    def recorded(self) -> Recorded | None:
        """The newest commit of the day in the table's history."""
        ...

    def conflicts(self, columns: Mapping[str, str] | None) -> Sequence[Conflict]:
        """Return the conflicts of a day with typed columns (name -> type) with the table."""
        ...

    def replace(
        self,
        change: Replacement,
        sizes: Mapping[str, int],
        properties: Mapping[str, str],
        columns: Mapping[str, str] | None = None,
    ) -> bool:
        """Commit one snapshot and return True, or False if this view's snapshot is no longer the current one.

        `sizes` maps the address of each added file to its rows; the same commit adds `columns` to the schema. Raises
        `OutcomeUnknown`, `CatalogRefused`.
        """
        ...


class DayTable(Protocol):
    """The one table that days are committed to."""

    @property
    def name(self) -> str:
        """The names of the catalog and the table."""
        ...

    def look(self, day: Day) -> PublishedView:
        """Load the current snapshot; create a missing table. Raises `OutcomeUnknown`, `CatalogRefused`."""
        ...


class FilesByEvent(Protocol):
    """The rows of published days in files of one event day each."""

    def rows(self, manifest: Manifest, held: Collection[str]) -> Mapping[str, int]:
        """Return address -> rows of the files of a manifest; `held`: the files of the day in the table."""
        ...


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """States that a table may name the files of a generation, which must not be deleted."""

    format: int
    table: str
    generation: str


class TableCommit(NamedTuple):
    """The outcome, and the generation and rows that the table holds now.

    `held`: the table is unchanged, and `conflicts` names the columns of the day that do not fit it.
    """

    table: str
    state: State
    generation: str
    rows: int
    conflicts: tuple[Conflict, ...] = ()


class TableCommitter:
    """Brings one table in line with one day's pointer. Every step may be repeated, by this or another run."""

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
        """Commit the generation that the pointer names; return None if the day is not published.

        Raises SafetyRefusal if the table's rows of the day are not those that were committed.
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
            if conflicts:  # do not write files in vain
                is_there = self._is_there(view, manifest)
                return self._already(manifest) if is_there else self._held(view.recorded, conflicts)
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
        sizes = {uri: rows[uri] for uri in change.add}
        if not self._is_current(pointer) or not view.replace(change, sizes, properties, manifest.columns):
            return None
        counts = {"added": len(change.add), "removed": len(change.remove)}
        self._log.info("table_committed", generation=generation, rows=manifest.rows, **counts)
        if not self._is_current(pointer):
            return None
        return TableCommit(self._table.name, "committed", generation, manifest.rows)

    def _is_current(self, pointer: Pointer) -> bool:
        """Return whether the day still has the manifest of this pointer."""
        current = self._publisher.current().pointer
        return current is not None and current.manifest == pointer.manifest

    def _is_there(self, view: PublishedView, manifest: Manifest) -> bool:
        """Return whether the table has the generation, in files by event whose names are not known yet.

        If its snapshot has expired, the files must be of the generation's folder and hold all of its rows.
        """
        if view.recorded is not None:
            return bool(view.files) and view.recorded.generation == manifest.generation
        home = self._publisher.address(self._publisher.folder.generation(manifest.generation))
        is_ours = all(file.uri.startswith(home) for file in view.files)
        return is_ours and sum(file.rows for file in view.files) == manifest.rows

    def _already(self, manifest: Manifest) -> TableCommit:
        return TableCommit(self._table.name, "already", manifest.generation, manifest.rows)

    def _held(self, recorded: Recorded | None, conflicts: tuple[Conflict, ...]) -> TableCommit:
        """Leave the previous generation in the table; the day's Parquet is published nevertheless."""
        self._log.error("table_held", conflicts=[*map(str, conflicts)], next_step=NEXT_STEP)
        previous = recorded or Recorded("", 0, 0)
        return TableCommit(self._table.name, "held", previous.generation, previous.rows, conflicts)

    def _unmark(self, recorded: Recorded | None, generation: str) -> None:
        """Delete marks of generations that the table left longer than the grace ago: no query reads them now."""
        if recorded is None or recorded.generation != generation:
            return
        before_ms = self._clock.now_ms() - GRACE_MS
        if recorded.committed_ms < before_ms:
            self._publisher.table_marks.keep_only(generation, self._short, before_ms)
