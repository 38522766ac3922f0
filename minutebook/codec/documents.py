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

MOST_COLUMNS: Final = 500
"""More, with those within structs and lists, are left to the twin: each has its own memory."""
_MISFIT_BYTES: Final = 16
"""`struct misfit` of read_documents.c."""
_MOST_MISFITS: Final = 4
"""The values of a row, on average, that the twin reads alone; with more of them it reads rows."""
_MOST_USUAL: Final = 16
"""`MOST_USUAL` of read_documents.c."""
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

    WHOLE: from `low` to `high`, divided by `divisor` towards the lower one and multiplied by `factor`. DECIMAL:
    `precision` digits, `scale` of them after the point. `takes_text`: WHOLE and DOUBLE numbers may be texts.
    """

    kind: ValueKind
    width: int = 0
    precision: int = 0
    scale: int = 0
    low: int = 0
    high: int = 0
    factor: int = 1
    divisor: int = 1
    takes_text: bool = False


class WantedList(NamedTuple):
    """The elements of lists."""

    element: "Wanted"
    is_element_required: bool = False


class WantedField(NamedTuple):
    """A field of structs."""

    name: str
    wanted: "Wanted"
    is_required: bool = False


class WantedStruct(NamedTuple):
    """The fields of structs; other keys of the objects are passed over."""

    fields: tuple[WantedField, ...]


Wanted = WantedValues | WantedList | WantedStruct


class WantedColumn(NamedTuple):
    """A column: the keys of its path, and what it holds."""

    names: tuple[str, ...]
    wanted: Wanted
    is_required: bool = False


class FoundValues(NamedTuple):
    """Scalars. `there` has a byte per value, 0 for null; it is empty without nulls.

    `leaf` is the number among all columns, also those within others.
    """

    number: int
    there: bytes
    content: bytes | Texts
    leaf: int = 0


class FoundList(NamedTuple):
    """Lists: 32-bit offsets, one more than lists, a byte per list, 0 for null, and the elements.

    `there` is empty without nulls.
    """

    offsets: bytes
    there: bytes
    elements: "Found"


class FoundStruct(NamedTuple):
    """Structs: their number, a byte per struct, 0 for null (empty without nulls), and their fields."""

    number: int
    there: bytes
    fields: list["Found"]


Found = FoundValues | FoundList | FoundStruct


class FoundMisfits(NamedTuple):
    """Values of a leaf that the twin must read, by ascending row: they lie in [begin, end) of all texts."""

    rows: list[int]
    places: list[tuple[int, int]]


class FoundColumns(NamedTuple):
    """The columns of some rows. Rows in `left` are null here: the twin must read them.

    `misfits` are single values that it must read, by leaf: they are null here, and the rest of their rows is not.
    """

    columns: list[Found]
    left: list[int]
    misfits: dict[int, FoundMisfits]


class _Values(ctypes.Structure):
    """`struct values` of values.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("kind", "width", "precision", "scale")),
        *((name, ctypes.c_int64) for name in ("low", "high", "factor", "divisor", "takes_text")),
        *((name, ctypes.c_void_p) for name in ("there", "numbers", "offsets", "bytes")),
        *((name, ctypes.c_int64) for name in ("count", "most")),
    )


class _Form(enum.IntEnum):
    """`enum form` of read_documents.c."""

    SCALAR = 0
    LIST = 1
    STRUCT = 2


class _Column(ctypes.Structure):
    """`struct column` of read_documents.c."""

    _fields_ = (
        ("values", _Values),
        ("list_offsets", ctypes.c_void_p),
        ("there", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("count", "most", "before")),
        *((name, ctypes.c_int32) for name in ("form", "node", "is_required", "is_in_list")),
    )


class _Node(ctypes.Structure):
    """`struct node` of read_documents.c."""

    _fields_ = tuple((name, ctypes.c_int32) for name in ("column", "first", "count", "name_at", "name_size", "usual"))


class _Wanted(ctypes.Structure):
    """`struct wanted` of read_documents.c."""

    _fields_ = (
        ("nodes", ctypes.c_void_p),
        ("names", ctypes.c_char_p),
        ("columns", ctypes.c_void_p),
        ("columns_count", ctypes.c_int64),
        ("top_count", ctypes.c_int64),
        ("misfits", ctypes.c_void_p),
        ("most_misfits", ctypes.c_int64),
    )


@cache
def _reading(library: ctypes.CDLL) -> Any:  # noqa: ANN401 - ctypes is untyped
    function = library["minutebook_read_documents"]
    function.restype = ctypes.c_int64
    function.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.POINTER(_Wanted),
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_int64),
    ]
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


class _ScalarBuffers:
    """The buffers of one column of scalars."""

    def __init__(
        self, leaf: int, values: WantedValues, into: _Column, memory: MappedMemory, most: int, text_bytes: int
    ) -> None:
        self._leaf = leaf
        self._values = values
        self._into = into
        self._there, there = memory.place(most)
        self._numbers, numbers = memory.place(0 if values.kind in _TEXTS else most * values.width)
        self._offsets, offsets = memory.place(4 * (most + 1) if values.kind in _TEXTS else 0)
        self._bytes, content = memory.place(text_bytes if values.kind in _TEXTS else 0)
        into.values = _Values(*values, there, numbers, offsets, content, 0, most)

    def copied(self) -> Found:
        """Return a copy of the values."""
        count = self._into.values.count
        return FoundValues(count, _without_ones(self._there[:count]), self._content(count), self._leaf)

    def _content(self, count: int) -> bytes | Texts:
        if self._values.kind not in _TEXTS:
            return bytes(self._numbers[: count * self._values.width])
        ends = self._offsets[: 4 * (count + 1)]
        return Texts(bytes(ends), bytes(self._bytes[: ends.cast("i")[count]]))


class _ListBuffers:
    """The buffers of one column of lists, and of their elements."""

    def __init__(self, elements: "_Buffers", into: _Column, memory: MappedMemory, most: int) -> None:
        self._elements = elements
        self._into = into
        self._there, into.there = memory.place(most)
        self._offsets, into.list_offsets = memory.place(4 * (most + 1))
        into.form, into.most = _Form.LIST, most

    def copied(self) -> Found:
        """Return a copy of the lists."""
        count = self._into.count
        return FoundList(
            bytes(self._offsets[: 4 * (count + 1)]), _without_ones(self._there[:count]), self._elements.copied()
        )


class _StructBuffers:
    """The buffer of one column of structs, and those of their fields."""

    def __init__(self, fields: "list[_Buffers]", into: _Column, memory: MappedMemory, most: int) -> None:
        self._fields = fields
        self._into = into
        self._there, into.there = memory.place(most)
        into.form, into.most = _Form.STRUCT, most

    def copied(self) -> Found:
        """Return a copy of the structs."""
        count = self._into.count
        return FoundStruct(count, _without_ones(self._there[:count]), [field.copied() for field in self._fields])


_Buffers = _ScalarBuffers | _ListBuffers | _StructBuffers


def _without_ones(there: memoryview) -> bytes:
    """Return bytes of 0 and 1, nothing if all are 1."""
    flags = bytes(there)
    return flags if 0 in flags else b""


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
        tree = _Tree(wanted)
        self._columns = (_Column * len(tree.columns))()
        for at, (column, node) in enumerate(zip(tree.columns, tree.inner, strict=True)):
            self._columns[at].is_required, self._columns[at].node = column.is_required, node
            self._columns[at].is_in_list = tree.leaves[at] is None
        self._buffers = [self._place(tree, at, rows) for at in range(len(wanted))]
        self._left, self._left_at = memory.place(rows)
        self._misfits, misfits_at = memory.place(_MISFIT_BYTES * rows * _MOST_MISFITS)
        self.leaves = tree.leaves
        self._nodes, self._names = tree.nodes(), tree.names
        self._wanted = _Wanted(
            ctypes.addressof(self._nodes),
            self._names,
            ctypes.addressof(self._columns),
            len(tree.columns),
            len(wanted),
            misfits_at,
            rows * _MOST_MISFITS,
        )

    def _place(self, tree: "_Tree", at: int, most: int) -> _Buffers:
        """Give a column and those within it their buffers."""
        wanted, into = tree.columns[at].wanted, self._columns[at]
        if isinstance(wanted, WantedValues):
            return _ScalarBuffers(at, wanted, into, self._memory, most, self._text_bytes)
        if isinstance(wanted, WantedList):
            # Each element takes at least a comma and a character.
            elements = self._place(tree, tree.within[at][0], self._rows + self._text_bytes // 2)
            return _ListBuffers(elements, into, self._memory, most)
        fields = [self._place(tree, field, most) for field in tree.within[at]]
        return _StructBuffers(fields, into, self._memory, most)

    def read(self, offsets: memoryview, texts_at: int) -> FoundColumns | None:
        """Read the texts at the address `texts_at` between 32-bit `offsets`; None for too many rows or bytes."""
        rows = len(offsets) - 1
        if not 0 < rows <= self._rows or offsets[rows] - offsets[0] > self._text_bytes:
            return None
        begins = ctypes.create_string_buffer(bytes(offsets), 4 * (rows + 1))
        number = ctypes.c_int64()
        left = self._read(texts_at, ctypes.addressof(begins), rows, self._wanted, self._left_at, number)
        flags = bytes(self._left[:rows]) if left else b""
        columns = [buffers.copied() for buffers in self._buffers]
        misfits = _by_leaf(self._misfits[: _MISFIT_BYTES * number.value].cast("i"))
        self._memory.give_back()
        return FoundColumns(columns, [row for row, flag in enumerate(flags) if flag], misfits)


def _by_leaf(numbers: memoryview) -> dict[int, FoundMisfits]:
    """Return the misfits of each leaf; four numbers are one, as in read_documents.c."""
    words = numbers.tolist()
    leaves, rows, begins, sizes = (words[at::4] for at in range(4))
    misfits: dict[int, FoundMisfits] = {leaf: FoundMisfits([], []) for leaf in set(leaves)}
    for leaf, row, begin, size in zip(leaves, rows, begins, sizes, strict=True):
        found = misfits[leaf]
        found.rows.append(row)
        found.places.append((begin, begin + size))
    return misfits


class _Key:
    """A key in the paths of columns: the column that ends here, or -1, and the keys below."""

    def __init__(self, column: int = -1) -> None:
        self.column = column
        self.number = -1
        self.children: dict[bytes, _Key] = {}


class _Tree:
    """The keys of paths and structs, and all columns: those of the payload, then those within others.

    `within` are the columns within each, `inner` the node of its elements, or that whose children are its fields.
    `leaves` are the payload's column that each lies in and the fields on the way to it, None within a list.
    """

    def __init__(self, wanted: Sequence[WantedColumn]) -> None:
        self.columns = [*wanted]
        self.leaves: list[tuple[int, tuple[str, ...]] | None] = [(number, ()) for number in range(len(wanted))]
        self.within: dict[int, list[int]] = {}
        self.names = b""
        root = _Key()
        self._roots = [root]
        self._places: dict[int, _Key] = {}
        for number, column in enumerate(wanted):
            key = root
            for name in column.names:
                key = key.children.setdefault(name.encode(), _Key())
            key.column = number
            self._grow(number, key)
        self._listed = self._number()
        self.inner = [self._places[at].number if at in self._places else 0 for at in range(len(self.columns))]

    def _grow(self, number: int, key: _Key) -> None:
        """Add the columns within one."""
        wanted = self.columns[number].wanted
        if isinstance(wanted, WantedList):
            element = _Key()
            self._roots.append(element)
            self._places[number] = element
            self._add(number, element, wanted.element, None, is_required=wanted.is_element_required)
        elif isinstance(wanted, WantedStruct):
            self._places[number] = key
            for field in wanted.fields:
                child = key.children.setdefault(field.name.encode(), _Key())
                at = self.leaves[number]
                leaf = None if at is None else (at[0], (*at[1], field.name))
                self._add(number, child, field.wanted, leaf, is_required=field.is_required)

    def _add(
        self, holder: int, key: _Key, wanted: Wanted, leaf: tuple[int, tuple[str, ...]] | None, *, is_required: bool
    ) -> None:
        key.column = len(self.columns)
        self.within.setdefault(holder, []).append(key.column)
        self.columns.append(WantedColumn((), wanted, is_required))
        self.leaves.append(leaf)
        self._grow(key.column, key)

    def _number(self) -> list[tuple[bytes, _Key]]:
        """Number the keys, so that the children of each are adjacent."""
        listed = [(b"", key) for key in self._roots]
        for at, (_, key) in enumerate(listed):  # it grows: all children of one key, then those of the next
            key.number = at
            listed += key.children.items()
        return listed

    def nodes(self) -> Any:  # noqa: ANN401 - an array of ctypes
        """Return the nodes in C, which point into `names`."""
        nodes = (_Node * len(self._listed))()
        objects = 0
        for at, (name, key) in enumerate(self._listed):
            first = next((child.number for child in key.children.values()), 0)
            is_usual = bool(key.children) and objects < _MOST_USUAL
            nodes[at] = _Node(
                key.column, first, len(key.children), len(self.names), len(name), objects if is_usual else -1
            )
            objects += is_usual
            self.names += name
        return nodes


def count_columns(wanted: Wanted) -> int:
    """Count a column and those within it."""
    if isinstance(wanted, WantedList):
        return 1 + count_columns(wanted.element)
    if isinstance(wanted, WantedStruct):
        return 1 + sum(count_columns(field.wanted) for field in wanted.fields)
    return 1


def _is_apart(wanted: Sequence[WantedColumn]) -> bool:
    """Return whether no path is another's, or leads into a struct or list of another column."""
    whole = {column.names for column in wanted if not isinstance(column.wanted, WantedValues)}
    below = {column.names[:size] for column in wanted for size in range(len(column.names))}
    return len({column.names for column in wanted}) == len(wanted) and not whole & below


def new_columns_of_documents(
    wanted: Sequence[WantedColumn],
    rows: int,
    text_bytes: int,
    library: Callable[[], ctypes.CDLL | None] = native_library,
) -> ColumnsOfDocuments | None:
    """Return a reader of payloads; None without the library, for paths that meet, or without memory."""
    loaded = library()
    if (
        loaded is None
        or sum(count_columns(column.wanted) for column in wanted) > MOST_COLUMNS
        or not _is_apart(wanted)
    ):
        return None
    try:
        return ColumnsOfDocuments(loaded, wanted, rows, text_bytes)
    except OSError:  # many lists take gigabytes of address space
        return None
