"""Memory given back: a processor that took a large batch is soon as small as before.

Freed memory stays with the allocator, in holes between what lives. malloc_trim(3) gives whole pages of such holes
back to the kernel; glibc does it by itself only at the heap's end.
"""

import ctypes
import os
from pathlib import Path
from typing import Final

from archive.clock import Clock
from consumer.pipe.messages import Initialize, LeaseLost
from consumer.processor.protocol import Batch, Processor, ShutdownInput

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


class Thrifty:
    """A processor that gives memory back between two calls, where it has grown by a few MB."""

    version = 3

    def __init__(self, processor: Processor, clock: Clock) -> None:
        self._processor = processor
        self._clock = clock
        self._looked_at = clock.monotonic()
        self._least = resident_bytes()

    def initialize(self, initialize_input: Initialize) -> None:
        """Pass it on."""
        self._processor.initialize(initialize_input)

    def process_records(self, process_records_input: Batch) -> None:
        """Pass it on, then look at the memory, now and then."""
        self._processor.process_records(process_records_input)
        now = self._clock.monotonic()
        if now - self._looked_at < _EVERY_SECONDS:
            return
        self._looked_at = now
        if resident_bytes() > self._least + _GROWN_BYTES:
            give_back()
            self._least = resident_bytes()

    def lease_lost(self, lease_lost_input: LeaseLost) -> None:
        """Pass it on."""
        self._processor.lease_lost(lease_lost_input)

    def shard_ended(self, shard_ended_input: ShutdownInput) -> None:
        """Pass it on."""
        self._processor.shard_ended(shard_ended_input)

    def shutdown_requested(self, shutdown_requested_input: ShutdownInput) -> None:
        """Pass it on."""
        self._processor.shutdown_requested(shutdown_requested_input)


def resident_bytes() -> int:
    """Return what of this process is in memory, shared pages too (proc(5), statm)."""
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


def give_back() -> None:
    """Give free pages to the kernel; nothing happens where the C library cannot."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
