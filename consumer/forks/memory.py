"""Memory given back: a processor that took a large batch is soon as small as before.

Freed memory stays with the allocator, in holes between what lives. malloc_trim(3) gives whole pages of such holes
back to the kernel; glibc does it by itself only at the heap's end.
"""

import ctypes
import os
from pathlib import Path
from typing import Final

from minutebook.clock import Clock

ENVIRONMENT: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(512 << 10),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 20),
}
"""For glibc (mallopt(3)). Without the threshold, one large block that is freed makes the next ones part of the heap,
whose holes stay. Both are above what a piece of a batch takes at once (`consumer.pipe.messages.PIECE_BYTES`, its
records and lines): were they below, memory would be mapped and unmapped with each, a fifth of a processor's time in
page faults.
One arena: a second one is for threads, of which a processor has none that allocate much."""
_EVERY_SECONDS: Final = 5.0
_GROWN_BYTES: Final = 2 << 20
_STATM: Final = Path("/proc/self/statm")
_libc: Final = ctypes.CDLL(None)


class MemoryThrift:
    """Gives a processor's free memory back, when it has grown by a few MB."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_at = clock.monotonic()
        self._least = resident_bytes()

    def after_batch(self) -> None:
        """Look at the memory, every few seconds."""
        now = self._clock.monotonic()
        if now - self._looked_at < _EVERY_SECONDS:
            return
        self._looked_at = now
        if resident_bytes() > self._least + _GROWN_BYTES:
            give_back()
            self._least = resident_bytes()


def resident_bytes() -> int:
    """Return what of this process is in memory, shared pages too (proc(5), statm)."""
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


def give_back() -> None:
    """Give free pages to the kernel; nothing happens where the C library cannot."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
