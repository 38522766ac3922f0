"""What a task does with lines between reading and writing when producer duplicates are asked for.

It takes the place of the Parquet file, so that a task without it pays nothing.
"""

import pyarrow as pa

from compaction.tasks.ids.dropping import Dropped, payloads
from compaction.tasks.ids.rows import IdCollector
from compaction.tasks.parquet import ParquetPart


class LineFilter:
    """Collects the ids of lines, leaves out those that are dropped, and hands the others on."""

    def __init__(self, part: ParquetPart | None, ids: IdCollector | None, dropped: Dropped) -> None:
        self._part = part
        self._ids = ids
        self._dropped = dropped
        self._lines: dict[str, int] = {}

    def add(self, lines: pa.Table, segment: str | pa.StringArray) -> None:
        """Take the next lines of a segment; or lines that were merged, with the segment of each.

        Of merged lines no id counts: those of an object that is merged are in doubt. What is dropped of them was
        dropped before they were merged.
        """
        if not isinstance(segment, str):
            if self._part is not None:
                self._part.add(lines, segment)
            return
        if self._ids is not None:
            self._ids.add(payloads(lines), lines["arrival_ms"].to_pylist(), segment)
        if self._part is None:
            return
        begin = self._lines.get(segment, 0)
        self._lines[segment] = begin + lines.num_rows
        kept = self._dropped.kept(lines, begin, segment)
        if kept.num_rows:
            self._part.add(kept, segment)
