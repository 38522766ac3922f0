"""The markers of shards beside the segments, read one by one: by who writes a shard, and by who judges it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from minutebook.format.coverage_markers import AdoptedMarker, FirstShards, OpenedMarker, decode_coverage_marker
from minutebook.format.markers import EndMarker, StartMarker, decode_marker
from minutebook.store.retrying import RetryingStore

Marker = FirstShards | StartMarker | OpenedMarker | AdoptedMarker | EndMarker
M = TypeVar("M", bound=Marker)
_DECODERS: Final[Mapping[type, Callable[[bytes, Any, str], Any]]] = {
    StartMarker: decode_marker,
    EndMarker: decode_marker,
    FirstShards: decode_coverage_marker,
    OpenedMarker: decode_coverage_marker,
    AdoptedMarker: decode_coverage_marker,
}


def read_marker(store: RetryingStore, key: str, kind: type[M]) -> M | None:
    """Return the marker at a key; None where there is none.

    Raises:
        FormatError: it does not parse; `key` is named.
        StoreUnavailable, StoreRefused: the store.
    """
    stored = store.get(key)
    if stored is None:
        return None
    marker: M = _DECODERS[kind](stored.body, kind, key)
    return marker
