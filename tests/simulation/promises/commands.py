"""What is promised of `minutebook restore` and `minutebook expire`: how they end, each row, and each deletion."""

from typing import TYPE_CHECKING, Final

from minutebook.errors import ObjectVanished, SafetyRefusal, StoreUnavailable, StreamUnavailable, TableUnavailable
from minutebook.format.keys import parse_segment_key
from minutebook.format.position import Position
from tests.fakes.daemon_double import SHARD_END
from tests.simulation.services.bucket import PREFIX, SIDE_OBJECTS
from tests.simulation.services.kinesis import HOUR
from tests.simulation.services.lease_rows import SimLeaseTable
from tests.simulation.world import Violation, name

if TYPE_CHECKING:
    from tests.simulation.histories.command_runs import CommandRun
    from tests.simulation.histories.sharded_history import ShardedHistory

_PASSING: Final = (StoreUnavailable, StreamUnavailable, TableUnavailable)


def judge_restore(command_run: "CommandRun", table: SimLeaseTable, tails: dict[int, int]) -> None:
    """Judge a `restore` that has ended; `tails` are the last archived records of each shard when it began.

    Raises:
        Violation: it failed without cause, or lets a shard begin before the end of its chain.
    """
    history, error = command_run.history, command_run.error
    if isinstance(error, Violation):
        raise error
    if error is not None:
        changed = history.lease_changes() > command_run.changes
        right = isinstance(error, SafetyRefusal) and (changed or not command_run.finds_archive)
        right |= isinstance(error, _PASSING) and command_run.may_fail
        right |= isinstance(error, ObjectVanished) and len(history.bucket.gone) > command_run.expired
        if not right:
            raise Violation(f"restore ended with {type(error).__name__} without cause: {error}") from error
        return
    history.world.happened("restore: went through")
    for site in table.written:
        checkpoint = site.lease.written[-1] if site.lease.written else site.lease.checkpoint
        if checkpoint == "AT_TIMESTAMP":
            # A child, too, whose parent is not archived yet: what its stamps place before the start is not read.
            site.ledger.application = history.sites[0].ledger.application
        moved_since = site.lease.checkpoint != checkpoint
        if moved_since or site.ledger.beyond_promise or checkpoint == SHARD_END:
            continue
        tail = tails.get(site.number, -1)
        if tail >= 0 and not isinstance(checkpoint, Position):
            raise Violation(f"restore lets {site.shard_id} begin at {checkpoint}, and it is archived")
        number = site.stream.shard.index[checkpoint] if isinstance(checkpoint, Position) else -1
        if number < tail:
            raise Violation(
                f"restore lets {site.shard_id} go on after {name(number)}, and its chain ends at {name(tail)}"
            )


def judge_expire(command_run: "CommandRun", *, inside: bool) -> None:
    """Judge an `expire` that has ended; `inside`: it was asked for days that the stream may still hold.

    Raises:
        Violation: it was not refused, or failed without cause.
    """
    error = command_run.error
    if isinstance(error, Violation):
        raise error
    if inside and error is None:
        raise Violation("expire was not refused for days that the stream may still hold")
    if error is None or (isinstance(error, SafetyRefusal) and (inside or not command_run.finds_archive)):
        return
    if not (isinstance(error, _PASSING) and command_run.may_fail):
        raise Violation(f"expire ended with {type(error).__name__} without cause: {error}") from error


def judge_deletion(history: "ShardedHistory", key: str) -> None:
    """Judge one deletion: long out of the stream, published and clean, and not the last of its chain.

    Raises:
        Violation: it is not.
    """
    if key.startswith(SIDE_OBJECTS):
        _judge_side_object(history, key)
        return
    parsed, day = parse_segment_key(PREFIX, key), key[len(PREFIX) :][:10]
    site = next(site for site in history.shard_sites if site.shard_id == parsed.shard_id)
    segment = site.ledger.segments[key]
    history.world.happened("S3: a segment is expired")
    hours = site.stream.retention_hours
    if history.world.now * 1000 - segment.metadata.arrival_max_ms < hours * HOUR * 1000:
        raise Violation(f"expire deletes {name(segment.first)}, which the stream may still deliver")
    if segment.last == max(site.ledger.ends):
        raise Violation(f"expire deletes {name(segment.first)}, the last segment of {site.shard_id}")
    if f"{PREFIX}_expired/{day.replace('/', '-')}.json" not in history.bucket.objects:
        raise Violation(f"expire deletes {name(segment.first)} without a tombstone")
    if key not in history.operator.published.clean.get(day, set()):
        raise Violation(f"expire deletes {name(segment.first)}, which is not published")


def _judge_side_object(history: "ShardedHistory", key: str) -> None:
    """Judge the deletion of an object beside a segment: the segment is gone."""
    for site in history.shard_sites:
        for held, segment in site.ledger.segments.items():
            if f"-{segment.metadata.writer}." in key and held in history.bucket.objects:
                raise Violation(f"expire deletes {key}, and its segment stays")
    history.world.happened("S3: an object beside a segment is expired")
