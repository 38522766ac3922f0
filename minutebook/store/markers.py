"""Read the markers of a shard."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from minutebook.format.coverage_markers import AdoptedMarker, FirstShards, OpenedMarker, decode_coverage_marker
from minutebook.format.markers import EndMarker, StartMarker, decode_marker
from minutebook.store.objects import StoredObject
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


def read_marker(store: RetryingStore, key: str, kind: type[M], *, must_exist: bool = False) -> M | None:
    """Return the marker at a key, or None; raises FormatError if it does not parse. `must_exist`: see `read`."""

    def decode(stored: StoredObject) -> M:
        marker: M = _DECODERS[kind](stored.body, kind, key)
        return marker

    return store.read(key, decode, must_exist=must_exist)
