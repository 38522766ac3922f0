"""The markers of each shard's start and end, stored beside its segments."""

from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from minutebook.errors import FormatError, ObjectVanished
from minutebook.format.coverage_markers import SHARDS
from minutebook.format.keys import end_marker_key, start_marker_key
from minutebook.format.markers import ApplicationRecord, EndMarker, StartMarker
from minutebook.format.minute import DAY_MS, MINUTE_MS
from minutebook.store.markers import read_marker
from minutebook.store.retrying import RetryingStore

LONGEST_RETENTION_MS: Final = 365 * DAY_MS
"""Kinesis' maximum, 8,760 hours (IncreaseStreamRetentionPeriod, Kinesis API reference)."""
_CHAIN_MARKERS: Final = frozenset({"start.json", "end.json"})
M = TypeVar("M", StartMarker, EndMarker)


class ArchivedShard(NamedTuple):
    """One shard's markers: `start` is written before its first segment, `end` when its end is proven."""

    start: StartMarker | None
    end: EndMarker | None

    def oldest_minute(self, application: ApplicationRecord) -> int:
        """Return a minute before which this shard can have no segment; raises FormatError.

        No record in it arrived before the stream was created, before the application's start (unless a checkpoint
        was adopted), or earlier than Kinesis' longest retention before start.json was written. The stream's present
        retention is no bound: it may have been lowered since. A day is added for clocks.
        """
        if self.start is None:
            return 0
        try:
            written = datetime.fromisoformat(self.start.written_at)
        except ValueError as exc:
            raise FormatError(f"start.json of {self.start.shard}: written_at is not a time") from exc
        bounds = [int(written.timestamp() * 1000) - LONGEST_RETENTION_MS, application.stream_created_ms]
        if application.start_at_ms is not None and self.start.chain_start().adopted is None:
            bounds.append(application.start_at_ms)
        return max(0, (max(bounds) - DAY_MS) // MINUTE_MS)


def read_archived_shards(store: RetryingStore, prefix: str) -> dict[str, ArchivedShard]:
    """Return the markers of every shard whose chain was begun or ended, by shard id.

    One LIST, and one GET per marker, several at once: an archive of some years has thousands of shards.
    """
    folder = f"{prefix}{SHARDS}"
    keys = set(store.keys(folder))
    parts = (key.removeprefix(folder).partition("/") for key in keys)
    shard_ids = sorted({shard_id for shard_id, _, name in parts if name in _CHAIN_MARKERS})

    def read(shard_id: str) -> ArchivedShard:
        return ArchivedShard(
            _read(store, start_marker_key(prefix, shard_id), StartMarker, keys),
            _read(store, end_marker_key(prefix, shard_id), EndMarker, keys),
        )

    return dict(zip(shard_ids, store.read_many(read, shard_ids), strict=True))


def _read(store: RetryingStore, key: str, kind: type[M], listed: set[str]) -> M | None:
    if key not in listed:
        return None
    marker = read_marker(store, key, kind, must_exist=True)
    if marker is None:
        raise ObjectVanished(f"{key} was listed and is gone", next_step="find out who deletes objects")
    return marker
