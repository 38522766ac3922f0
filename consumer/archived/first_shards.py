"""The list of the shards that an application began with, beside the archive: which shards an audit must ask for."""

import structlog

from consumer.stream.port import StreamFacts
from minutebook.clock import Clock, IdSource
from minutebook.coverage.evidence import SURELY_HELD_MS
from minutebook.format.coverage_markers import (
    SHARDS,
    FirstShard,
    FirstShards,
    encode_coverage_marker,
    first_shards_key,
)
from minutebook.format.document import FORMAT
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import iso_time
from minutebook.store.retrying import RetryingStore


def settle_first_shards(
    store: RetryingStore,
    prefix: str,
    stream: StreamFacts,
    application: ApplicationRecord,
    clock: Clock,
    new_id: IdSource,
    *,
    service_ms: int | None,
) -> None:
    """Store `_shards/first.json` unless it is there: the shards that were open at the application's start, or since.

    Once a shard that was open at the start may have left ListShards, the list would lack it. An archive that has
    markers then goes without: who judges it takes the union of all that names shards.

    Raises:
        StoreUnavailable, StoreRefused, StreamUnavailable, StreamRefused: a service.
    """
    key = first_shards_key(prefix)
    if store.get(key) is not None:
        return
    now_ms = clock.now_ms() if service_ms is None else service_ms
    start_ms = application.start_at_ms
    if now_ms - application.begin_ms >= SURELY_HELD_MS and store.first_objects(f"{prefix}{SHARDS}", 1):
        return
    # Kinesis refuses a time that lies ahead.
    shards = stream.all_shards(since_ms=None if start_ms is None else min(start_ms, now_ms))
    marker = FirstShards(
        format=FORMAT,
        shards=[
            FirstShard(
                shard=shard.shard_id,
                starting_hash_key=shard.starting_hash_key,
                ending_hash_key=shard.ending_hash_key,
                parents=list(shard.parents),
            )
            for _, shard in sorted(shards.items())
        ],
        writer=new_id(),
        written_at=iso_time(clock.now_ms()),
    )
    store.put_if_absent(key, encode_coverage_marker(marker))
    structlog.get_logger().info("first_shards_settled", shards=len(marker.shards))
