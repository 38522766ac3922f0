"""Event ids of lines: while they pass from a segment to a Parquet file, or from the files of a published day."""

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
    """Collects the ids of lines, leaves out those that are dropped, and hands the others on to the Parquet file.

    A task that is not asked for producer duplicates does without it, and pays nothing.
    """

    def __init__(self, part: ParquetPart | None, ids: IdCollector | None, dropped: DroppedLines) -> None:
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


def read_published_ids(storage: RetryingStorage, keys: Sequence[str], ids: IdCollector) -> None:
    """Collect the ids of a day whose raw objects are expired, from its Parquet files. Memory is one row group.

    Raises:
        ObjectChanged, StoreUnavailable, StoreRefused: the store.
    """
    for key in keys:
        with local_copy(storage, key) as file:
            for batch in pq.ParquetFile(file).iter_batches(_ROWS, columns=["data", "data_bytes", "arrival_time"]):
                ids.add(
                    payloads(batch),
                    batch["arrival_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist(),
                    key,
                )
