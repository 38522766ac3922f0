"""What a task does with lines between reading and writing when producer duplicates are asked for.

Stands where the Parquet file stands, so that a task without it pays nothing.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from compaction.tasks.event_ids import IdCollector, payloads, without
from compaction.tasks.parquet import ParquetPart


class Sieve:
    """Collects the ids of lines, leaves out those that are dropped, and hands the others on.

    `dropped` maps the key of a piece to the numbers of its lines that stay out, ascending.
    """

    def __init__(
        self, part: ParquetPart | None, ids: IdCollector | None, dropped: Mapping[str, Sequence[int]]
    ) -> None:
        self._part = part
        self._ids = ids
        self._dropped = dropped
        self._lines: dict[str, int] = {}

    def add(self, lines: pa.Table, segment: str) -> None:
        """Take the next lines of a segment."""
        if self._ids is not None:
            self._ids.add(payloads(lines), lines["arrival_ms"].to_pylist(), segment)
        if self._part is None:
            return
        begin = self._lines.get(segment, 0)
        self._lines[segment] = begin + lines.num_rows
        dropped = self._dropped.get(segment)
        kept = lines if dropped is None else without(lines, begin, dropped)
        if kept.num_rows:
            self._part.add(kept, segment)

    @property
    def rows(self) -> int:
        """Rows handed on."""
        return 0 if self._part is None else self._part.rows

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return 0 if self._part is None else self._part.size

    def close(self) -> None:
        """Finish the file, where there is one."""
        if self._part is not None:
            self._part.close()
