"""An Iceberg table for days side by side. A lock serializes its calls: catalog clients may not be thread-safe."""

import threading
from collections.abc import Mapping, Sequence

from compaction.publish.conflicts import Conflict
from compaction.tables.commit import DayTable, PublishedView
from compaction.tables.plan import Replacement
from minutebook.format.day import Day


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


class _SerialView:
    def __init__(self, view: PublishedView, lock: threading.Lock) -> None:
        self._view = view
        self._lock = lock
        self.files = view.files
        self.recorded = view.recorded

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
