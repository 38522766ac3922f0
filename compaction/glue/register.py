"""Registers published days in Glue's catalog. Every step may be repeated, by us or by another run.

    GET TABLE       none there ............ CREATE TABLE; AlreadyExists: another run was first: look again
                    another location ...... it is somebody else's table: refused; also one of other partitions
                    a column is missing ... GET PARTITIONS: of another type in one of another day (somebody dropped
                                            it since): held; else UPDATE TABLE of the version that was read;
                                            changed since: look again
                    of another type ....... held: nothing is changed, and no partition is made
    BATCH CREATE    created ............... done
    PARTITION       AlreadyExists ......... GET PARTITION: ours: nothing to do; of fewer columns, or moved: UPDATE

An answer that was lost is asked for again: each request is safe to repeat, for its second outcome is that of a run
that came later. Nothing is ever deleted, and nothing says which generation is current: that is the symlinks' matter.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar

import structlog
from botocore.exceptions import ClientError

from archive.aws import Service, ask, error_code
from archive.errors import CatalogRefused, CatalogUnavailable, SafetyRefusal
from compaction.glue.schema import published_columns
from compaction.glue.table import DAY_COLUMN, Column, United, partition_input, table_input, unite
from compaction.publish.conflicts import GLUE as GLUE_NAME
from compaction.publish.conflicts import NEXT_STEP, Conflict
from compaction.publish.publisher import Publisher

if TYPE_CHECKING:
    from archive.published.generation import DayFolder
    from archive.retry import Backoff

T = TypeVar("T")

_CHANGED: Final = "ConcurrentModificationException"
_EXISTS: Final = "AlreadyExistsException"
_ABSENT: Final = "EntityNotFoundException"
_KEPT: Final = (
    *("Name", "Description", "Owner", "Retention", "StorageDescriptor", "PartitionKeys", "ViewOriginalText"),
    *("ViewExpandedText", "TableType", "Parameters", "TargetTable"),
)
"""What UpdateTable takes of what GetTable gives: all else of a table is the catalog's own."""

State = Literal["created", "updated", "already", "held"]
GLUE: Final = Service(
    CatalogRefused,
    "look at the database's name and at the permissions: minutebook docs spark catalogs",
    CatalogUnavailable,
    "run the command again: the day is published, and its registration is made up for",
)


class GlueClient(Protocol):
    """The requests of Glue that are sent; boto3's client, or a double of it."""

    def get_table(self, *, DatabaseName: str, Name: str) -> Any:  # noqa: ANN401, N803 - boto3's
        """Send GetTable."""

    def create_table(self, *, DatabaseName: str, TableInput: Any) -> Any:  # noqa: ANN401, N803 - boto3's
        """Send CreateTable."""

    def update_table(self, *, DatabaseName: str, TableInput: Any, VersionId: str) -> Any:  # noqa: ANN401, N803 - boto3's
        """Send UpdateTable."""

    def batch_create_partition(self, *, DatabaseName: str, TableName: str, PartitionInputList: Any) -> Any:  # noqa: ANN401, N803 - boto3's
        """Send BatchCreatePartition."""

    def get_partitions(self, *, DatabaseName: str, TableName: str, **more: str) -> Any:  # noqa: ANN401, N803 - boto3's
        """Send GetPartitions; `NextToken` among more."""

    def get_partition(self, *, DatabaseName: str, TableName: str, PartitionValues: Any) -> Any:  # noqa: ANN401, N803 - boto3's
        """Send GetPartition."""

    def update_partition(
        self,
        *,
        DatabaseName: str,  # noqa: N803 - boto3's
        TableName: str,  # noqa: N803 - boto3's
        PartitionValueList: Any,  # noqa: ANN401, N803 - boto3's
        PartitionInput: Any,  # noqa: ANN401, N803 - boto3's
    ) -> Any:  # noqa: ANN401 - boto3's
        """Send UpdatePartition."""


class TableName(NamedTuple):
    """A table of the catalog."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


class Registration(NamedTuple):
    """What became of a day. `held`: the catalog knows what it knew before, and `conflicts` say why."""

    table: str
    state: State
    conflicts: tuple[Conflict, ...] = ()


class GlueTable:
    """One table of the catalog, over the symlinks of one output. Thread-safe."""

    def __init__(self, client: GlueClient, table: TableName, new_backoff: "Callable[[], Backoff]") -> None:
        self._client = client
        self._table = table
        self._new_backoff = new_backoff
        self._log = structlog.get_logger().bind(table=str(table))

    def register(self, publisher: Publisher) -> Registration | None:
        """Let the catalog know a day; None when it is not published. Columns that do not fit change nothing there.

        Raises:
            SafetyRefusal: the table lies elsewhere, or has other partitions: it is not ours.
            SettingsError: a column of a type that Hive has not.
            CatalogRefused, CatalogUnavailable: the catalog.
            StoreUnavailable, StoreRefused: the output.
        """
        columns = published_columns(publisher)
        if columns is None:
            return None
        location = root_of(publisher)
        name, day = f"{GLUE_NAME}{self._table}", str(publisher.folder.day)
        whole, conflicts = self._table_with(location, columns, day)
        if conflicts:
            said = [*map(str, conflicts)]
            self._log.error("table_held", day=day, table=name, conflicts=said, next_step=NEXT_STEP)
            return Registration(name, "held", conflicts)
        state = self._partition(publisher.folder, location, whole)
        self._log.info("day_registered", day=day, state=state)
        return Registration(name, state)

    def _table_with(self, location: str, wanted: tuple[Column, ...], day: str) -> United:
        """Return the table's columns once it is there and has the wanted ones, or those that do not fit."""
        backoff = self._new_backoff()
        while True:
            found = self._ask("GetTable", self._get_table)
            if found is None:
                if self._ask("CreateTable", lambda: self._create_table(location, wanted)):
                    return United(wanted, ())
            else:
                present = _columns(found)
                self._check_ours(found, location)
                names = {column.name.lower() for column in wanted} - {column.name.lower() for column in present}
                whole = unite(present, wanted, self._former(names, day) if names else ())
                if whole.conflicts or whole.columns == present:
                    return whole
                if self._ask("UpdateTable", lambda: self._update_table(found, whole.columns)):  # noqa: B023 - at once
                    return whole
            if not backoff.wait():
                raise CatalogUnavailable(
                    f"{self._table} keeps changing", next_step="run the command again: the day is published"
                )

    def _former(self, names: set[str], day: str) -> tuple[Column, ...]:
        """Return the columns of these names that partitions of other days have."""
        found, more = set[Column](), dict[str, str]()
        while True:
            answer = self._ask(
                "GetPartitions",
                lambda: self._client.get_partitions(
                    DatabaseName=self._table.database,
                    TableName=self._table.name,
                    **more,  # noqa: B023 - at once
                ),
            )
            others = (each for each in answer.get("Partitions", []) if each.get("Values") != [day])
            found.update(column for each in others for column in _columns(each) if column.name.lower() in names)
            if not answer.get("NextToken"):
                return tuple(sorted(found))
            more = {"NextToken": answer["NextToken"]}

    def _check_ours(self, table: Any, location: str) -> None:  # noqa: ANN401 - Glue's answer
        found = table.get("StorageDescriptor", {}).get("Location", "")
        if found.rstrip("/") != location.rstrip("/"):
            raise SafetyRefusal(
                f"table {self._table} of the catalog lies at {found or 'no place'}, not at {location}",
                next_step="name another table with --glue, or drop this one if nobody needs it",
            )
        keys = [key["Name"] for key in table.get("PartitionKeys", [])]
        if keys != [DAY_COLUMN]:
            raise SafetyRefusal(
                f"table {self._table} of the catalog is partitioned by {', '.join(keys) or 'nothing'}, "
                f"not {DAY_COLUMN}",
                next_step="name another table with --glue, or drop this one: the next run makes it as it must be",
            )

    def _partition(self, folder: "DayFolder", location: str, columns: tuple[Column, ...]) -> State:
        wanted = partition_input(folder.day, location, columns)
        answer = self._ask(
            "BatchCreatePartition",
            lambda: self._client.batch_create_partition(
                DatabaseName=self._table.database, TableName=self._table.name, PartitionInputList=[wanted]
            ),
        )
        errors = [error["ErrorDetail"] for error in answer.get("Errors", [])]
        if not errors:
            return "created"
        if errors[0].get("ErrorCode") != _EXISTS:
            raise CatalogRefused(
                f"{self._table}: partition {folder.day}: {errors[0].get('ErrorCode')} "
                f"{errors[0].get('ErrorMessage')}",
                next_step=GLUE.refused_step,
            )
        return self._updated(folder, wanted)

    def _updated(self, folder: "DayFolder", wanted: dict[str, Any]) -> State:
        values = {"DatabaseName": self._table.database, "TableName": self._table.name}
        found = self._ask(
            "GetPartition", lambda: self._client.get_partition(**values, PartitionValues=wanted["Values"])
        )["Partition"]
        descriptor = found.get("StorageDescriptor", {})
        own = wanted["StorageDescriptor"]
        is_ours = descriptor.get("Location", "").rstrip("/") == own["Location"].rstrip("/")
        is_read_so = descriptor.get("InputFormat") == own["InputFormat"]
        if is_ours and is_read_so and set(_columns(found)) >= set(_columns(wanted)):
            return "already"
        self._ask(
            "UpdatePartition",
            lambda: self._client.update_partition(
                **values, PartitionValueList=wanted["Values"], PartitionInput=wanted
            ),
        )
        self._log.warning(
            "partition_replaced",
            day=str(folder.day),
            before=descriptor.get("Location", ""),
            next_step="expected after a new column; else find out who else registers days in this table",
        )
        return "updated"

    def _get_table(self) -> Any:  # noqa: ANN401 - Glue's answer, or None
        try:
            return self._client.get_table(DatabaseName=self._table.database, Name=self._table.name)["Table"]
        except ClientError as exc:
            if error_code(exc) == _ABSENT:
                return None
            raise

    def _create_table(self, location: str, columns: tuple[Column, ...]) -> bool:
        """Return False when another run made it first."""
        made = table_input(self._table.name, location, columns)
        return self._unless(
            _EXISTS, lambda: self._client.create_table(DatabaseName=self._table.database, TableInput=made)
        )

    def _update_table(self, found: Any, columns: tuple[Column, ...]) -> bool:  # noqa: ANN401 - Glue's answer
        """Return False when the table was changed since it was read; what others said of it stays."""
        changed = {name: found[name] for name in _KEPT if found.get(name)}  # an empty text is refused
        listed = [{"Name": column.name, "Type": column.kind} for column in columns]
        described = {column["Name"]: column for column in found["StorageDescriptor"]["Columns"]}
        changed["StorageDescriptor"] = {
            **found["StorageDescriptor"],
            "Columns": [{**described.get(column["Name"], {}), **column} for column in listed],
        }
        return self._unless(
            _CHANGED,
            lambda: self._client.update_table(
                DatabaseName=self._table.database, TableInput=changed, VersionId=str(found.get("VersionId", "0"))
            ),
        )

    def _unless(self, code: str, request: Callable[[], object]) -> bool:
        try:
            request()
        except ClientError as exc:
            if error_code(exc) == code:
                return False
            raise
        return True

    def _ask(self, what: str, request: Callable[[], T]) -> T:
        return ask(request, f"{what} {self._table}", self._new_backoff(), GLUE)


def root_of(publisher: Publisher) -> str:
    """Return the folder of the symlinks of all days, ending in `/`."""
    return publisher.storage.uri(publisher.folder.symlinks).removesuffix(f"dt={publisher.folder.day}/manifest")


def _columns(described: Any) -> tuple[Column, ...]:  # noqa: ANN401 - a table or a partition of Glue
    columns = described.get("StorageDescriptor", {}).get("Columns", [])
    return tuple(Column(column["Name"], column.get("Type", "")) for column in columns)
