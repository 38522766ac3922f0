"""Markers for batches that KCL skipped by its own log, stored beside the archive: their days stay unknown.

The supervisor kills the daemon at such a line, and the batch is read again. Afterwards it cannot be seen whether a
processor was faster and chained the batch after it. So the marker is stored before the next start of a daemon: what
is committed after that is known to be later.

    line logged, marker stored, daemon started ...... the audit asks the stream about that time (level stream)
    line logged, marker not stored .................. no daemon is started; the error names key and content
    supervisor and daemon die at once ............... the marker is lost: docs/reliability.md names that
"""

import threading
from typing import NamedTuple

import structlog

from minutebook.clock import Clock, IdSource
from minutebook.errors import StoreError
from minutebook.format.coverage_markers import SkippedMarker, encode_coverage_marker, skipped_key
from minutebook.format.document import FORMAT
from minutebook.format.minute import iso_time
from minutebook.store.retrying import RetryingStore

_MOST_CHARACTERS = 2000


class _Line(NamedTuple):
    """A line of the daemon's log, and the writer of its marker: every attempt to store it uses the same key."""

    shard_id: str
    message: str
    at_ms: int
    writer: str


class SkippedBatches:
    """Logged lines whose markers are not stored yet. `note` is called from the thread that reads the daemon's log."""

    def __init__(self, store: RetryingStore, prefix: str, clock: Clock, new_id: IdSource) -> None:
        self._store = store
        self._prefix = prefix
        self._clock = clock
        self._new_id = new_id
        self._lock = threading.Lock()
        self._lines: list[_Line] = []

    def note(self, shard_id: str, message: str) -> None:
        """Remember a line, without any request."""
        line = _Line(shard_id, message[:_MOST_CHARACTERS], self._clock.now_ms(), self._new_id())
        with self._lock:
            self._lines.append(line)

    def store(self) -> None:
        """Store the markers; call it while no daemon lives. The next call retries what was not stored.

        Raises as the store does: no daemon may be started before.
        """
        while True:
            with self._lock:
                line = self._lines[0] if self._lines else None
            if line is None:
                return
            self._put(line)
            with self._lock:
                self._lines.remove(line)

    def _put(self, line: _Line) -> None:
        key = skipped_key(self._prefix, line.shard_id, line.at_ms, line.writer)
        marker = SkippedMarker(
            format=FORMAT,
            shard=line.shard_id,
            logged_at_ms=line.at_ms,
            message=line.message,
            writer=line.writer,
            written_at=iso_time(self._clock.now_ms()),
        )
        body = encode_coverage_marker(marker)
        log = structlog.get_logger().bind(shard=line.shard_id, key=key)
        try:
            self._store.put_if_absent(key, body)
        except StoreError as exc:
            log.error(  # noqa: TRY400 - the store's error explains itself
                "skip_not_recorded",
                error=str(exc),
                content=body.decode(),
                next_step="no daemon is started before this marker is stored; if this task ends without it, put the "
                "content at the key by hand before another one starts: minutebook docs runbook skip_not_recorded",
            )
            raise
        log.warning("skip_recorded", next_step="minutebook audit --level stream says what the archive misses")
