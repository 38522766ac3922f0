"""Origin of a shard: it existed when the application began, or is a child of a shard that the application knows."""

from typing import NamedTuple

from consumer.evidence.held import record_at
from consumer.services import Services
from consumer.stream.port import ShardInfo
from minutebook.coverage.continuity import judge_birth, unborn_at, was_unborn
from minutebook.format.coverage_markers import SHARDS, FirstShards, first_shards_key
from minutebook.format.keys import end_marker_key
from minutebook.format.markers import ApplicationRecord, EndMarker
from minutebook.format.metadata import Continuity
from minutebook.store.markers import read_marker
from minutebook.store.retrying import RetryingStore


class ShardOrigin(NamedTuple):
    """A shard, its row in ListShards (None: not listed any more), and the application that it belongs to."""

    shard_id: str
    info: ShardInfo | None
    application: ApplicationRecord


def is_child(services: Services, origin: ShardOrigin) -> bool:
    """Return whether the application knows a parent of the shard.

    That a shard has parents is not enough: in a stream that was resharded earlier, every shard has some.
    """
    parents = set() if origin.info is None else set(origin.info.parents)
    if not parents:
        return False
    first = read_first_shards(services.store, services.settings.prefix)
    # An archive begun by a version without that list knows the shards that are listed or have markers.
    named = services.stream.all_shards() if first is None else {shard.shard for shard in first.shards}
    return any(parent in named or _has_marker(services, parent) for parent in parents)


def read_first_shards(store: RetryingStore, prefix: str) -> FirstShards | None:
    """Return the shards that the application began with; None for an archive begun without that list."""
    return read_marker(store, first_shards_key(prefix), FirstShards, must_exist=True)


def prove_birth(services: Services, origin: ShardOrigin) -> Continuity:
    """Return PROVEN if no record of a child can have been trimmed since its birth. Call this after the read."""
    stream = services.stream
    asked_ms = stream.service_ms()
    if asked_ms is None:
        return Continuity.UNPROVEN
    unborn_ms = unborn_at(asked_ms)
    created_ms = origin.application.stream_created_ms
    if created_ms > unborn_ms:
        return judge_birth(asked_ms, unborn_ms=created_ms)
    named_then = stream.all_shards(at_ms=unborn_ms)
    if was_unborn(origin.shard_id, named_then, stream.all_shards(since_ms=unborn_ms)):
        # With a later Date: the responses may have taken long.
        return judge_birth(stream.service_ms() or asked_ms, unborn_ms=unborn_ms)
    is_held = any(_is_end_held(services, parent) for parent in (origin.info.parents if origin.info else ()))
    return Continuity.PROVEN if is_held else Continuity.UNPROVEN


def _has_marker(services: Services, shard_id: str) -> bool:
    return bool(services.store.first_objects(f"{services.settings.prefix}{SHARDS}{shard_id}/", 1))


def _is_end_held(services: Services, parent: str) -> bool:
    """Return whether the stream holds a parent's last record: then it has trimmed none of its children's."""
    key = end_marker_key(services.settings.prefix, parent)
    end = read_marker(services.store, key, EndMarker, must_exist=True)
    last = None if end is None else end.last_position()
    return last is not None and record_at(services, parent, last) is not None
