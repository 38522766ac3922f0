"""Open the catalog and table of `--iceberg`: pyiceberg's configuration, completed by our settings.

    --iceberg-catalog NAME            `catalog.NAME` of `.pyiceberg.yaml`, or PYICEBERG_CATALOG__NAME__*
    (no name)                         pyiceberg's default catalog, when it is configured
    (no name, none, --out a folder)   a SQLite file in the folder: `<out>_iceberg/catalog.sqlite`

Files are read and written with the job's region, endpoint and credentials, unless the catalog's configuration or the
catalog itself (vended credentials) provides others.
"""

import contextlib
import importlib
import logging
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from compaction.tables.commit import DayTable, PublishedView
from compaction.tables.plan import Conflict, Replacement
from minutebook.aws.clients import aws_session
from minutebook.errors import CatalogUnavailable, OutcomeUnknown, SettingsError
from minutebook.format.day import Day
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.credentials import Credentials
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from compaction.tables.orphans import TableFolders
    from compaction.tables.table import IcebergTable

_OWN_CREDENTIALS: Final = re.compile(r"(s3|client)\.(access-key-id|profile-name|role-arn|anonymous)")
_SNAPSHOTS: Final = "snapshot-loading-mode"
"""With `refs` a REST catalog omits past snapshots, and vacuum would delete their files."""
_NEXT_STEP: Final = (
    "configure it in .pyiceberg.yaml, or by variables PYICEBERG_CATALOG__NAME__*; minutebook docs iceberg shows both"
)


@contextlib.contextmanager
def opened_table(
    identifier: str, catalog_name: str | None, out: StorePrefix, *, by_event: bool = False
) -> "Iterator[DayTable]":
    """Open the table's catalog; the first commit creates the table (`by_event`: also partitioned by event day).

    Raises:
        SettingsError: pyiceberg is not installed, or the catalog is not configured.
        CatalogRefused, CatalogUnavailable: the catalog cannot be opened.
    """
    with _opened(catalog_name, out) as catalog:
        from compaction.tables.table import IcebergTable  # noqa: PLC0415 - an optional dependency

        yield IcebergTable(catalog, identifier, by_event=by_event)


@contextlib.contextmanager
def opened_followed(identifier: str, catalog_name: str | None, out: StorePrefix) -> "Iterator[IcebergTable]":
    """Open the table that `minutebook follow` commits to. Raises as `opened_table`.

    Raises SettingsError also for a catalog whose commits are not conditional, and for a table by event time.
    """
    with _opened(catalog_name, out) as catalog:
        from compaction.tables.table import IcebergTable  # noqa: PLC0415 - an optional dependency

        table = IcebergTable(catalog, identifier)
        if not table.is_conditional():
            raise SettingsError(
                f"{type(catalog).__name__} of pyiceberg applies a commit that is based on an older snapshot: of two "
                "commits at once one would be lost",
                next_step="follow into a table of another catalog: sql, rest, glue or hive",
            )
        if table.format_version() == 1:
            raise SettingsError(
                f"{table.name} is of format version 1, whose snapshots have no numbers: when old ones expire, nobody "
                "can tell which rows of a day were committed",
                next_step=f"ALTER TABLE {identifier} SET TBLPROPERTIES ('format-version'='2')",
            )
        if table.is_by_event():
            raise SettingsError(
                f"{table.name} is partitioned by the day of its events, too: a night makes its files",
                next_step="follow into a table of its own, which is partitioned by arrival alone",
            )
        yield table


@contextlib.contextmanager
def opened_folders(identifier: str, catalog_name: str | None, out: StorePrefix) -> "Iterator[TableFolders]":
    """Open the table's catalog for access to the table's folders. Raises as `opened_table`."""
    with _opened(catalog_name, out) as catalog:
        from compaction.tables.orphans import TableFolders  # noqa: PLC0415 - an optional dependency

        yield TableFolders(catalog, identifier)


@contextlib.contextmanager
def _opened(catalog_name: str | None, out: StorePrefix) -> "Iterator[Catalog]":
    try:
        importlib.import_module("pyiceberg.io.pyarrow")
        importlib.import_module("sqlalchemy")
    except ModuleNotFoundError as exc:
        raise SettingsError(
            f"--iceberg needs pyiceberg, and {exc.name} is not installed",
            next_step="install follow.lock and the wheel, as `minutebook docs iceberg` says",
        ) from exc
    from compaction.tables.failures import translated  # noqa: PLC0415 - an optional dependency

    # It warns about columns without statistics; errors are raised.
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    try:
        with translated("opening the catalog"):
            catalog = _load(catalog_name, out)
    except OutcomeUnknown as exc:
        raise CatalogUnavailable(str(exc), next_step="look at the catalog's health; run the command again") from exc
    try:
        yield catalog
    finally:
        catalog.close()


def _load(name: str | None, out: StorePrefix) -> "Catalog":
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an optional dependency
    from pyiceberg.exceptions import NoSuchPropertyException, NotInstalledError  # noqa: PLC0415 - same
    from pyiceberg.utils.config import Config  # noqa: PLC0415 - same
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415 - same

    config = Config()
    used = config.get_default_catalog_name() if name is None else name
    configured = config.get_catalog_config(used)
    if configured is None and (name is not None or out.address.bucket is not None):
        raise SettingsError(f"pyiceberg knows no catalog {used!r}", next_step=_NEXT_STEP)
    properties = _local_catalog(out) if configured is None else _glue_region(configured, out)
    if configured is not None and _is_rest(configured):
        from compaction.tables.timed_rest import time_requests  # noqa: PLC0415 - a tenth of a second

        time_requests()
    try:
        catalog = load_catalog(used, **properties)
    except (ValueError, NoSuchPropertyException, NotInstalledError, ArgumentError, ImportError) as exc:
        raise SettingsError(f"the catalog {used!r} is not configured well: {exc}", next_step=_NEXT_STEP) from exc
    complete_properties(catalog, out)  # not before: errors of load_catalog contain its arguments, credentials too
    return catalog


def _is_rest(configured: Mapping[str, Any]) -> bool:
    """Return whether pyiceberg takes a catalog for one that is asked by REST: by its type, or by its address."""
    return str(configured.get("type", "")).lower() == "rest" or str(configured.get("uri", "")).startswith("http")


def complete_properties(catalog: "Catalog", out: StorePrefix) -> None:
    """Let a catalog access the output's files, with credentials that are fresh at each load; load all snapshots."""
    if out.address.bucket is not None:
        for key, value in _file_properties(out.address).items():
            catalog.properties.setdefault(key, value)
        if not any(map(_OWN_CREDENTIALS.match, catalog.properties)):
            _keep_fresh(catalog, aws_session().get_credentials())
    if _SNAPSHOTS in catalog.properties:
        catalog.properties[_SNAPSHOTS] = "all"


def _local_catalog(out: StorePrefix) -> dict[str, str]:
    folder = Path(out.address.root) / f"{out.prefix}_iceberg"
    folder.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.sqlite'}", "warehouse": f"file://{folder}"}


def _glue_region(configured: Mapping[str, Any], out: StorePrefix) -> dict[str, str]:
    """Return the output's region for a catalog of Glue that has none: pyiceberg asks boto3, which may have none.

    A profile may have one.
    """
    has_region = any(
        f"{kind}.{name}" in configured for kind in ("glue", "client") for name in ("region", "profile-name")
    )
    if configured.get("type") != "glue" or has_region or aws_session().region_name is not None:
        return {}
    return {"glue.region": out.address.region}


def _file_properties(address: Address) -> dict[str, str]:
    properties = {"s3.region": address.region}
    if address.endpoint is not None:
        properties |= {"s3.endpoint": address.endpoint, "s3.force-virtual-addressing": "false"}
    return properties


def _keep_fresh(catalog: "Catalog", credentials: "Credentials | None") -> None:
    """Let each load of a table take the credentials of then: a role's are good for hours, and follow runs for weeks.

    A table's file access takes the catalog's properties when it is loaded, and is used no longer than for one commit.
    """
    if credentials is None:
        return
    load_table = catalog.load_table

    def loaded(identifier: "str | Identifier") -> "Table":
        catalog.properties.update(_credential_properties(credentials))
        return load_table(identifier)

    catalog.properties.update(_credential_properties(credentials))
    setattr(catalog, "load_table", loaded)  # noqa: B010 - only of this catalog


def _credential_properties(credentials: "Credentials") -> dict[str, str]:
    frozen = credentials.get_frozen_credentials()
    names = ("access-key-id", "secret-access-key", "session-token")
    values = zip(names, (frozen.access_key, frozen.secret_key, frozen.token), strict=True)
    return {f"s3.{name}": value for name, value in values if value}


class SerialTable:
    """Implements `DayTable` on another one. As between two runs, a day that loses a commit loads the table again."""

    def __init__(self, table: DayTable) -> None:
        self._table = table
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self._table.name

    def look(self, day: Day) -> PublishedView:
        """Load the current snapshot."""
        with self._lock:
            return _SerialView(self._table.look(day), self._lock)

    def conflicts(self, columns: Mapping[str, str] | None) -> Sequence[Conflict]:
        """Compare columns with the table."""
        with self._lock:
            return self._table.conflicts(columns)


class _SerialView:
    def __init__(self, view: PublishedView, lock: threading.Lock) -> None:
        self._view = view
        self._lock = lock
        self.table_uuid = view.table_uuid
        self.files = view.files
        self.recorded = view.recorded
        self.place = view.place

    def goes_on_from(self, place: str) -> bool:
        return self._view.goes_on_from(place)

    def conflicts(self, columns: Mapping[str, str] | None) -> Sequence[Conflict]:
        with self._lock:
            return self._view.conflicts(columns)

    def replace(
        self,
        change: Replacement,
        sizes: Mapping[str, int],
        properties: Mapping[str, str],
        columns: Mapping[str, str] | None = None,
        table_properties: Mapping[str, str] | None = None,
    ) -> bool:
        with self._lock:
            return self._view.replace(change, sizes, properties, columns, table_properties)
