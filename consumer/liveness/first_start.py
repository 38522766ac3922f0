"""The first start of an application: what it waits for, and what can be done before.

    the table of the leases      made here, with its index: KCL would look every 10 s whether it is there, and add the
                                 index to a table that lives, which takes Amazon minutes
    the table is empty           KCL waits for a random time of up to 30 s, in which another worker may fill it
    the rows are made            KCL would sleep for a minute: `shardSyncIntervalMillis` of the presets
    the shards are given away    in the leader's second run: `leaseAssignmentIntervalMillis` of the presets

Nothing here is needed: what fails is left to KCL, which then says why it cannot start.
"""

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
        """Make the table, and wait until it takes rows."""
        ...


class FirstStart:
    """Makes the table of the leases where there is none, and says what a first start waits for.

    `makes_table`: nothing is asked of the table that only KCL can do. `protected`: it cannot be deleted by accident.
    """

    def __init__(self, table: StartTable, *, makes_table: bool = True, protected: bool = False) -> None:
        self._table = table
        self._makes_table = makes_table
        self._protected = protected
        self._left: dict[bytes, str] = {}
        self._log = structlog.get_logger()

    def before_start(self) -> None:
        """Look at the table before a start of the daemon."""
        self._left = {}
        try:
            rows = self._table.read()
            if rows is not None and rows.leases:
                return
            self._left = dict(_WAITS)
            self._log.info("first_start", waiting_for="KCL's tables and rows: a minute as a rule, and once")
            if rows is None and self._makes_table:
                self._table.create(protected=self._protected)
        except (TableRefused, TableUnavailable) as exc:
            self._log.info("table_left_to_kcl", error=str(exc))

    def read_output(self, line: bytes) -> None:
        """Take a line of the daemon's own log; say, once each, what it waits for."""
        for text in [text for text in self._left if text in line]:
            self._log.info("first_start", waiting_for=self._left.pop(text))
