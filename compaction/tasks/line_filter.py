"""What a task does with lines between reading and writing when producer duplicates are asked for.

It takes the place of the Parquet file, so that a task without it pays nothing.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from compaction.tasks.event_ids import IdCollector, payloads, without
from compaction.tasks.parquet import ParquetPart


class LineFilter:
    """Collects the ids of lines, leaves out those that are dropped, and hands the others on.

    `dropped` maps the key of an object to the numbers of its lines that stay out, ascending.
    """

    def __init__(
        self, part: ParquetPart | None, ids: IdCollector | None, dropped: Mapping[str, Sequence[int]]
    ) -> None:
        self._part = part
        self._ids = ids
        self._dropped = dropped
        self._lines: dict[str, int] = {}

    def add(self, lines: pa.Table, segment: str | pa.StringArray) -> None:
        """Take the next lines of a segment; or lines that were merged, with the segment of each.

        Of merged lines no id counts, and none is dropped here: those of an object that is merged are in doubt.
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
        dropped = self._dropped.get(segment)
        kept = lines if dropped is None else without(lines, begin, dropped)
        if kept.num_rows:
            self._part.add(kept, segment)
