"""Where things lie in the fork server's memory, so that its processors come to own less of it.

A fork shares pages, of 4 KiB, until one side writes to them. A processor writes in two ways to pages that hold what
it shares: it counts references to what it uses (Python 3.11 counts those of everything), and what it allocates goes
into holes between what is there. Both are scattered over 60 MB, a few bytes a page. So, before the first fork, the
code that runs is moved together, and the holes are filled.

Nothing depends on it but memory.
"""

import ctypes
import gc
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Final

_POOL_BYTES: Final = 16 << 10
"""Of pymalloc (Objects/obmalloc.c): a pool holds blocks of one size, up to 512 bytes, behind a header."""
_POOL_HEADER_BYTES: Final = 48
_BLOCK_BYTES: Final = range(48, 512 + 1, 16)
_BYTES_HEAD: Final = sys.getsizeof(b"")
_HOLE_BYTES: Final = (65_536, 32_768, 16_384, 8192, 4096, 2048, 1024, 512, 256, 128, 96, 64, 48, 32, 24)
_MOST_BYTES: Final = 1 << 20
"""For each size, whatever the allocator is: the fork server alone has it, once."""
_filling: Final[list[bytes]] = []
_libc: Final = ctypes.CDLL(None)


def move_together(work: Callable[[], None]) -> None:
    """Do `work`, then lay the code of the Python functions that it called side by side, in the order of their calls.

    Each gets an equal copy of its code, which it has not run yet: what the interpreter rewrites in the code while it
    runs comes at the next calls.
    """
    called: dict[int, CodeType] = {}  # by id: equal code may be of another file

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            called.setdefault(id(frame.f_code), frame.f_code)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    functions: dict[int, list[FunctionType]] = {}
    for found in gc.get_objects():
        if type(found) is FunctionType and id(found.__code__) in called:
            functions.setdefault(id(found.__code__), []).append(found)
    for number, code in called.items():
        copy = code.replace()
        for function in functions.get(number, ()):
            function.__code__ = copy


def fill_holes() -> None:
    """Take up the free memory between what is there; what is allocated next lies together behind it.

    Python's own allocator holds small things, the C library the others.
    """
    _fill_heap()
    for size in _BLOCK_BYTES:
        _filling.extend(_fill_pools(size))


def _fill_pools(size: int) -> list[bytes]:
    """Allocate blocks of a size until they fill a fresh pool, in a row: then no other pool had room."""
    kept: list[bytes] = []
    row, most = 1, (_POOL_BYTES - _POOL_HEADER_BYTES) // size
    while row < most and len(kept) * size < _MOST_BYTES:
        kept.append(bytes(size - _BYTES_HEAD))
        here, before = id(kept[-1]), id(kept[-2]) if len(kept) > 1 else 0
        row = row + 1 if here == before + size and here // _POOL_BYTES == before // _POOL_BYTES else 1
    return kept


def _fill_heap() -> None:
    """Allocate from glibc's heap, the largest first, until it grows. Nobody frees it."""
    if not hasattr(_libc, "malloc_trim"):  # another library has another heap
        return
    allocate, end_of_heap = _libc.malloc, _libc.sbrk
    allocate.argtypes, end_of_heap.argtypes = [ctypes.c_size_t], [ctypes.c_ssize_t]
    allocate.restype = end_of_heap.restype = ctypes.c_void_p
    end = end_of_heap(0)
    for size in _HOLE_BYTES:
        for _ in range(_MOST_BYTES // size):
            if (allocate(size) or end) >= end:
                break
