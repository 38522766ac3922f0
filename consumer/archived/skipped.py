"""What KCL's log told of batches that it skipped, kept beside the archive: it holds their days at unknown.

The supervisor kills the daemon at such a line, and the batch is read again. Whether a processor was faster, and
chained what came behind it, nobody can see afterwards. So the marker comes before the next start of a daemon: what
is committed later is known to be later.

    line told, marker stored, daemon started ........ the audit asks the stream about that time (level stream)
    line told, marker not stored .................... no daemon is started; the error names key and content
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


class _Told(NamedTuple):
    """A line of the daemon's, and the writer of its marker: both attempts to store it use the same key."""

    shard_id: str
    message: str
    at_ms: int
    writer: str


class SkippedBatches:
    """The batches that are told and not yet stored. `note` is called from the thread that reads the daemon's log."""

    def __init__(self, store: RetryingStore, prefix: str, clock: Clock, new_id: IdSource) -> None:
        self._store = store
        self._prefix = prefix
        self._clock = clock
        self._new_id = new_id
        self._lock = threading.Lock()
        self._told: list[_Told] = []

    def note(self, shard_id: str, message: str) -> None:
        """Remember a line; nothing is asked of any service."""
        told = _Told(shard_id, message[:_MOST_CHARACTERS], self._clock.now_ms(), self._new_id())
        with self._lock:
            self._told.append(told)

    def store(self) -> None:
        """Store what is told; call it when no daemon lives. What is not stored is tried again by the next call.

        Raises:
            StoreUnavailable, StoreRefused: the store; nothing may be read on before the marker is there.
            FormatError: a line names what is no shard.
        """
        while True:
            with self._lock:
                told = self._told[0] if self._told else None
            if told is None:
                return
            self._put(told)
            with self._lock:
                self._told.remove(told)

    def _put(self, told: _Told) -> None:
        key = skipped_key(self._prefix, told.shard_id, told.at_ms, told.writer)
        marker = SkippedMarker(
            format=FORMAT,
            shard=told.shard_id,
            logged_at_ms=told.at_ms,
            message=told.message,
            writer=told.writer,
            written_at=iso_time(self._clock.now_ms()),
        )
        body = encode_coverage_marker(marker)
        log = structlog.get_logger().bind(shard=told.shard_id, key=key)
        try:
            self._store.put_if_absent(key, body)
        except StoreError as exc:
            log.error(  # noqa: TRY400 - the store's own words say it
                "skip_not_recorded",
                error=str(exc),
                content=body.decode(),
                next_step="no daemon is started before this marker is stored; if this task ends without it, put the "
                "content at the key by hand before another one starts: minutebook docs runbook skip_not_recorded",
            )
            raise
        log.warning("skip_recorded", next_step="minutebook audit --level stream says what the archive misses")
