"""Read JSON payloads into the buffers of Arrow columns in one pass (src/read_documents.c).

The twin is `compaction.columns.payload_columns` with msgspec, which makes an object of each value. A row that may not
fit is left to the twin, which reports the reason.
"""

import ctypes
import enum
import mmap
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from minutebook.codec.columns import Texts
from minutebook.codec.library import native_library

MOST_COLUMNS: Final = 200
"""More are left to the twin: each column has its own memory."""
_KEPT_BYTES: Final = 16 << 20
"""The memory that all columns together keep between blocks."""


class ValueKind(enum.IntEnum):
    """`enum kind` of values.h."""

    TEXT = 0
    TRUTH = 1
    WHOLE = 2
    DOUBLE = 3
    DECIMAL = 4
    DATE = 5
    ZONED_TIME = 6
    LOCAL_TIME = 7
    JSON = 8


_TEXTS: Final = frozenset({ValueKind.TEXT, ValueKind.JSON})


class WantedValues(NamedTuple):
    """The type of a column's values. `width` is in bytes, 0 for texts.

    WHOLE: from `low` to `high`, multiplied by `factor`. DECIMAL: `precision` digits, `scale` of them after the point.
    """

    kind: ValueKind
    width: int = 0
    precision: int = 0
    scale: int = 0
    low: int = 0
    high: int = 0
    factor: int = 1


class WantedColumn(NamedTuple):
    """A column: the keys of its path, and its values, or its elements if it is a list."""

    names: tuple[str, ...]
    values: WantedValues
    is_required: bool = False
    is_list: bool = False
    is_element_required: bool = False


class FoundValues(NamedTuple):
    """Values of a column. `there` has a byte per value, 0 for null; it is empty without nulls."""

    number: int
    there: bytes
    content: bytes | Texts


class FoundColumn(NamedTuple):
    """A column's rows; a list also has 32-bit offsets, one more than rows, and a byte per row, 0 for null."""

    values: FoundValues
    list_offsets: bytes = b""
    list_there: bytes = b""


class FoundColumns(NamedTuple):
    """The columns of some rows. Rows in `left` are null here: the twin must read them."""

    columns: list[FoundColumn]
    left: list[int]


class _Values(ctypes.Structure):
    """`struct values` of values.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("kind", "width", "precision", "scale")),
        *((name, ctypes.c_int64) for name in ("low", "high", "factor")),
        *((name, ctypes.c_void_p) for name in ("there", "numbers", "offsets", "bytes")),
        *((name, ctypes.c_int64) for name in ("count", "most")),
    )


class _Column(ctypes.Structure):
    """`struct column` of read_documents.c."""

    _fields_ = (
        ("values", _Values),
        ("list_offsets", ctypes.c_void_p),
        ("list_there", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("is_list", "is_required", "is_element_required")),
    )


class _Node(ctypes.Structure):
    """`struct node` of read_documents.c."""

    _fields_ = tuple((name, ctypes.c_int32) for name in ("column", "first", "count", "name_at", "name_size"))


class _Wanted(ctypes.Structure):
    """`struct wanted` of read_documents.c."""

    _fields_ = (
        ("nodes", ctypes.c_void_p),
        ("names", ctypes.c_char_p),
        ("columns", ctypes.c_void_p),
        ("columns_count", ctypes.c_int64),
    )


@cache
def _reading(library: ctypes.CDLL) -> Any:  # noqa: ANN401 - ctypes is untyped
    function = library["minutebook_read_documents"]
    function.restype = ctypes.c_int64
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(_Wanted), ctypes.c_void_p]
    return function


class MappedMemory:
    """The buffers that C fills. Pages take memory once they are used, until `give_back`."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []

    def place(self, size: int) -> tuple[memoryview, int]:
        """Return a new buffer and its address; (empty, 0) for size 0."""
        if not size:
            return memoryview(b""), 0
        mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._maps.append(mapped)
        return memoryview(mapped), ctypes.addressof(ctypes.c_char.from_buffer(mapped))

    def give_back(self) -> None:
        """Release the pages of each buffer beyond its share; their content is lost."""
        share = _KEPT_BYTES // max(1, len(self._maps)) // mmap.PAGESIZE * mmap.PAGESIZE
        for mapped in self._maps:
            if len(mapped) > share:
                mapped.madvise(mmap.MADV_DONTNEED, share)


class _ColumnBuffers:
    """The buffers of one column."""

    def __init__(self, wanted: WantedColumn, into: _Column, memory: MappedMemory, rows: int, text_bytes: int) -> None:
        self._wanted = wanted
        self._into = into
        values = wanted.values
        # Each element takes at least a comma and a character.
        most = rows + text_bytes // 2 if wanted.is_list else rows
        self._there, there = memory.place(most)
        self._numbers, numbers = memory.place(0 if values.kind in _TEXTS else most * values.width)
        self._offsets, offsets = memory.place(4 * (most + 1) if values.kind in _TEXTS else 0)
        self._bytes, content = memory.place(text_bytes if values.kind in _TEXTS else 0)
        self._list_offsets, list_offsets = memory.place(4 * (rows + 1) if wanted.is_list else 0)
        self._list_there, list_there = memory.place(rows if wanted.is_list else 0)
        into.values = _Values(*values, there, numbers, offsets, content, 0, most)
        into.list_offsets, into.list_there = list_offsets, list_there
        into.is_list, into.is_required = wanted.is_list, wanted.is_required
        into.is_element_required = wanted.is_element_required

    def copied(self, rows: int) -> FoundColumn:
        """Return a copy of the values."""
        count = self._into.values.count
        there = bytes(self._there[:count])
        values = FoundValues(count, there if 0 in there else b"", self._content(count))
        if not self._wanted.is_list:
            return FoundColumn(values)
        has_list = bytes(self._list_there[:rows])
        return FoundColumn(values, bytes(self._list_offsets[: 4 * (rows + 1)]), has_list if 0 in has_list else b"")

    def _content(self, count: int) -> bytes | Texts:
        if self._wanted.values.kind not in _TEXTS:
            return bytes(self._numbers[: count * self._wanted.values.width])
        ends = self._offsets[: 4 * (count + 1)]
        return Texts(bytes(ends), bytes(self._bytes[: ends.cast("i")[count]]))


class ColumnsOfDocuments:
    """Reads payloads into columns: at most `rows`, with `text_bytes` in total."""

    def __init__(
        self,
        library: ctypes.CDLL,
        wanted: Sequence[WantedColumn],
        rows: int,
        text_bytes: int,
        memory: MappedMemory | None = None,
    ) -> None:
        self._read = _reading(library)
        self._rows, self._text_bytes = rows, text_bytes
        self._memory = memory = memory or MappedMemory()
        self._columns = (_Column * len(wanted))()
        self._buffers = [
            _ColumnBuffers(column, into, memory, rows, text_bytes)
            for column, into in zip(wanted, self._columns, strict=True)
        ]
        self._left, self._left_at = memory.place(rows)
        self._nodes, self._names = _tree([column.names for column in wanted])
        self._wanted = _Wanted(
            ctypes.addressof(self._nodes), self._names, ctypes.addressof(self._columns), len(wanted)
        )

    def read(self, offsets: memoryview, texts_at: int) -> FoundColumns | None:
        """Read the texts at the address `texts_at` between 32-bit `offsets`; None for too many rows or bytes."""
        rows = len(offsets) - 1
        if not 0 < rows <= self._rows or offsets[rows] - offsets[0] > self._text_bytes:
            return None
        begins = ctypes.create_string_buffer(bytes(offsets), 4 * (rows + 1))
        left = self._read(texts_at, ctypes.addressof(begins), rows, self._wanted, self._left_at)
        flags = bytes(self._left[:rows]) if left else b""
        columns = [buffers.copied(rows) for buffers in self._buffers]
        self._memory.give_back()
        return FoundColumns(columns, [row for row, flag in enumerate(flags) if flag])


class _Key:
    """A key in the paths of columns: the column that ends here, or -1, and the keys below."""

    def __init__(self) -> None:
        self.column = -1
        self.children: dict[bytes, _Key] = {}


def _tree(paths: Sequence[tuple[str, ...]]) -> tuple[Any, bytes]:
    """Return the nodes of the paths, with the children of each adjacent, and the names that they point into."""
    root = _Key()
    for number, path in enumerate(paths):
        key = root
        for name in path:
            key = key.children.setdefault(name.encode(), _Key())
        key.column = number
    nodes, names, queue = [_Node(column=root.column)], b"", [root]
    for at, key in enumerate(queue):  # it grows: all children of one key, then those of the next
        nodes[at].first, nodes[at].count = len(nodes), len(key.children)
        for text, child in key.children.items():
            nodes.append(_Node(child.column, 0, 0, len(names), len(text)))
            names += text
            queue.append(child)
    return (_Node * len(nodes))(*nodes), names


def new_columns_of_documents(
    wanted: Sequence[WantedColumn],
    rows: int,
    text_bytes: int,
    library: Callable[[], ctypes.CDLL | None] = native_library,
) -> ColumnsOfDocuments | None:
    """Return a reader of payloads; None without the library, for columns with the same path, or without memory."""
    loaded = library()
    if loaded is None or len(wanted) > MOST_COLUMNS or len({column.names for column in wanted}) < len(wanted):
        return None
    try:
        return ColumnsOfDocuments(loaded, wanted, rows, text_bytes)
    except OSError:  # many lists take gigabytes of address space
        return None
