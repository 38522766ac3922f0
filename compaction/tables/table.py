"""Implement `DayTable` with pyiceberg.

pyiceberg's own retries of commits are off: they keep the plan for the first snapshot, and detect a conflict only
under some isolation levels of the table. Each attempt is one view and one conditional commit. A day is one snapshot:
one `overwrite` removes and adds its files, not a delete and an append.

A refused commit. pyiceberg takes a refusal as proof that a commit was not applied, and deletes its manifests. But
clients and load balancers retry a request whose response is late (boto3 does for Glue). The retry is then refused
**because the first request was applied**, and the table would lose its manifests and be unreadable. So pyiceberg gets
another error, after which it neither deletes files nor retries (a retry would add the day beside that of the winner),
and the files are deleted here once the table has changed without them.

A host's clock. pyiceberg stamps by it, and Iceberg's Java reads no metadata whose times step back by more than a
minute: a host that was ahead for one commit would take the table from Spark, Trino and Flink. So a snapshot is
stamped behind the last change of the table, and what adds none is refused to a host that is late.

A commit with files older than a day is not sent: the process was suspended, and `vacuum` may have deleted them
(`compaction.tables.orphans`). It counts as refused, and the next attempt writes them again.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow.parquet as pq
from pyiceberg import exceptions
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate
from pyiceberg.transforms import DayTransform
from sqlalchemy.exc import IntegrityError

from compaction.columns.columns import EVENT_TIME
from compaction.tables import history, shape
from compaction.tables.commit import (
    DAY_PROPERTY,
    GENERATION_PROPERTY,
    MANIFEST_PROPERTY,
    ROWS_PROPERTY,
    TOLD_OF_PROPERTY,
)
from compaction.tables.evolution import FormerNames, envelope_conflicts, plan_evolution
from compaction.tables.failures import translated
from compaction.tables.frugal import DayPlanner, OneCommit
from compaction.tables.plan import Conflict, LiveFile, Recorded, Replacement
from minutebook.clock import Clock, SystemClock
from minutebook.errors import CatalogRefused, OutcomeUnknown, SafetyRefusal
from minutebook.format.day import Day
from minutebook.store.parallel import in_parallel

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table import FileScanTask, Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

_CLOCK: Final = SystemClock()
_VECTORS: Final = "read.parquet.vectorization.enabled"
_OVERRIDES: Final = dict.fromkeys(
    (f"write.metadata.metrics.column.{name}" for name in (shape.ARRIVAL, EVENT_TIME)), "full"
)
"""Override the table's properties for one commit: a file's partition is derived from the bounds of these columns."""
_ATTEMPTS: Final = 5
_CONDITIONAL: Final = frozenset({"SqlCatalog", "RestCatalog", "GlueCatalog", "HiveCatalog"})
"""Catalogs that check the requirements of a commit while they apply it. pyiceberg's one on DynamoDB does not."""
_MERGED: Final = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "16"}
"""The same for a commit that only adds files: sixteen manifests are merged into one, so that each view reads few."""
_TIDIED: Final = "write.metadata.delete-after-commit.enabled"
_SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
_TOLERATED_MS: Final = 50_000
"""So far times may step back: Iceberg's Java tolerates a minute."""
_STAMPING: Final = frozenset({"RestCatalog"})
"""Catalogs whose service stamps by a clock of its own."""
_KNOWN_DAYS: Final = 2
"""Today and yesterday are looked at each minute."""
_STALE_SECONDS: Final = 86_400.0
"""A third of the minimum age for vacuum."""


class Refused(Exception):  # noqa: N818 - no error: the next view decides
    """The catalog refused a commit with these snapshots, or a retry of it."""

    def __init__(self, snapshots: "list[Snapshot]") -> None:
        super().__init__("refused")
        self.snapshots = snapshots


class RefusalCatalog:
    """A catalog for one commit, whose files are written from now on, that raises `Refused`."""

    def __init__(self, catalog: "Catalog", clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock
        self._begun = clock.monotonic()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - pyiceberg's
        """Delegate everything else."""
        return getattr(self._catalog, name)

    def commit_table(self, table: "Table", requirements: Any, updates: Any) -> Any:  # noqa: ANN401 - pyiceberg's
        """Send the commit; raise `Refused` in place of pyiceberg's error, or if its files are too old."""
        snapshots = [each.snapshot for each in updates if isinstance(each, AddSnapshotUpdate)]
        if self._clock.monotonic() - self._begun > _STALE_SECONDS:
            raise Refused(snapshots)
        stamped = tuple(_stamped(each, _changed_ms(table.metadata) + 1) for each in updates)
        try:
            return self._catalog.commit_table(table, requirements, stamped)
        except exceptions.CommitFailedException as exc:
            raise Refused(snapshots) from exc


def _changed_ms(metadata: "TableMetadata") -> int:
    """Return when a table was changed last, by the clock of whoever did."""
    current = metadata.current_snapshot()
    return max(metadata.last_updated_ms, 0 if current is None else current.timestamp_ms)


def _stamped(update: "TableUpdate", after_ms: int) -> "TableUpdate":
    """Return an update whose snapshot is stamped at or after a time."""
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.timestamp_ms >= after_ms:
        return update
    return update.model_copy(update={"snapshot": update.snapshot.model_copy(update={"timestamp_ms": after_ms})})


def tidy_up(catalog: "Catalog", base: "Table", refused: Refused) -> None:
    """Delete the files of a commit that can no longer be applied; `base` is the table that it was planned on.

    It can be applied while the table is unchanged. Files of the table's current snapshot are never deleted.
    """
    table = catalog.load_table(base.name())
    current = table.current_snapshot()
    if current is None or current.snapshot_id == base.metadata.current_snapshot_id:
        return
    live = {each.manifest_path for each in current.manifests(table.io)}
    for snapshot in refused.snapshots:
        manifests = snapshot.manifests(base.io)
        ours = {each.manifest_path for each in manifests if each.added_snapshot_id == snapshot.snapshot_id}
        if table.metadata.snapshot_by_id(snapshot.snapshot_id) is not None or ours & live:
            continue
        for path in (*sorted(ours), snapshot.manifest_list):
            base.io.delete(path)


class IcebergTable:
    """A table of a pyiceberg catalog; `by_event`: partitioned by arrival day and event day."""

    def __init__(self, catalog: "Catalog", identifier: str, *, by_event: bool = False, clock: Clock = _CLOCK) -> None:
        self._catalog = catalog
        self._clock = clock
        self._identifier = identifier
        self._by_event = by_event
        self._known: dict[Day, dict[str, list[ManifestEntry] | None]] = {}
        """Of the days that were looked at last."""

    @property
    def name(self) -> str:
        """The names of the catalog and the table."""
        return f"{self._catalog.name}.{self._identifier}"

    def look(self, day: Day) -> "IcebergDay":
        """Load or create the table; see `DayTable`.

        Raises CatalogRefused also if the table is partitioned otherwise than a new one. A table by arrival alone gets
        the partition by event with the first day that has event times.
        """
        with translated(f"loading {self.name}"):
            try:
                table = self._catalog.load_table(self._identifier)
            except exceptions.NoSuchIcebergTableError:  # a table of another kind; a subclass of the next error
                raise
            except exceptions.NoSuchTableError:
                table = self._create()
            self._check_partitions(table)
            known = self._known.pop(day, {})
            self._known = {**dict([*self._known.items()][1 - _KNOWN_DAYS :]), day: known}
            return IcebergDay(self.name, table, day, self._clock, known, by_event=self._by_event)

    def conflicts(self, columns: Mapping[str, str] | None) -> tuple[Conflict, ...]:
        """Return the conflicts of columns with the table; see `DayTable`."""
        with translated(f"loading {self.name}"):
            if (table := self._present()) is None:
                return ()
            return _conflicts(table, columns, by_event=self._by_event)

    def _present(self) -> "Table | None":
        """Return the table as it is now; None, if it does not exist yet."""
        return self._catalog.load_table(self._identifier) if self._catalog.table_exists(self._identifier) else None

    def is_conditional(self) -> bool:
        """Return whether the catalog refuses a commit that is based on an older snapshot than its own."""
        return self._is_any_of(_CONDITIONAL)

    def _is_any_of(self, names: Collection[str]) -> bool:
        return any(kind.__name__ in names for kind in type(self._catalog).__mro__)

    def format_version(self) -> int | None:
        """Return the version of the table's format; None, if it does not exist yet. Raises as `look`."""
        with translated(f"loading {self.name}"):
            return None if (table := self._present()) is None else table.format_version

    def is_by_event(self) -> bool:
        """Return whether the table exists and is partitioned by event, too. Raises as `look`."""
        with translated(f"loading {self.name}"):
            if (table := self._present()) is None:
                return False
            return shape.partitioned_by(table, table.spec()) == [shape.ARRIVAL, EVENT_TIME]

    def properties(self) -> Mapping[str, str]:
        """Return the table's properties; none, if it does not exist yet. Raises as `look`."""
        with translated(f"loading {self.name}"):
            return {} if (table := self._present()) is None else {**table.properties}

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table, and commit no snapshot. Raises as `look`."""
        with translated(f"setting properties of {self.name}"):
            for attempt in range(_ATTEMPTS):
                table = self._catalog.load_table(self._identifier)
                self._check_clock(table)
                try:
                    with table.transaction() as transaction:
                        transaction.set_properties(dict(properties))
                except exceptions.CommitFailedException as exc:  # somebody has committed meanwhile
                    if attempt == _ATTEMPTS - 1:
                        raise OutcomeUnknown(f"others keep changing {self.name}: {exc}") from exc
                else:
                    return

    def expire(self, now_ms: int, overdue_ms: int = 0) -> int:
        """Expire follow's snapshots that are older than the table keeps them (`history.expirable`); return how many.

        None, if the oldest of them is not older by `overdue_ms`.

        Raises as `look`, and CatalogRefused if the table's own setting is no number.

        On condition that the current snapshot still is the one that was loaded, else 0: a rollback meanwhile may have
        made one of these the current one, and the table would be empty without it.
        """
        with translated(f"expiring snapshots of {self.name}"):
            table = self._catalog.load_table(self._identifier)
            before_ms = now_ms - self._snapshot_age_ms(table)
            gone, current = history.expirable(table.metadata, before_ms), table.current_snapshot()
            times_ms = {each.snapshot_id: each.timestamp_ms for each in table.metadata.snapshots}
            if current is None or not any(times_ms[each] < before_ms - overdue_ms for each in gone):
                return 0
            self._check_clock(table)
            try:
                table.catalog.commit_table(
                    table,
                    (
                        AssertTableUUID(uuid=table.metadata.table_uuid),
                        AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": current.snapshot_id}),
                    ),
                    (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone}),),
                )
            except exceptions.CommitFailedException:
                return 0  # somebody has committed, or gone back, meanwhile: the next hour looks again
            return len(gone)

    def _snapshot_age_ms(self, table: "Table") -> int:
        """Return how old follow's snapshots get: what Iceberg's own property says, or a day."""
        text = table.properties.get(_SNAPSHOT_AGE, "86400000")
        if not (text.isascii() and text.isdecimal()):
            raise CatalogRefused(
                f"{self.name} has {_SNAPSHOT_AGE} = {text!r}, which is no number of milliseconds",
                next_step="correct the table's property; until then its snapshots stay",
            )
        return int(text)

    def _check_clock(self, table: "Table") -> None:
        """Refuse a change without a snapshot, which the catalog stamps by a clock that is late: that of this host."""
        late_ms = _changed_ms(table.metadata) - self._clock.now_ms()
        if late_ms > _TOLERATED_MS and not self._is_any_of(_STAMPING):
            raise CatalogRefused(
                f"by this host's clock {self.name} was changed {late_ms // 1000} s in the future: stamped now, a "
                "change would make it unreadable for Spark and Trino",
                next_step="set the clocks of the hosts that commit to the table (chrony, NTP); rows are committed",
            )

    def _check_partitions(self, table: "Table") -> None:
        fields = shape.partitioned_by(table, table.spec())
        if fields == [shape.ARRIVAL] and self._by_event and history.ROWS_UNTIL in table.properties:
            raise CatalogRefused(
                f"{self.name} is followed, and a table by event holds no live rows: those of now would leave it",
                next_step="name another table for the time of events; or end minutebook follow, and remove the "
                f"table's property {history.ROWS_UNTIL}",
            )
        if fields == [shape.ARRIVAL] or (self._by_event and fields == [shape.ARRIVAL, EVENT_TIME]):
            return
        if fields == [shape.ARRIVAL, EVENT_TIME]:
            raise CatalogRefused(
                f"{self.name} is partitioned by day({EVENT_TIME}), too, and this run knows no time of events",
                next_step="name it, as in --event-time meta.ts, or name another table",
            )
        raise CatalogRefused(
            f"{self.name} is not partitioned by day({shape.ARRIVAL}) "
            f"{'and its events' if self._by_event else 'alone'}",
            next_step="name a table that does not exist yet: it is made as it must be",
        )

    def _create(self) -> "Table":
        try:
            namespace = self._identifier.rpartition(".")[0]
            self._catalog.create_namespace_if_not_exists(namespace)
            schema, spec = (
                (shape.EVENT_SCHEMA, shape.EVENT_SPEC) if self._by_event else (shape.TABLE_SCHEMA, shape.SPEC)
            )
            mapping = {shape.MAPPING: schema.name_mapping.model_dump_json()}
            return self._catalog.create_table(
                self._identifier, schema, partition_spec=spec, properties=shape.PROPERTIES | mapping
            )
        except (exceptions.TableAlreadyExistsError, exceptions.NamespaceAlreadyExistsError, IntegrityError) as exc:
            raise OutcomeUnknown(f"another run is making {self.name}") from exc


class IcebergDay:
    """A day in one snapshot of the table; implements `PublishedView`."""

    def __init__(
        self,
        name: str,
        table: "Table",
        day: Day,
        clock: Clock,
        known: dict[str, "list[ManifestEntry] | None"],
        *,
        by_event: bool,
    ) -> None:
        """Read what is not `known` of the table's manifests (`DayPlanner`)."""
        self._name = name
        self._clock = clock
        self._table = table
        self._day = day
        self._by_event = by_event
        self.table_uuid = str(table.metadata.table_uuid)
        # Not a text filter: the column may have been renamed to something that its parser rejects.
        arrival = Reference(shape.renamed_sources(table).get(shape.ARRIVAL, shape.ARRIVAL))
        begin, end = (literal(f"{each}T00:00:00+00:00") for each in (day, day.shift(1)))
        of_day = And(GreaterThanOrEqual(term=arrival, value=begin), LessThan(term=arrival, value=end))
        planner, snapshot = DayPlanner(table.metadata, table.io, of_day, known), table.current_snapshot()
        tasks = (
            [] if snapshot is None else list(planner.plan_files(snapshot.manifests(table.io)))
        )  # a file that was added twice is there twice, and so are its rows
        self._tasks: dict[str, FileScanTask] = {task.file.file_path: task for task in tasks}
        self.files = tuple(
            LiveFile(
                task.file.file_path, task.file.record_count, self._is_of_the_day(task.file) and not task.delete_files
            )
            for task in tasks
        )
        self.recorded = _recorded(table, day)
        self.place = self._place("", 0) if snapshot is None else self._place(*_numbers(snapshot))

    def _place(self, snapshot_id: int | str, sequence_number: int) -> str:
        return f"{self.table_uuid}/{snapshot_id}/{sequence_number}"

    def goes_on_from(self, place: str) -> bool:
        """Return whether the table was made from an earlier place; see `PublishedView`.

        One that expired counts, unless the table is at a lower sequence number than it had.
        """
        table_uuid, number, sequence_number, *_ = *place.split("/"), "", ""
        if table_uuid != self.table_uuid:
            return False
        metadata, current = self._table.metadata, self._table.current_snapshot()
        before = metadata.snapshot_by_id(int(number)) if number.isdecimal() else None
        if before is not None:
            return before in history.branch_of(metadata)
        at = 0 if current is None else _numbers(current)[1]
        return not sequence_number.isdecimal() or at >= int(sequence_number)

    def conflicts(self, columns: Mapping[str, str] | None) -> tuple[Conflict, ...]:
        """Return the conflicts of a day with the table; see `PublishedView`."""
        return _conflicts(self._table, columns, by_event=self._by_event)

    def replace(
        self,
        change: Replacement,
        sizes: Mapping[str, int],
        properties: Mapping[str, str],
        columns: Mapping[str, str] | None = None,
        table_properties: Mapping[str, str] | None = None,
    ) -> bool:
        """Commit one snapshot; see `PublishedView`.

        One that removes nothing is an `append`, whose manifests may be merged; any other one is an `overwrite`.

        Raises:
            CatalogRefused: also if a file does not fit the table, or is not the one that was published.
            SafetyRefusal: a file holds rows of another day.
        """
        with translated(f"the commit to {self._name}"):
            is_delta = self._table.properties.get(_VECTORS) != "false" and any(
                in_parallel(self._is_delta, change.add)
            )
            self._table.metadata = _for_one_commit(self._table.metadata)
            catalog = self._table.catalog
            self._table.catalog = cast("Catalog", RefusalCatalog(catalog, self._clock))
            try:
                with OneCommit(self._table) as transaction:
                    if self._table.name_mapping() is None:
                        mapping = self._table.schema().name_mapping.model_dump_json()
                        transaction.set_properties({shape.MAPPING: mapping})
                    if is_delta:
                        transaction.set_properties({_VECTORS: "false"})
                    self._evolve(transaction, columns)
                    self._partition_by_event(transaction)
                    metadata = transaction.table_metadata
                    added = in_parallel(lambda uri: self._describe(uri, sizes[uri], metadata), change.add)
                    update = transaction.update_snapshot(snapshot_properties=dict(properties))
                    with update.overwrite() if change.remove else update.merge_append() as snapshot:
                        if table_properties:
                            number = transaction.table_metadata.next_sequence_number()
                            place = self._place(snapshot._snapshot_id, number)  # noqa: SLF001 - behind it is too late
                            transaction.set_properties({**table_properties, TOLD_OF_PROPERTY: place})
                        for uri in change.remove:
                            snapshot.delete_data_file(self._tasks[uri].file)
                        for file in added:
                            snapshot.append_data_file(file)
            except Refused as refused:
                tidy_up(catalog, self._table, refused)
                return False
            except exceptions.ValidationException:
                return False
            finally:
                self._table.catalog = catalog
        return True

    def _evolve(self, transaction: "Transaction", columns: Mapping[str, str] | None) -> None:
        """Add the columns to the schema, in the same commit as their files."""
        steps = plan_evolution(self._table.schema(), columns, _former_names(self._table)).steps
        if not steps:
            return
        with transaction.update_schema() as update:
            for step in steps:
                if step.is_new:
                    update.add_column(step.path, step.type)
                else:
                    update.update_column(step.path, step.type)

    def _partition_by_event(self, transaction: "Transaction") -> None:
        """Add the partition by event to a table partitioned by arrival alone; existing files are unchanged."""
        if self._by_event and len(self._table.spec().fields) == 1:
            with transaction.update_spec() as update:
                update.add_field(EVENT_TIME, DayTransform(), "event_day")

    def _describe(self, uri: str, rows: int, metadata: "TableMetadata") -> "DataFile":
        try:
            file = parquet_file_to_data_file(self._table.io, metadata, uri)
        except FileNotFoundError as exc:
            raise _gone(uri) from exc
        except ValueError as exc:
            raise CatalogRefused(
                f"{uri} does not fit {self._name}: {exc}",
                next_step="rows of another day (published with --accept) cannot go into the table; for "
                "columns that differ, name a table that does not exist yet",
            ) from exc
        if file.partition[0] != self._day.number:
            raise SafetyRefusal(
                f"{uri} holds rows that did not arrive on {self._day}",
                next_step="look at the audit's wrong_minute findings; such a day is read from its Parquet files",
            )
        if file.record_count != rows:
            raise CatalogRefused(
                f"{uri} holds {file.record_count:,} rows and was published with {rows:,}",
                next_step="find out who writes to the output",
            )
        if self._by_event:
            self._check_one_event_day(file, metadata)
        return file

    def _check_one_event_day(self, file: "DataFile", metadata: "TableMetadata") -> None:
        """Refuse a file that mixes rows with and without event time, which bounds do not show."""
        number = metadata.schema().find_field(EVENT_TIME).field_id
        if file.null_value_counts.get(number, 0) not in {0, file.record_count}:
            raise SafetyRefusal(
                f"{file.file_path} holds rows with and without {EVENT_TIME}",
                next_step="find out who writes to the output",
            )

    def _is_delta(self, uri: str) -> bool:
        """Return whether a file has delta-encoded pages, as files of earlier versions have.

        Iceberg's vectorized reader rejects DELTA_BYTE_ARRAY (measured with 1.10.1), and must be disabled then.
        """
        try:
            with self._table.io.new_input(uri).open() as file:
                footer = pq.read_metadata(file)
        except FileNotFoundError as exc:
            raise _gone(uri) from exc
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        columns = [group.column(number) for group in groups[:1] for number in range(group.num_columns)]
        return any(encoding.startswith("DELTA") for column in columns for encoding in column.encodings)

    def _is_of_the_day(self, file: "DataFile") -> bool:
        """Return whether a file is in the day's partition, or in one of its partitions by event."""
        spec = self._table.specs()[file.spec_id]
        return (
            shape.partitioned_by(self._table, spec)[:1] == [shape.ARRIVAL] and file.partition[0] == self._day.number
        )


def _numbers(snapshot: "Snapshot") -> tuple[int, int]:
    """Return the id and the sequence number of a snapshot."""
    return snapshot.snapshot_id, snapshot.sequence_number or 0


def _conflicts(table: "Table", columns: Mapping[str, str] | None, *, by_event: bool) -> tuple[Conflict, ...]:
    schema, renamed = table.schema(), shape.renamed_sources(table)
    conflicts = (
        *(Conflict(was, f"a partition by the day of {name}", "timestamp") for was, name in renamed.items()),
        *envelope_conflicts(schema, renamed),
        *plan_evolution(schema, columns, _former_names(table)).conflicts,
    )
    if by_event and EVENT_TIME not in (columns or {}):
        return (*conflicts, Conflict(EVENT_TIME, "a partition by its day", "no such column"))
    return conflicts


def _former_names(table: "Table") -> FormerNames:
    return FormerNames(table.name_mapping(), table.schema(), table.metadata.schemas)


def _for_one_commit(metadata: "TableMetadata") -> "TableMetadata":
    """Return metadata with our overrides, and without history: in memory alone, neither of it is stored.

    pyiceberg copies them a dozen times for a commit: with the snapshots of a day that takes seconds. Catalogs apply a
    commit to their own. The log of metadata files stays where pyiceberg deletes those that leave it.
    """
    named = {metadata.current_snapshot_id, *(ref.snapshot_id for ref in metadata.refs.values())}
    return metadata.model_copy(
        update={
            "properties": {**metadata.properties, **_OVERRIDES, **_MERGED},
            "snapshots": [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in named],
            "snapshot_log": [],
            "metadata_log": metadata.metadata_log if _TIDIED in metadata.properties else [],
        }
    )


def _gone(uri: str) -> CatalogRefused:
    return CatalogRefused(f"{uri} was published and is gone", next_step="find out who deletes files of the output")


def _recorded(table: "Table", day: Day) -> Recorded | None:
    for snapshot in history.branch_of(table.metadata):
        properties = history.summary_of(snapshot)
        if properties.get(DAY_PROPERTY) == str(day):
            rows = properties.get(ROWS_PROPERTY, "")
            return Recorded(
                properties.get(GENERATION_PROPERTY, ""),
                int(rows) if rows.isdecimal() else -1,
                snapshot.timestamp_ms,
                properties.get(MANIFEST_PROPERTY, ""),
            )
    return None
