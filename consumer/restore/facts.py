"""Read what `minutebook restore` needs of the archive and the stream for its plan."""

from collections.abc import Mapping

from consumer.archived.application import kcl_start
from consumer.archived.chain_ends import AHEAD_MINUTES, find_ends
from consumer.archived.shard_markers import read_archived_shards
from consumer.restore.plan import RestoreFacts
from consumer.stream.port import ShardInfo, StreamIdentity
from minutebook.errors import SafetyRefusal
from minutebook.format.minute import MINUTE_MS
from minutebook.owner import check_stream, read_application
from minutebook.store.retrying import RetryingStore


def gather_facts(
    store: RetryingStore,
    prefix: str,
    identity: StreamIdentity,
    shards: Mapping[str, ShardInfo],
    *,
    now_ms: int,
    as_of_ms: int | None,
) -> RestoreFacts:
    """Read the application record, the markers and the ends of the chains of `shards`.

    With `as_of_ms`, only minutes that were over by then are read, as if the archive ended there.

    Raises:
        SafetyRefusal: the prefix holds no archive, or that of another stream.
        ForeignObject, FormatError, ObjectVanished: an object is not what its key says.
    """
    record = read_application(store, prefix)
    if record is None:
        raise SafetyRefusal(
            f"no archive begins at prefix {prefix!r}: there is nothing to restore from",
            next_step="correct minutebook.bucket and minutebook.prefix; a new application needs no restore",
        )
    check_stream(record, identity, prefix)
    archived = read_archived_shards(store, prefix)
    newest = now_ms // MINUTE_MS + AHEAD_MINUTES if as_of_ms is None else as_of_ms // MINUTE_MS - 1
    searched = {
        shard_id: archived[shard_id].oldest_minute(record)
        for shard_id in shards.keys() & archived.keys()
        if archived[shard_id].start is not None and (as_of_ms is not None or archived[shard_id].end is None)
    }
    return RestoreFacts(
        shards=shards,
        archived=archived,
        ends=find_ends(store, prefix, searched, newest),
        start=kcl_start(record, identity, now_ms),
        oldest_held_ms=now_ms - identity.retention_ms,
        as_of=as_of_ms is not None,
    )
