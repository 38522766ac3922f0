"""The application record: which stream a prefix belongs to, where its shards start, and with which shards it began.

Every writer must start a shard at the same record, else two of them hold different first slots and both commit
(docs/decisions/0004-deterministic-start.md). So the start is resolved once, stored beside the archive with
`If-None-Match: *`, and every writer uses the stored value. The same holds for the compression, which is part of the
segments' names (docs/decisions/0027-zstd.md).

The record also ties the prefix to one stream: shard ids repeat between streams, and another stream's ranges
would swallow records.
"""

from typing import Final, NamedTuple

import structlog

from consumer.stream.port import StreamFacts, StreamIdentity
from minutebook.clock import Clock, IdSource
from minutebook.compression import Compression
from minutebook.coverage.evidence import SURELY_HELD_MS
from minutebook.errors import SafetyRefusal, SettingsError
from minutebook.format.coverage_markers import (
    SHARDS,
    FirstShard,
    FirstShards,
    encode_coverage_marker,
    first_shards_key,
)
from minutebook.format.document import FORMAT
from minutebook.format.keys import application_key
from minutebook.format.markers import ApplicationRecord, decode_marker, encode_marker
from minutebook.format.minute import iso_time
from minutebook.owner import check_stream, read_application
from minutebook.store.retrying import RetryingStore

_START_MARGIN_MS: Final = 5 * 60_000
"""Distance from the moving trim horizon that a start keeps, in addition to the greatest age of a buffer."""
_FAR_AHEAD_MS: Final = 24 * 60 * 60_000
"""A start at the next midnight is meant, and clocks are not all right."""
_LEAST_MARGIN_MS: Final = 60 * 60_000
"""Long enough that Kinesis still holds a record from before the start when the first one after it is judged."""


class KclStart(NamedTuple):
    """KCL's initial position for shards without a lease row: AT_TIMESTAMP in epoch seconds; None: TRIM_HORIZON."""

    at_seconds: int | None


def propose_start(
    start: str | int, identity: StreamIdentity, max_segment_age_seconds: float, now_ms: int
) -> int | None:
    """Resolve the setting `minutebook.start` ("oldest", "now" or epoch milliseconds) to epoch milliseconds.

    None means TRIM_HORIZON: right for "oldest" while the stream is younger than its retention, because nothing
    has been trimmed. Later the trim horizon moves, so the start lies after it by the greatest age of a buffer plus
    five minutes, and by at least an hour. The result is whole seconds: KCL takes no finer timestamp.
    Raises SettingsError for a time more than a day ahead, which mostly has a wrong digit.
    """
    if start == "now":
        return now_ms // 1000 * 1000
    if isinstance(start, int):
        if start > now_ms + _FAR_AHEAD_MS:
            raise SettingsError(
                f"minutebook.start={iso_time(start)} lies more than a day ahead: nothing would be archived until "
                "then, and it is stored for good",
                next_step="correct it, or write now",
            )
        return start // 1000 * 1000
    if now_ms - identity.created_ms < identity.retention_ms:
        return None
    margin_ms = max(_LEAST_MARGIN_MS, int(max_segment_age_seconds * 1000) + _START_MARGIN_MS)
    return -(-(now_ms - identity.retention_ms + margin_ms) // 1000) * 1000


def kcl_start(
    record: ApplicationRecord, identity: StreamIdentity, now_ms: int, *, has_timestamp_rows: bool = False
) -> KclStart:
    """Return the initial position to configure KCL with, for one start of a daemon.

    the stored start        some lease row is at AT_TIMESTAMP   no row is
    a time still retained   that time                           that time
    a time past retention   that time: Kinesis answers it       TRIM_HORIZON: ListShards may no longer name the shards
                            from its trim horizon               that were open then, and with an empty table KCL
                                                                would never initialise
    TRIM_HORIZON            the stream's creation               TRIM_HORIZON

    A row keeps the sentinel that it was created with until its first checkpoint. KCL 3.1.3 takes the time of
    AT_TIMESTAMP from its configuration; without one it throws before every start of the processor
    (IteratorBuilder.java), and nobody reads the shard.
    """
    is_held = record.start_at_ms is not None and record.begin_ms >= now_ms - identity.retention_ms
    return KclStart(record.begin_ms // 1000 if is_held or has_timestamp_rows else None)


def settle_application(
    store: RetryingStore, prefix: str, identity: StreamIdentity, proposal: ApplicationRecord
) -> ApplicationRecord:
    """Store `proposal` unless a record exists; return the stored record, checked against the stream.

    Raises:
        SafetyRefusal: the prefix belongs to another stream, or to one that was deleted and created again; or its
            record is gone.
        FormatError: the stored record does not parse.
        ObjectVanished: it exists for PUT and not for GET.
    """
    record = read_application(store, prefix)
    if record is None:
        check_unbegun(store, prefix)
        key = application_key(prefix)
        other = store.put_or_read(key, encode_marker(proposal))
        record = proposal if other is None else decode_marker(other.body, ApplicationRecord, key)
    check_stream(record, identity, prefix)
    return record


def check_unbegun(store: RetryingStore, prefix: str) -> None:
    """Raise SafetyRefusal if shards were begun but the record is gone.

    A new record might name another start or compression, and a writer that still uses the lost one would commit slots
    of its own. The record is written before any marker, so it is read once more when a marker exists.
    """
    if store.first_objects(f"{prefix}{SHARDS}", 1) and read_application(store, prefix) is None:
        raise SafetyRefusal(
            f"{application_key(prefix)} is gone, and shards were begun by it: another start or compression would "
            "archive records twice",
            next_step="restore it from a version of it and find out who deletes objects (lifecycle rule, script); "
            "without a version, use a new prefix",
        )


def warn_of_compression(record: ApplicationRecord, setting: Compression | None) -> None:
    """Warn that the setting is ignored: the archive was begun with the other compression."""
    if setting not in {None, record.compression}:
        structlog.get_logger().warning(
            "compression_settled_earlier",
            setting=setting,
            stored=record.compression,
            next_step="the archive keeps the compression it was begun with; use a new prefix for another one",
        )


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
    """Store `_shards/first.json` unless it exists: the shards that were open at the application's start, or since.

    Not after ListShards may have dropped a shard that was open at the start: the list would lack it. An archive that
    has markers then goes without the list, and the audit takes the shards from every marker that names one.
    """
    key = first_shards_key(prefix)
    if store.get(key) is not None:
        return
    now_ms = clock.now_ms() if service_ms is None else service_ms
    start_ms = application.start_at_ms
    if now_ms - application.begin_ms >= SURELY_HELD_MS and store.first_objects(f"{prefix}{SHARDS}", 1):
        return
    # Kinesis refuses a time in the future.
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
