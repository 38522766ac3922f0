"""Collect the event ids of lines, on their way from a segment to a Parquet file, or from a published day's files."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from compaction.event_ids.dropping import DroppedLines, payloads
from compaction.event_ids.rows import IdCollector
from compaction.parquet.fetching import local_copy
from compaction.parquet.rows import ParquetPart
from minutebook.store.retrying import RetryingStorage

_ROWS: Final = 10_000


class LineFilter:
    """Collects the ids of lines, drops lines, and passes the others on to the Parquet file."""

    def __init__(self, part: ParquetPart | None, ids: IdCollector | None, dropped: DroppedLines) -> None:
        self._part = part
        self._ids = ids
        self._dropped = dropped
        self._lines: dict[str, int] = {}

    def add(self, lines: pa.Table, segment: str | pa.StringArray) -> None:
        """Add the next lines of a segment, or merged lines with the segment of each.

        The ids of merged lines are not collected, because their objects are in doubt, and their copies were dropped
        before the merge.
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
        remaining = self._dropped.remaining(lines, begin, segment)
        if remaining.num_rows:
            self._part.add(remaining, segment)


def read_published_ids(storage: RetryingStorage, keys: Sequence[str], ids: IdCollector) -> None:
    """Collect the ids of a day whose raw objects have expired, from its Parquet files. Memory is one row group."""
    for key in keys:
        with local_copy(storage, key) as file:
            for batch in pq.ParquetFile(file).iter_batches(_ROWS, columns=["data", "data_bytes", "arrival_time"]):
                arrivals_ms = batch["arrival_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
                ids.add(payloads(batch), arrivals_ms, key)
