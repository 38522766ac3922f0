"""A table for days side by side: one day at a time works on it, as no catalog's client promises more."""

import threading
from collections.abc import Mapping, Sequence

from compaction.publish.conflicts import Conflict
from compaction.tables.commit import DayTable, PublishedView
from compaction.tables.plan import LiveFile, Recorded, Replacement
from minutebook.format.day import Day


class SerialTable:
    """Implements `DayTable` on another one. Who commits first wins, as between two runs: the loser looks again."""

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
            view = self._table.look(day)
            return _SerialView(view, view.files, view.recorded, self._lock)


class _SerialView:
    def __init__(
        self, view: PublishedView, files: tuple[LiveFile, ...], recorded: Recorded | None, lock: threading.Lock
    ) -> None:
        self._view = view
        self._lock = lock
        self.files = files
        self.recorded = recorded

    def conflicts(self, columns: Mapping[str, str] | None) -> Sequence[Conflict]:
        with self._lock:
            return self._view.conflicts(columns)

    def replace(
        self,
        change: Replacement,
        sizes: Mapping[str, int],
        properties: Mapping[str, str],
        columns: Mapping[str, str] | None = None,
    ) -> bool:
        with self._lock:
            return self._view.replace(change, sizes, properties, columns)
