"""What the archive says of each shard beside its segments: the markers of its start and end."""

from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from archive.errors import FormatError, ObjectVanished
from archive.format.coverage_markers import SHARDS
from archive.format.keys import end_marker_key, start_marker_key
from archive.format.markers import EndMarker, StartMarker, decode_marker
from archive.format.minute import MINUTE_MS
from archive.store.retrying import RetryingStore

_DAY_MS: Final = 86_400_000
_CHAIN_MARKERS: Final = frozenset({"start.json", "end.json"})
M = TypeVar("M", StartMarker, EndMarker)


class ArchivedShard(NamedTuple):
    """One shard's markers: `start` from before its first segment, `end` from when its end was proven."""

    start: StartMarker | None
    end: EndMarker | None

    def oldest_minute(self, retention_ms: int) -> int:
        """Return a minute before which this shard can have no segment; raises FormatError.

        A record is delivered while retention holds it, so the first one was no older than that when start.json was
        written. A day is added for clocks, and for a retention that was shortened since by as much.
        """
        if self.start is None:
            return 0
        try:
            written = datetime.fromisoformat(self.start.written_at)
        except ValueError as exc:
            raise FormatError(f"start.json of {self.start.shard}: written_at is not a time") from exc
        return max(0, (int(written.timestamp() * 1000) - retention_ms - _DAY_MS) // MINUTE_MS)


def read_archived_shards(store: RetryingStore, prefix: str) -> dict[str, ArchivedShard]:
    """Return the markers of every shard whose chain was begun or ended, by shard id: one LIST, one GET per marker.

    Raises:
        FormatError: a marker does not parse; its key is named.
        ObjectVanished: a marker was listed and is gone.
        StoreUnavailable, StoreRefused: the store.
    """
    folder = f"{prefix}{SHARDS}"
    keys = set(store.keys(folder))
    named = (key.removeprefix(folder).partition("/") for key in keys)
    shard_ids = sorted({shard_id for shard_id, _, name in named if name in _CHAIN_MARKERS})
    return {
        shard_id: ArchivedShard(
            _read(store, start_marker_key(prefix, shard_id), StartMarker, keys),
            _read(store, end_marker_key(prefix, shard_id), EndMarker, keys),
        )
        for shard_id in shard_ids
    }


def _read(store: RetryingStore, key: str, kind: type[M], listed: set[str]) -> M | None:
    if key not in listed:
        return None
    found = store.get(key)
    if found is None:
        raise ObjectVanished(f"{key} was listed and is gone", next_step="find out who deletes objects")
    return decode_marker(found.body, kind, key)
