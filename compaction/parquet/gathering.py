"""Lines of several segments on their way into one table: where a segment has a few lines, a table takes longer."""

from typing import Final

from compaction.columns.arrow_columns import repeated_column
from compaction.parquet.line_tables import Block, table_of_columns
from compaction.parquet.plan import RawObject
from compaction.parquet.rows import ParquetPart
from minutebook.codec.columns import LineBuffers

_ENOUGH_BYTES: Final = 1 << 20
"""Of lines: they fit into the processor's cache."""


class GatheredLines:
    """Lines that the native codec has read. They come into the part by `flush`, in the order in which they were read.

    Whoever adds others to the part flushes before. `part` None: lines are read for their facts alone.
    """

    def __init__(self, part: ParquetPart | None) -> None:
        self._part = part
        self._buffers = LineBuffers()
        self._segments: list[tuple[str, int]] = []
        self._shards: list[tuple[str, int]] = []

    def buffers_for(self, block: Block) -> LineBuffers:
        """Return the buffers that the rows of a block are to be read into."""
        if not self._buffers.has_room(block.size):
            self.flush()
        return self._buffers

    def add(self, raw_object: RawObject, rows: int) -> None:
        """Note whose rows were read."""
        self._segments.append((raw_object.key, rows))
        self._shards.append((raw_object.shard_id, rows))
        if self._buffers.bytes >= _ENOUGH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand all lines to the part. Raises NotSorted as `ParquetPart.add`."""
        if self._part is not None and self._segments:
            lines = table_of_columns(self._buffers.take(), repeated_column(self._shards))
            self._part.add(lines, repeated_column(self._segments))
        self._buffers.clear()
        self._segments.clear()
        self._shards.clear()
