"""The application record: which stream a prefix belongs to, and where its shards start.

Every writer must start a shard at the same record, else two of them hold different first slots and both commit
(docs/decisions/0004-deterministic-start.md). So the start is resolved once, stored beside the archive with
`If-None-Match: *`, and the stored value is what everybody uses.

So is the compression, which is a part of the segments' names (docs/decisions/0028-zstd.md).

The record also ties the prefix to one stream: shard ids repeat between streams, and another stream's ranges
would swallow records.
"""

from typing import Final, NamedTuple

import structlog

from consumer.stream.port import StreamIdentity
from minutebook.compression import Compression
from minutebook.errors import SafetyRefusal
from minutebook.format.coverage_markers import SHARDS
from minutebook.format.keys import application_key
from minutebook.format.markers import ApplicationRecord, decode_marker, encode_marker
from minutebook.owner import check_stream, read_application
from minutebook.store.retrying import RetryingStore

START_MARGIN_MS: Final = 5 * 60_000
"""How far beyond the age of a buffer a start keeps away from the trim horizon, which moves."""
_LEAST_MARGIN_MS: Final = 60 * 60_000
"""So that a record from before the start is still held when the first one behind it is judged."""


class KclStart(NamedTuple):
    """What KCL is given for shards without a lease row: AT_TIMESTAMP in epoch seconds, or TRIM_HORIZON."""

    at_seconds: int | None


def propose_start(
    start: str | int, identity: StreamIdentity, max_segment_age_seconds: float, now_ms: int
) -> int | None:
    """Resolve the setting `minutebook.start` ("oldest", "now" or epoch milliseconds) to epoch milliseconds.

    None means TRIM_HORIZON: right for "oldest" while the stream is younger than its retention, because nothing
    has been trimmed. Later the trim horizon moves, so the start is put inside the retained part, by the age that
    a buffer may reach plus five minutes, and by an hour at least. The result is whole seconds: KCL takes no finer
    timestamp.
    """
    if start == "now":
        return now_ms // 1000 * 1000
    if isinstance(start, int):
        return start // 1000 * 1000
    if now_ms - identity.created_ms < identity.retention_ms:
        return None
    margin_ms = max(_LEAST_MARGIN_MS, int(max_segment_age_seconds * 1000) + START_MARGIN_MS)
    return -(-(now_ms - identity.retention_ms + margin_ms) // 1000) * 1000


def kcl_start(
    record: ApplicationRecord, identity: StreamIdentity, now_ms: int, *, has_timestamp_rows: bool = False
) -> KclStart:
    """Return the initial position to configure KCL with, for one start of a daemon.

    the stored start        a lease row is at AT_TIMESTAMP      none is
    a time still held       that time                           that time
    a time past retention   that time: Kinesis answers it       TRIM_HORIZON: the shards that were open then may not
                            from its trim horizon               be listed any more, and KCL, whose table may be
                                                                empty, would never initialise
    TRIM_HORIZON            the stream's creation               TRIM_HORIZON

    A row keeps the sentinel that it was made with, until its first checkpoint. KCL 3.1.3 takes the time for it from
    its configuration, and where that names none it throws, before any processor is started, for ever
    (IteratorBuilder.java): the shard would be dead, silently.
    """
    is_held = record.start_at_ms is not None and record.begin_ms >= now_ms - identity.retention_ms
    return KclStart(record.begin_ms // 1000 if is_held or has_timestamp_rows else None)


def settle_application(
    store: RetryingStore, prefix: str, identity: StreamIdentity, proposal: ApplicationRecord
) -> ApplicationRecord:
    """Store `proposal` unless a record is there; return the one that is there now, checked against the stream.

    Raises:
        SafetyRefusal: the prefix belongs to another stream, or to one that was deleted and made again; or its record
            is gone.
        FormatError: the stored record does not parse.
        ObjectVanished: it exists for PUT and not for GET.
        StoreUnavailable, StoreRefused: the store.
    """
    stored = read_application(store, prefix)
    if stored is None:
        check_unbegun(store, prefix)
        key = application_key(prefix)
        other = store.put_or_read(key, encode_marker(proposal))
        stored = proposal if other is None else decode_marker(other.body, ApplicationRecord, key)
    check_stream(stored, identity, prefix)
    return stored


def check_unbegun(store: RetryingStore, prefix: str) -> None:
    """Raise SafetyRefusal when the archive was begun, and its record is gone since.

    A new one might name another start or compression, and whoever still goes by the lost one would then hold slots of
    its own. The record is written before any marker: where one is, it is looked for once more.
    """
    if store.first_objects(f"{prefix}{SHARDS}", 1) and read_application(store, prefix) is None:
        raise SafetyRefusal(
            f"{application_key(prefix)} is gone, and shards were begun by it: another start or compression would "
            "archive records twice",
            next_step="restore it from a version of it and find out who deletes objects (lifecycle rule, script); "
            "without a version, use a new prefix",
        )


def warn_of_compression(record: ApplicationRecord, setting: Compression | None) -> None:
    """Report a setting that counts for nothing, because the archive was begun with the other compression."""
    if setting not in {None, record.compression}:
        structlog.get_logger().warning(
            "compression_settled_earlier",
            setting=setting,
            stored=record.compression,
            next_step="the archive keeps the compression it was begun with; use a new prefix for another one",
        )
