"""Lines of several segments on their way into one table: where a segment has a few lines, a table takes longer."""

from typing import Final

from compaction.columns.arrow_columns import repeated_column
from compaction.parquet.line_tables import Block, table_of_columns
from compaction.parquet.plan import RawObject
from compaction.parquet.rows import ParquetPart
from minutebook.codec.columns import LineBuffers

_SMALL_BYTES: Final = 128 << 10
"""Blocks up to this size gather. A larger one has a table of its own, which costs it little, and its name once."""
_ENOUGH_BYTES: Final = 1 << 20
"""Of lines: they fit into the processor's cache."""


class GatheredLines:
    """Lines that the native codec has read. They come into the part by `flush`, in the order in which they were read.

    Whoever adds others to the part flushes before. `part` None: lines are read for their facts alone.
    """

    def __init__(self, part: ParquetPart | None) -> None:
        self._part = part
        self.buffers = LineBuffers()
        self._read: list[tuple[RawObject, int]] = []

    def takes(self, block: Block) -> bool:
        """Return whether the rows of a block are to be read into `buffers`, which have room for them then.

        Raises as `flush`.
        """
        if self._part is not None and block.size > _SMALL_BYTES:
            return False
        if not self.buffers.has_room(block.size):
            self.flush()
        return True

    def add(self, raw_object: RawObject, rows: int) -> None:
        """Note whose rows were read. Raises as `flush`."""
        self._read.append((raw_object, rows))
        if self.buffers.bytes >= _ENOUGH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand all lines to the part. Raises NotSorted as `ParquetPart.add`, and what writing raises."""
        read, self._read = self._read, []
        if self._part is None:
            self.buffers.clear()
        elif read:
            shards = repeated_column([(raw_object.shard_id, rows) for raw_object, rows in read])
            segments = repeated_column([(raw_object.key, rows) for raw_object, rows in read])
            self._part.add(table_of_columns(self.buffers.take(), shards), segments)
