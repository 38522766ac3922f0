"""The commit: the one conditional PUT that makes a segment exist, and what each answer means.

    PUT If-None-Match:*  200 ............................... committed
                         412, HEAD: writer is ours ......... committed (our own retried PUT won)
                         412, HEAD: another writer ......... already stored: the caller goes on after its `last`
                         412, HEAD: 404 .................... deleted under us: stop
                         412, HEAD: not our metadata ....... a foreign object: stop
                         307 ............................... not applied: the same request to the address it names
                         409, 5xx, throttled, time-out,
                         connection lost ................... unknown: the same bytes to the same key again

Safe to repeat because the key admits one object, and `writer` tells whose it is
(docs/decisions/0003-commit-protocol.md). S3 documents both codes under "conditional writes": 412 when an object
exists, 409 when a delete raced with the write.
"""

from typing import NamedTuple

from minutebook.compression import compression_of
from minutebook.errors import ForeignObject, FormatError, ObjectVanished
from minutebook.format.keys import parse_segment_key
from minutebook.format.metadata import SegmentMetadata, is_ours
from minutebook.retry import Backoff, until_known
from minutebook.store.objects import ObjectHead, ObjectStore, PutOutcome
from minutebook.store.retrying import RetryingStore


class Committed(NamedTuple):
    """The segment exists with our bytes, after `attempts` PUTs."""

    attempts: int


class AlreadyStored(NamedTuple):
    """Another writer's segment is at the slot; `winner` is its metadata."""

    winner: SegmentMetadata


def commit_segment(
    store: ObjectStore, key: str, body: bytes, metadata: SegmentMetadata, backoff: Backoff
) -> Committed | AlreadyStored:
    """Commit one segment at its slot.

    After a crash at any step the slot holds either nothing or exactly one whole segment; the next processor finds
    out by the same request.
    ForeignObject, ObjectVanished and FormatError mean that the slot is in doubt: the caller stops.
    """
    fields, content_type = metadata.encode(), compression_of(key).media_type
    attempts = 0

    def put() -> PutOutcome:
        nonlocal attempts
        attempts += 1
        return store.put_if_absent(key, body, fields, content_type)

    if until_known(put, backoff, f"PUT {key}") is PutOutcome.CREATED:
        return Committed(attempts)
    head = until_known(lambda: store.head(key), backoff, f"HEAD {key}")
    if head is None:
        raise ObjectVanished(
            f"{key} exists for PUT and not for HEAD: it was deleted under us, or hides behind a delete marker",
            next_step="find out who deletes raw objects (lifecycle rule, script); run minutebook doctor",
        )
    winner = segment_metadata(head)
    if winner.writer == metadata.writer:
        return Committed(attempts)
    if (winner.shard_id, winner.minute, winner.first) != (metadata.shard_id, metadata.minute, metadata.first):
        raise FormatError(f"{key} describes another segment than its key", next_step="run minutebook audit")
    return AlreadyStored(winner)


def segment_metadata(head: ObjectHead) -> SegmentMetadata:
    """Read a segment's metadata from its HEAD; raises ForeignObject without ours, FormatError if damaged."""
    if not is_ours(head.metadata):
        raise ForeignObject(
            f"{head.key} is not a segment of Minutebook: its metadata is missing",
            next_step="move the object away; the prefix belongs to Minutebook alone",
        )
    try:
        return SegmentMetadata.decode(head.metadata)
    except FormatError as exc:
        raise FormatError(f"{head.key}: {exc}", next_step=exc.next_step or "run minutebook audit") from exc


def stored_segment(store: RetryingStore, prefix: str, key: str) -> SegmentMetadata:
    """HEAD a listed segment and check that key and metadata agree.

    Raises ObjectVanished if it is gone, ForeignObject or FormatError if it is not what its key says.
    """
    parsed = parse_segment_key(prefix, key)
    head = store.head(key)
    if head is None:
        raise ObjectVanished(
            f"{key} was listed and is gone", next_step="find out who deletes raw objects (lifecycle rule, script)"
        )
    metadata = segment_metadata(head)
    if (metadata.shard_id, metadata.minute, metadata.first) != (parsed.shard_id, parsed.minute, parsed.first):
        raise FormatError(f"{key} describes another segment than its key", next_step="run minutebook audit")
    return metadata
