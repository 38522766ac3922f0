"""Event ids that an hour's task stores, so that the night need not read the hour's lines again.

    dt=D/_hours/HH/_gen-G/_ids/<task>-<random>.parquet    object | digest | line | last, as in `event_ids.rows`

`object` is an index among the task's objects, whose numbers are known only at night. The task's facts name the file,
the path of the id, the rows and the digest of the file (`compaction.tasks.finished`); if anything differs, the lines
are read.
"""

import hashlib
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from compaction.event_ids.rows import DIGEST_BYTES, ROW_BYTES, IdCollector, IdOrder, Rows
from compaction.parquet.fetching import local_copy
from compaction.parquet.plan import Task
from compaction.parquet.rows import PARQUET_TYPE
from minutebook.clock import new_id
from minutebook.errors import FormatError
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import ObjectChanged, Sink

IDS_FOLDER: Final = "_ids/"
_VERSION: Final = "ids-1"
"""Version of the file format, and of what counts as an id (`minutebook.format.payload`)."""
_SCHEMA: Final = pa.schema(
    [("object", pa.int32()), ("digest", pa.binary(DIGEST_BYTES)), ("line", pa.uint32()), ("last", pa.int64())]
)
GROUP_BYTES: Final = 8 << 20
"""Bytes of rows in a row group."""
_WORDS: Final = ROW_BYTES // 4
_NUMBER, _LINE, _LAST = 4, 5, 3
"""The index of a row's number and line, in words of 4 bytes, and of its last field, in words of 8."""


class CachedIds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of ids. `without`: number of lines without an id, for each object of the task."""

    version: str
    expression: str
    key: str
    rows: int
    sha256: str
    without: tuple[int, ...]


class Keeper(NamedTuple):
    """Collects the ids of a task's lines into a file."""

    collector: IdCollector
    file: "IdsFile"

    def close(self) -> CachedIds:
        """Finish the file and return its description."""
        return self.file.close(self.collector.finish())


@contextmanager
def keeping_ids(
    out: RetryingStorage, folder: str, task: Task, expression: str, group_bytes: int = GROUP_BYTES
) -> Iterator[Keeper | None]:
    """Store the ids of a task that are collected in the block (None: no `expression`). On errors no file is left."""
    if not expression:
        yield None
        return
    key = f"{folder}{IDS_FOLDER}{task.number:05d}-{new_id()[:12]}.parquet"
    file = IdsFile(out.open_write(key, PARQUET_TYPE), key, expression, group_bytes)
    keys = [raw_object.key for raw_object in task.objects]
    try:
        yield Keeper(IdCollector(IdOrder(expression, 0, 1), keys, keep=file.add), file)
    except BaseException:  # also KeyboardInterrupt
        file.abort()
        raise


class IdsFile:
    """A file of ids that grows object by object; memory is one row group."""

    def __init__(self, sink: Sink, key: str, expression: str, group_bytes: int) -> None:
        self._sink = sink
        self._key = key
        self._expression = expression
        self._group_bytes = group_bytes
        self._digest = hashlib.sha256()
        self._rows = bytearray()
        self._count = 0
        self._writer = pq.ParquetWriter(
            pa.PythonFile(_Hashing(sink, self._digest), mode="w"),
            _SCHEMA,
            compression="zstd",
            use_dictionary=["object"],
            column_encoding={"digest": "PLAIN", "line": "DELTA_BINARY_PACKED", "last": "DELTA_BINARY_PACKED"},
        )

    def add(self, rows: Rows) -> None:
        """Append rows, whose numbers are indexes of objects."""
        self._rows += rows
        if len(self._rows) >= self._group_bytes:
            self._write()

    def close(self, without: Sequence[int]) -> CachedIds:
        """Finish the file and return its description."""
        self._write()
        self._writer.close()
        self._sink.close()
        digest = self._digest.hexdigest()
        return CachedIds(_VERSION, self._expression, self._key, self._count, digest, tuple(without))

    def abort(self) -> None:
        """Discard the file: nothing is stored."""
        self._sink.abort()
        self._writer.is_open = False  # otherwise it writes a footer when it is garbage-collected

    def _write(self) -> None:
        table = _table(self._rows)
        self._count += table.num_rows
        self._rows.clear()
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)


class _Hashing:
    """A sink that hashes the bytes written to it."""

    def __init__(self, sink: Sink, digest: "hashlib._Hash") -> None:
        self._sink = sink
        self._digest = digest
        self.closed = False

    def write(self, data: bytes) -> int:
        """Append."""
        self._digest.update(data)
        return self._sink.write(data)

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Leave the sink open; `IdsFile` closes it."""
        self.closed = True


def take_ids(out: RetryingStorage, kept: CachedIds, ids: IdCollector, keys: Sequence[str], expression: str) -> bool:
    """Collect the ids that an hour's task has stored; return False if there are none and the lines must be read.

    Raises:
        FormatError: some ids were collected, and the rest of the file is invalid.
    """
    if (kept.version, kept.expression, len(kept.without)) != (_VERSION, expression, len(keys)):
        return False
    try:
        with local_copy(out, kept.key) as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != kept.sha256:  # type: ignore[arg-type]
                return False
            file.seek(0)
            _collect(file, kept, ids, keys)
    except ObjectChanged:
        return False
    return True


def _collect(file: IO[bytes], kept: CachedIds, ids: IdCollector, keys: Sequence[str]) -> None:
    try:
        stored = pq.ParquetFile(file)
        if not stored.schema_arrow.equals(_SCHEMA) or stored.metadata.num_rows != kept.rows:
            raise FormatError(f"{kept.key} holds something else than ids")
        for group in range(stored.num_row_groups):
            for place, rows in _rows(stored.read_row_group(group)):
                ids.take(keys[place], rows)
    except (pa.ArrowException, IndexError) as exc:
        raise FormatError(f"{kept.key}: {exc}") from exc
    for key, count in zip(keys, kept.without, strict=True):
        ids.pass_over(key, count)


def _table(rows: bytearray) -> pa.Table:
    """Return rows as columns, by strided copies of their bytes."""
    count = len(rows) // ROW_BYTES
    words, doubles = memoryview(rows).cast("I"), memoryview(rows).cast("Q")
    digests = bytearray(count * DIGEST_BYTES)
    view = memoryview(digests).cast("Q")
    view[0::2], view[1::2] = doubles[0::4], doubles[1::4]
    columns = [
        pa.Array.from_buffers(pa.int32(), count, [None, _swapped(words[_NUMBER::_WORDS].tobytes(), "I")]),
        pa.Array.from_buffers(pa.binary(DIGEST_BYTES), count, [None, pa.py_buffer(digests)]),
        pa.Array.from_buffers(pa.uint32(), count, [None, _swapped(words[_LINE::_WORDS].tobytes(), "I")]),
        pa.Array.from_buffers(pa.int64(), count, [None, _swapped(doubles[_LAST::4].tobytes(), "Q")]),
    ]
    for view_of in (words, doubles, view):
        view_of.release()
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _rows(table: pa.Table) -> Iterator[tuple[int, bytearray]]:
    """Yield each object's index and rows, without their numbers."""
    digests, lines, last = (_bytes_of(table[name]) for name in ("digest", "line", "last"))
    begin = 0
    for run in pc.value_counts(table["object"].combine_chunks()).to_pylist():
        count = run["counts"]
        rows = bytearray(count * ROW_BYTES)
        words, doubles = memoryview(rows).cast("I"), memoryview(rows).cast("Q")
        found = memoryview(digests[begin * DIGEST_BYTES : (begin + count) * DIGEST_BYTES]).cast("Q")
        doubles[0::4], doubles[1::4] = found[0::2], found[1::2]
        words[_LINE::_WORDS] = memoryview(_swapped(lines[begin * 4 : (begin + count) * 4], "I")).cast("I")
        doubles[_LAST::4] = memoryview(_swapped(last[begin * 8 : (begin + count) * 8], "Q")).cast("Q")
        words.release()
        doubles.release()
        yield run["values"], rows
        begin += count


def _bytes_of(column: pa.ChunkedArray) -> pa.Buffer:
    whole = column.combine_chunks()
    width = whole.type.bit_width // 8
    return whole.buffers()[1][whole.offset * width : (whole.offset + len(whole)) * width]


def _swapped(data: bytes | pa.Buffer, code: str) -> pa.Buffer:
    """Convert numbers between big-endian, as in rows, and the machine's byte order."""
    numbers = array(code)
    numbers.frombytes(data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return pa.py_buffer(numbers)
