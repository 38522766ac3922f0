"""Where each column has its first value: what a finding about a column's type points at."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from compaction.typed.counts import First, place


class FirstValues:
    """Keeps the first row with a value of so many columns. Lines of one arrival are taken in their order."""

    def __init__(self, columns: int) -> None:
        self._firsts: list[First | None] = [None] * columns

    def look(self, lines: pa.Table, begin: int, arrays: Sequence[pa.Array]) -> None:
        """Look at the columns of the lines that come after `begin`."""
        if not arrays or not len(arrays[0]):
            return
        arrivals = _arrivals(lines, begin, len(arrays[0]))
        low = pc.min(arrivals).as_py()
        for index, array in enumerate(arrays):
            known = self._firsts[index]
            if array.null_count == len(array) or (known is not None and known.arrival_ms < low):
                continue
            valid = arrivals if not array.null_count else pc.if_else(pc.is_valid(array), arrivals, None)
            first_ms = pc.min(valid).as_py()
            found = First(first_ms, *place(lines, begin + pc.index(valid, first_ms).as_py()))
            if known is None or found < known:
                self._firsts[index] = found

    def found(self) -> tuple[First | None, ...]:
        """Return them, in the columns' order."""
        return tuple(self._firsts)


def _arrivals(lines: pa.Table, begin: int, count: int) -> pa.Array:
    """Return the arrivals in milliseconds, of lines and of rows as a file has them."""
    is_row = "arrival_time" in lines.schema.names
    part = lines["arrival_time" if is_row else "arrival_ms"].slice(begin, count).combine_chunks()
    return pc.divide(part.cast(pa.int64()), 1000) if is_row else part
