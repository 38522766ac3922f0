"""The state of each shard that this worker reads, from its processors' lines and from the lease table.

The time of the oldest received record that is not archived survives the death of a processor or of the daemon,
because the record still waits. It is dropped when the archive has passed it, or when the shard is another worker's.
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from consumer.child_logs.processor_log import COMMITTED, LEFT, OPENED, ProcessorEvent
from minutebook.clock import Clock

PROGRESS: Final = "progress"
_FRESH_SECONDS: Final = 60.0
"""The longest read of a large lease table."""


class ShardView(NamedTuple):
    """One shard at one time; None: not known. Times are epoch milliseconds.

    `oldest_ms`: arrival of the oldest received record that is not archived. `waits_seconds`: since the last commit
    while such a record exists. `silent_seconds`: since its processor's last line, None without a processor.
    `stream_behind_ms`: the distance of the daemon's last read from the stream's tip.
    """

    shard: str
    oldest_ms: int | None
    waits_seconds: float | None
    silent_seconds: float | None
    buffer_bytes: int
    last_commit_ms: int | None
    covered_until_ms: int | None
    stream_behind_ms: int | None


@dataclass(slots=True)
class _Shard:
    oldest_ms: int | None = None
    lost_ms: int | None = None
    """The oldest record that a dead processor held, until the archive has passed it."""
    waits_since: float | None = None
    heard_at: float | None = None
    buffer_bytes: int = 0
    last_commit_ms: int | None = None
    covered_until_ms: int | None = None
    stream_behind_ms: int | None = None
    pid: int = 0
    """That of the processor that opened it last; 0: none has."""


class WatchedShards:
    """The shards of one worker. Every method may be called from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._shards: dict[str, _Shard] = {}

    def note(self, event: ProcessorEvent) -> None:
        """Take a line of a processor; lines without a shard are ignored."""
        if not event.shard:
            return
        with self._lock:
            if event.event == OPENED:
                self._shards.setdefault(event.shard, _Shard()).pid = event.pid
            shard = self._shards.get(event.shard)
            if shard is None:
                return
            if event.event in LEFT:
                if shard.pid in {0, event.pid}:  # else one that hung while this worker opened the shard anew
                    del self._shards[event.shard]
                return
            shard.heard_at = self._clock.monotonic()
            if event.covered_until_ms is not None:
                shard.covered_until_ms = event.covered_until_ms
            if event.event == PROGRESS:
                self._take_progress(shard, event)
            elif event.event == COMMITTED:
                shard.last_commit_ms = self._clock.now_ms()
                shard.buffer_bytes = 0
                shard.lost_ms = None
                # The next progress line tells whether more records wait.
                shard.waits_since = None if shard.oldest_ms is None else shard.heard_at

    def _take_progress(self, shard: _Shard, event: ProcessorEvent) -> None:
        """Ignore redelivered records before the one that a dead processor held, and empty calls before it."""
        shard.buffer_bytes = event.buffer_bytes
        if event.behind_ms is not None:
            shard.stream_behind_ms = event.behind_ms
        if shard.lost_ms is not None and not _has_passed(shard.lost_ms, event):
            return
        shard.lost_ms = None
        if event.oldest_ms is None:
            shard.waits_since = None
        elif shard.oldest_ms is None or shard.waits_since is None or event.oldest_ms > shard.oldest_ms:
            shard.waits_since = shard.heard_at
        shard.oldest_ms = event.oldest_ms

    def daemon_ended(self) -> None:
        """Note that no processor lives, and that their buffers are lost."""
        with self._lock:
            for shard in self._shards.values():
                shard.heard_at, shard.buffer_bytes = None, 0
                shard.lost_ms = shard.oldest_ms

    def leased(self, shards: Collection[str]) -> None:
        """Keep the shards whose leases this worker owns, and those whose processors logged a moment ago.

        The table may have been read before the leases of the latter were taken.
        """
        with self._lock:
            now = self._clock.monotonic()
            fresh = {
                name
                for name, shard in self._shards.items()
                if shard.heard_at is not None and now - shard.heard_at < _FRESH_SECONDS
            }
            self._shards = {name: self._shards.get(name) or _Shard() for name in sorted(fresh.union(shards))}

    def views(self) -> list[ShardView]:
        """Return the present state of all shards, in the order of their names."""
        with self._lock:
            now = self._clock.monotonic()
            return [
                ShardView(
                    name,
                    shard.oldest_ms,
                    None if shard.waits_since is None else now - shard.waits_since,
                    None if shard.heard_at is None else now - shard.heard_at,
                    shard.buffer_bytes,
                    shard.last_commit_ms,
                    shard.covered_until_ms,
                    shard.stream_behind_ms,
                )
                for name, shard in sorted(self._shards.items())
            ]


def _has_passed(lost_ms: int, event: ProcessorEvent) -> bool:
    """Return whether a new processor has passed a record: it holds only later ones, or none at the stream's tip."""
    return event.behind_ms == 0 if event.oldest_ms is None else event.oldest_ms > lost_ms
