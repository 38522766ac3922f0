"""Return freed memory to the kernel, so that a processor is soon as small as before a large batch.

Freed memory stays in holes of the allocator's heap. malloc_trim(3) returns whole pages of such holes; glibc by itself
only trims the end of the heap.
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
"""For glibc (mallopt(3)). With a floating threshold, glibc would put large blocks into the heap once one is freed,
and the heap's holes stay. Both thresholds are above what a piece of a batch allocates (`PIECE_BYTES` of
`consumer.pipe.messages`, its records and lines), else memory would be mapped and unmapped for each piece, and a
fifth of a processor's time spent in page faults. One arena: no second thread of a processor allocates much."""
_EVERY_SECONDS: Final = 5.0
_GROWN_BYTES: Final = 2 << 20
_STATM: Final = Path("/proc/self/statm")
_libc: Final = ctypes.CDLL(None)


class MemoryThrift:
    """Trims a processor's heap when the process has grown by 2 MB."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._checked_at = clock.monotonic()
        self._trimmed_bytes = resident_bytes()

    def after_batch(self) -> None:
        """Check the memory, at most every five seconds."""
        now = self._clock.monotonic()
        if now - self._checked_at < _EVERY_SECONDS:
            return
        self._checked_at = now
        if resident_bytes() > self._trimmed_bytes + _GROWN_BYTES:
            give_back()
            self._trimmed_bytes = resident_bytes()


def resident_bytes() -> int:
    """Return the process's resident memory, shared pages included (proc(5), statm)."""
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


def give_back() -> None:
    """Return free pages to the kernel, if the C library can."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
