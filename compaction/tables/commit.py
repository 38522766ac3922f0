"""Commit published days to an Iceberg table: one snapshot replaces the files of a day with those of a generation.

    view       load the table's current snapshot: the day's files in it, and the last commit of the day
    pointer    read `_current.json`, and the live pointer: what the table should hold (`target`)
    mark       dt=D/_tables/<generation>.<table>.<run>.json   a table may name this generation's files
    pointer    read both again: a generation that was replaced before the mark may be swept already
    commit     one snapshot, on condition that the snapshot of the view is still the current one
    pointer    read both again; if another run has published or followed meanwhile, start over
    unmark     delete marks older than the grace, of generations that the table left longer than the grace ago

The pointer is read **after** the view, and the commit's condition rejects an outdated view. So every commit is based
on a pointer read after the snapshot that it replaces, and the last commit on the last pointer, whichever run made it.
Each commit writes its own mark: with a shared one, a cleanup could delete an old mark that a run about to commit
relies on. If a response is lost, the next view shows what the table holds. A crash after any step leaves the old or
the new files, and the next run continues. Live parts need no mark: no sweep takes one that the table names.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol

import msgspec
import structlog

from compaction.publish.publisher import GRACE_MS, Publisher
from compaction.tables.fitting import DayColumns
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
from compaction.tables.target import target_generation
from minutebook.clock import Clock, IdSource
from minutebook.errors import CatalogUnavailable, FormatError, OutcomeUnknown
from minutebook.format.day import Day
from minutebook.published.generation import Manifest, Pointer
from minutebook.published.live import live_pointer_key

DAY_PROPERTY: Final = "minutebook.day"
GENERATION_PROPERTY: Final = "minutebook.generation"
ROWS_PROPERTY: Final = "minutebook.rows"
MANIFEST_PROPERTY: Final = "minutebook.manifest"
"""Properties of a day's snapshot: the day, its generation and rows, the address of its manifest.

With live parts the generation is a digest of all files; a day that is not published has its live pointer's address.
"""

TOLD_OF_PROPERTY: Final = "minutebook.told-of"
"""A property of the table: the table and the snapshot that its other properties were told of."""

State = Literal["committed", "already", "held"]


class PublishedView(Protocol):
    """A day as one snapshot of the table has it."""

    @property
    def table_uuid(self) -> str:
        """What tells the table from others of its name, in other catalogs too."""
        ...

    @property
    def files(self) -> tuple[LiveFile, ...]:
        """The files that may hold rows of the day."""
        ...

    @property
    def recorded(self) -> Recorded | None:
        """The newest commit of the day in the table's history."""
        ...

    @property
    def place(self) -> str:
        """What tells the table and its snapshot from others."""
        ...

    def goes_on_from(self, place: str) -> bool:
        """Return whether the table was made from an earlier place: not made anew since, nor set back behind it."""
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
        table_properties: Mapping[str, str] | None = None,
    ) -> bool:
        """Commit one snapshot and return True, or False if this view's snapshot is no longer the current one.

        `sizes` maps the address of each added file to its rows; the same commit adds `columns` to the schema, and
        sets properties of the table, with what they were told of: itself. Raises `OutcomeUnknown`, `CatalogRefused`.
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

    def conflicts(self, columns: Mapping[str, str] | None) -> Sequence[Conflict]:
        """Return the conflicts of columns with the table as it is; none, if it does not exist. Raises as `look`."""
        ...


class FilesByEvent(Protocol):
    """The rows of published days in files of one event day each."""

    def rows(self, manifest: Manifest, held: Collection[str], check: Callable[[], object]) -> Mapping[str, int]:
        """Return address -> rows of the files of a manifest; `held`: the files of the day in the table.

        `check` is called before files are made: it raises where the table would take no others.
        """
        ...


class LiveFiles(NamedTuple):
    """The live parts that belong into the table: rows by key. `version`: the live pointer's; None: there is none."""

    rows: Mapping[str, int] = MappingProxyType({})
    version: str | None = None


class LiveRows(Protocol):
    """The live parts of one day."""

    def shown(self, pointer: Pointer | None, columns: DayColumns, table_uuid: str) -> LiveFiles | None:
        """Return what belongs into a table beside what the pointer names; cut parts that are covered in part.

        Parts lose typed columns that do not fit beside `columns`, which take the others. None: others changed the
        parts meanwhile. Raises SafetyRefusal if nobody can tell.
        """
        ...

    def is_current(self, files: LiveFiles) -> bool:
        """Return whether the live pointer still is that of these files."""
        ...


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """States that a table may name the files of a generation, which must not be deleted."""

    format: int
    table: str
    generation: str
    uuid: str = ""


class _Goal(NamedTuple):
    """What the table should hold of a day. `rows`: those of its files by address.

    `manifest` is None where the day has live parts alone. `place` is the address of the manifest, or of the live
    pointer. `columns` are the typed columns of all files; None: they have none.
    """

    target: Target
    rows: Mapping[str, int]
    place: str
    live: LiveFiles
    columns: Mapping[str, str] | None = None
    pointer: Pointer | None = None
    manifest: Manifest | None = None

    @property
    def total(self) -> int:
        """All rows."""
        return (0 if self.manifest is None else self.manifest.rows) + sum(self.live.rows.values())


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
        live: LiveRows | None = None,
    ) -> None:
        """Work on one day; a table by event (`events`) holds no live parts."""
        self._table = table
        self._publisher = publisher
        self._clock = clock
        self._new_id = new_id
        self._events = events
        self._live = live if events is None else None
        self.present: frozenset[str] = frozenset()
        """The addresses of the day's files in the table, as far as the last commit has seen them."""
        self.left_out: dict[str, tuple[str, Conflict]] = {}
        """Typed columns of live parts that were left out of the table: their type, and why."""
        self.place = self.table_uuid = ""
        """Those of the table before the last commit."""
        self.is_set_back = False
        """Whether the table was dropped and made again, or set back, since the place that `commit` was given."""
        self._log = structlog.get_logger().bind(day=str(publisher.folder.day), table=table.name)

    def commit(
        self,
        more: Mapping[str, str] | None = None,
        table_properties: Mapping[str, str] | None = None,
        since: str = "",
    ) -> TableCommit | None:
        """Commit what the pointers name; return None if nothing of the day is published, nor in a live part.

        `more` are further properties of the snapshot; with it `table_properties` are set, if the table goes on from
        the place `since`. Raises SafetyRefusal if the table's rows of the day are not those that were committed.
        """
        backoff = self._publisher.storage.new_backoff()
        while True:
            reason = "others keep changing the table"
            try:
                view = self._table.look(self._publisher.folder.day)
                self.place, self.table_uuid = view.place, view.table_uuid
                self.is_set_back = bool(since) and not view.goes_on_from(since)
                pointer, manifest = self._publisher.published()
                typed = None if manifest is None else manifest.columns
                columns = DayColumns(view.conflicts, typed, {file.uri for file in view.files})
                live = LiveFiles() if self._live is None else self._live.shown(pointer, columns, view.table_uuid)
                self.left_out |= columns.left_out
                if (pointer is None) != (manifest is None) or (
                    pointer is None and live is not None and not live.rows
                ):
                    return None
                done = (
                    None
                    if live is None
                    else self._step(view, self._goal(pointer, manifest, live, columns), more, table_properties)
                )
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

    def _goal(
        self, pointer: Pointer | None, manifest: Manifest | None, live: LiveFiles, columns: DayColumns
    ) -> _Goal:
        publisher = self._publisher
        folder, address = publisher.folder, publisher.address
        sizes = {} if manifest is None else {file.key: file.rows for file in manifest.files}
        rows = {address(key): count for key, count in {**sizes, **live.rows}.items() if count}
        generation = target_generation("" if manifest is None else manifest.generation, live.rows)
        place = live_pointer_key(folder) if pointer is None else pointer.manifest
        target = Target(str(folder.day), generation, address(folder.path), rows)
        return _Goal(target, rows, address(place), live, columns.columns, pointer, manifest)

    def _step(
        self,
        view: PublishedView,
        goal: _Goal,
        more: Mapping[str, str] | None,
        table_properties: Mapping[str, str] | None,
    ) -> TableCommit | None:
        target, rows, manifest = goal.target, goal.rows, goal.manifest
        recorded = self._recorded(view.recorded, goal)
        conflicts, present = tuple(view.conflicts(goal.columns)), {file.uri for file in view.files}
        self.present = frozenset(present)
        if self._events is not None and manifest is not None:
            is_another = present != set(rows) and not is_rewritten(target, view.files, recorded)
            if is_another and conflicts:  # do not write files in vain
                is_there = self._is_there(view.files, recorded, manifest)
                return self._already(goal) if is_there else self._held(view.recorded, conflicts)
            if is_another:
                look = view.files
                rows = dict(self._events.rows(manifest, present, lambda: plan_replacement(target, look, recorded)))
                view = self._fresh(view, present)
        change = plan_replacement(target._replace(files=rows), view.files, recorded)
        if change is None:
            self._unmark(view, goal)
            return self._already(goal)
        if conflicts:
            return self._held(view.recorded, conflicts)
        self._mark(change, view, goal)
        properties = {
            DAY_PROPERTY: target.day,
            GENERATION_PROPERTY: target.generation,
            ROWS_PROPERTY: str(goal.total),
            MANIFEST_PROPERTY: goal.place,
            **(more or {}),
        }
        if self.is_set_back:
            table_properties = None
        sizes = {uri: rows[uri] for uri in change.add}
        is_replaced = self._is_current(goal) and view.replace(
            change, sizes, properties, goal.columns, table_properties
        )
        if not is_replaced:
            return None
        self.present = frozenset(rows)
        counts = {"added": len(change.add), "removed": len(change.remove)}
        self._log.info("table_committed", generation=target.generation, rows=goal.total, **counts)
        if not self._is_current(goal):
            return None
        return TableCommit(self._table.name, "committed", target.generation, goal.total)

    def _fresh(self, view: PublishedView, present: set[str]) -> PublishedView:
        """Return the view of now, if the table has the same files of the day; else the old one, whose commit loses.

        To make files may take an hour, and a view commits with the credentials of its look.
        """
        fresh = self._table.look(self._publisher.folder.day)
        return fresh if {file.uri for file in fresh.files} == present else view

    def _mark(self, change: Replacement, view: PublishedView, goal: _Goal) -> None:
        """Mark the generation, if files of it come into the table that are no live parts."""
        live = {self._publisher.address(key) for key in goal.live.rows}
        if goal.manifest is None or live.issuperset(change.add):
            return
        generation = goal.manifest.generation
        mark = Mark(format=1, table=self._table.name, generation=generation, uuid=view.table_uuid)
        short = _short(self._table.name, view.table_uuid)
        self._publisher.table_marks.put(generation, short, self._new_id(), msgspec.json.encode(mark) + b"\n")

    def _recorded(self, recorded: Recorded | None, goal: _Goal) -> Recorded | None:
        """Return the newest commit; of no generation if that was written again since, with other files.

        So it was where a line was restored, or an original of a copy. The manifest of then is there as long as a mark
        names its generation; without it the rows are compared, which older commits may not know (below 0).
        """
        pointer, manifest = goal.pointer, goal.manifest
        if recorded is None or pointer is None or manifest is None or recorded.generation != manifest.generation:
            return recorded
        folder = self._publisher.folder
        if recorded.manifest in {"", goal.place}:
            return recorded
        key = folder.path + recorded.manifest.removeprefix(self._publisher.address(folder.path))
        try:
            before = self._publisher.manifest(msgspec.structs.replace(pointer, manifest=key))
        except FormatError:
            before = None
        is_same = recorded.rows in {-1, manifest.rows} if before is None else before.files == manifest.files
        return recorded if is_same else recorded._replace(generation="")

    def _is_current(self, goal: _Goal) -> bool:
        """Return whether the day still has this manifest, and these live parts."""
        current, before = self._publisher.current().pointer, goal.pointer
        is_same = (None if current is None else current.manifest) == (None if before is None else before.manifest)
        return is_same and (self._live is None or self._live.is_current(goal.live))

    def _is_there(self, files: Sequence[LiveFile], recorded: Recorded | None, manifest: Manifest) -> bool:
        """Return whether the table has the generation, in files by event whose names are not known yet.

        If its snapshot has expired, the files must be of the generation's folder and hold all of its rows.
        """
        if recorded is not None:
            return bool(files) and recorded.generation == manifest.generation
        home = self._publisher.address(self._publisher.folder.generation(manifest.generation))
        is_ours = all(file.uri.startswith(home) for file in files)
        return is_ours and sum(file.rows for file in files) == manifest.rows

    def _already(self, goal: _Goal) -> TableCommit:
        return TableCommit(self._table.name, "already", goal.target.generation, goal.total)

    def _held(self, recorded: Recorded | None, conflicts: tuple[Conflict, ...]) -> TableCommit:
        """Leave the previous generation in the table; the day's Parquet is published nevertheless."""
        self._log.error("table_held", conflicts=[*map(str, conflicts)], next_step=NEXT_STEP)
        previous = recorded or Recorded("", 0, 0)
        return TableCommit(self._table.name, "held", previous.generation, previous.rows, conflicts)

    def _unmark(self, view: PublishedView, goal: _Goal) -> None:
        """Delete marks of generations that the table left longer than the grace ago: no query reads them now.

        Earlier releases told tables apart by name alone: their marks go with those of any table of the name.
        """
        recorded = view.recorded
        if recorded is None or recorded.generation != goal.target.generation or goal.manifest is None:
            return
        before_ms = self._clock.now_ms() - GRACE_MS
        if recorded.committed_ms < before_ms:
            name = self._table.name
            shorts = {_short(name), _short(name, view.table_uuid)}
            self._publisher.table_marks.keep_only(goal.manifest.generation, shorts, before_ms)


def _short(name: str, table_uuid: str = "") -> str:
    """Return what marks call a table; without its UUID what earlier releases called all tables of a name."""
    return hashlib.sha256(f"{name} {table_uuid}".rstrip().encode()).hexdigest()[:16]
