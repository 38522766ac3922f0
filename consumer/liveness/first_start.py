"""The first start of an application: what it waits for, and what is done to shorten it.

    the lease table is created   here, with its index: KCL would poll for the table every 10 s, and then add the index
                                 to the existing table, which takes AWS minutes
    the table is empty           KCL waits for a random time of up to 30 s, in which another worker may fill it
    the rows are created         KCL would sleep for a minute: `shardSyncIntervalMillis` of the presets
    the leases are assigned      in the leader's second run: `leaseAssignmentIntervalMillis` of the presets

At every other start the leases that were read are passed on (`on_rows`), so that nobody reads them again.

All of this is optional: a failure is left to KCL, which then logs why it cannot start.
"""

from collections.abc import Callable
from typing import Final, Protocol

import structlog

from consumer.leases.rows import LeaseRows
from minutebook.errors import TableRefused, TableUnavailable

_WAITS: Final = {
    b"Lease table is still empty": "KCL waits for up to 30 s whether another worker fills the table of the leases",
    b"is initiating the lease sync": "KCL lists the stream's shards, and makes a row for each",
    b"Waiting for Lease table GSI creation": "KCL waits for the index of its table",
    b"Initialization complete. Starting worker loop.": "KCL's leader gives the shards away, within seconds",
}


class StartTable(Protocol):
    """The lease table as a first start sees it; see `consumer.leases.rows.LeaseTable`."""

    def read(self) -> LeaseRows | None:
        """Return every lease; None when there is no table."""
        ...

    def create(self, *, protected: bool = False) -> None:
        """Create the table, and wait until it takes rows."""
        ...


class FirstStart:
    """Creates a missing lease table, and logs what a first start waits for.

    `makes_table`: False if the properties ask for a table that only KCL can create. `protected`: with deletion
    protection. `on_rows` gets the leases at every other start.
    """

    def __init__(
        self,
        table: StartTable,
        *,
        makes_table: bool = True,
        protected: bool = False,
        on_rows: Callable[[LeaseRows], None] | None = None,
    ) -> None:
        self._table = table
        self._on_rows = on_rows
        self._makes_table = makes_table
        self._protected = protected
        self._left: dict[bytes, str] = {}
        self._log = structlog.get_logger()

    def before_start(self) -> None:
        """Read the table, and create it if it is missing."""
        self._left = {}
        try:
            rows = self._table.read()
            if rows is not None and rows.leases:
                if self._on_rows is not None:
                    self._on_rows(rows)
                return
            self._left = dict(_WAITS)
            self._log.info("first_start", waiting_for="KCL's tables and rows: a minute as a rule, and once")
            if rows is None and self._makes_table:
                self._table.create(protected=self._protected)
        except (TableRefused, TableUnavailable) as exc:
            self._log.info("table_left_to_kcl", error=str(exc))

    def read_output(self, line: bytes) -> None:
        """Take a line of the daemon's own log; log once each what KCL waits for."""
        for text in [text for text in self._left if text in line]:
            self._log.info("first_start", waiting_for=self._left.pop(text))
