"""The application record: which stream a prefix belongs to, and where its shards start.

Every writer must start a shard at the same record, else two of them hold different first slots and both commit
(docs/decisions/0004-deterministic-start.md). So the start is resolved once, stored beside the archive with
`If-None-Match: *`, and the stored value is what everybody uses.

The record also ties the prefix to one stream: shard ids repeat between streams, and another stream's ranges
would swallow records.
"""

from typing import Final, NamedTuple

from archive.errors import SafetyRefusal
from archive.format.keys import application_key
from archive.format.markers import ApplicationRecord, decode_marker, encode_marker
from archive.store.retrying import RetryingStore
from consumer.stream.port import StreamIdentity

START_MARGIN_MS: Final = 5 * 60_000
"""How far beyond the age of a buffer a start keeps away from the trim horizon, which moves."""


class KclStart(NamedTuple):
    """What KCL is given for shards without a lease row: AT_TIMESTAMP in epoch seconds, or TRIM_HORIZON."""

    at_seconds: int | None


def propose_start(
    start: str | int, identity: StreamIdentity, max_segment_age_seconds: float, now_ms: int
) -> int | None:
    """Resolve the setting `minutebook.start` ("oldest", "now" or epoch milliseconds) to epoch milliseconds.

    None means TRIM_HORIZON: right for "oldest" while the stream is younger than its retention, because nothing
    has been trimmed. Later the trim horizon moves, so the start is put inside the retained part, by the age that
    a buffer may reach plus five minutes. The result is whole seconds: KCL takes no finer timestamp.
    """
    if start == "now":
        return now_ms // 1000 * 1000
    if isinstance(start, int):
        return start // 1000 * 1000
    if now_ms - identity.created_ms < identity.retention_ms:
        return None
    margin_ms = int(max_segment_age_seconds * 1000) + START_MARGIN_MS
    return -(-(now_ms - identity.retention_ms + margin_ms) // 1000) * 1000


def kcl_start(record: ApplicationRecord, identity: StreamIdentity, now_ms: int) -> KclStart:
    """Return the initial position to configure KCL with.

    Once the stored timestamp is older than the retention, TRIM_HORIZON takes its place: the shards that were open
    at an old timestamp may not be listed any more, and KCL would then never initialise.
    """
    if record.start_at_ms is None or record.start_at_ms < now_ms - identity.retention_ms:
        return KclStart(None)
    return KclStart(record.start_at_ms // 1000)


def settle_application(
    store: RetryingStore, prefix: str, identity: StreamIdentity, proposal: ApplicationRecord
) -> ApplicationRecord:
    """Store `proposal` unless a record is there; return the one that is there now, checked against the stream.

    Raises:
        SafetyRefusal: the prefix belongs to another stream, or to one that was deleted and made again.
        FormatError: the stored record does not parse.
        ObjectVanished: it exists for PUT and not for GET.
        StoreUnavailable, StoreRefused: the store.
    """
    stored = read_application(store, prefix)
    if stored is None:
        key = application_key(prefix)
        other = store.put_or_read(key, encode_marker(proposal))
        stored = proposal if other is None else decode_marker(other.body, ApplicationRecord, key)
    check_stream(stored, identity, prefix)
    return stored


def read_application(store: RetryingStore, prefix: str) -> ApplicationRecord | None:
    """Return the stored record, or None. Raises FormatError when it does not parse."""
    key = application_key(prefix)
    found = store.get(key)
    return None if found is None else decode_marker(found.body, ApplicationRecord, key)


def check_stream(record: ApplicationRecord, identity: StreamIdentity, prefix: str) -> None:
    """Raise SafetyRefusal unless the record names this very stream."""
    if record.stream_arn != identity.arn:
        raise SafetyRefusal(
            f"prefix {prefix!r} belongs to the stream {record.stream_arn}, not to {identity.arn}",
            next_step="use a new prefix for this stream: one prefix belongs to one stream",
        )
    if record.stream_created_ms != identity.created_ms:
        raise SafetyRefusal(
            f"prefix {prefix!r} belongs to an earlier stream of the name {record.stream_arn} "
            f"(created at {record.stream_created_ms} ms; the present one at {identity.created_ms} ms)",
            next_step="the stream was deleted and made again: use a new prefix and a new applicationName",
        )
