"""The health check of a task. Pure.

A task is unhealthy in these cases:

    no daemon runs
    the lease table was not read for five minutes .......... KCL never began, or the table cannot be read
    a shard has no reader, and this worker has its lease,
      or leads ............................................. found in the lease table (`consumer.liveness.rules`)
    nothing of a shard was committed for longer than
      `minutebook.maxUncommittedSeconds` while records
      waited ............................................... S3 is cut off, or the processor hangs
    no records wait, and the daemon has not called the
      processor for 150 s .................................. the daemon hangs, or Kinesis does not answer

The wait counts from a record's receipt or from the last commit: a task that catches up with hours of records is
healthy while it commits. The records' age is `minutebook_behind_seconds`: alarm on it, but do not restart for it.
Shards that another worker leaves without a reader are named, but do not make this task unhealthy.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from consumer.monitoring.shards import ShardView
from minutebook.wording import some_of

SILENT_SECONDS: Final = 150.0
BLIND_SECONDS: Final = 300.0
_NAMED: Final = 3


class HealthView(NamedTuple):
    """A task at one time.

    `unread`: the shards without a reader; `others`: those of them that another worker is responsible for.
    `blind_seconds`: since the last poll of the lease table, or since the daemon's start; None where it is not polled.
    `poll_gap_seconds`: between the last two polls. `complete_until_ms`: the newest boundary of the stream.
    """

    is_up: bool
    shards: Sequence[ShardView]
    unread: frozenset[str]
    blind_seconds: float | None = None
    poll_gap_seconds: float = 0
    others: frozenset[str] = frozenset()
    complete_until_ms: int | None = None


class HealthVerdict(NamedTuple):
    """Whether the task is healthy, and the line that `minutebook health` prints."""

    is_healthy: bool
    sentence: str


def judge_health(view: HealthView, *, limit_seconds: float) -> HealthVerdict:
    """Return the verdict; `limit_seconds` is the longest wait for a commit."""
    if not view.is_up:
        return HealthVerdict(is_healthy=False, sentence="unhealthy: the daemon does not run")
    reasons = []
    if view.unread - view.others:
        reasons.append(f"without a reader: {_names(sorted(view.unread - view.others))}")
    late = [shard for shard in view.shards if (shard.waits_seconds or 0) > limit_seconds]
    if late:
        longest = max(shard.waits_seconds or 0 for shard in late)
        names = _names([shard.shard for shard in late])
        reasons.append(f"nothing committed for {longest:.0f} s (limit {limit_seconds:g} s): {names}")
    silent = [
        shard for shard in view.shards if shard.waits_seconds is None and (shard.silent_seconds or 0) > SILENT_SECONDS
    ]
    if silent:
        longest = max(shard.silent_seconds or 0 for shard in silent)
        reasons.append(f"not called by KCL for {longest:.0f} s: {_names([shard.shard for shard in silent])}")
    # A table of thousands of leases is polled less often (`consumer.liveness.poll`).
    if view.blind_seconds is not None and view.blind_seconds > max(BLIND_SECONDS, 3 * view.poll_gap_seconds):
        reasons.append(f"the lease table was not read for {view.blind_seconds:.0f} s")
    if reasons:
        return HealthVerdict(is_healthy=False, sentence=f"unhealthy: {'; '.join(reasons)}")
    count = "1 shard" if len(view.shards) == 1 else f"{len(view.shards)} shards"
    waits = max((shard.waits_seconds or 0 for shard in view.shards), default=0)
    state = f"{count}, a record waits for its commit since {waits:.0f} s" if waits else f"{count}, nothing waits"
    remark = f"; another worker leaves without a reader: {_names(sorted(view.others))}" if view.others else ""
    return HealthVerdict(is_healthy=True, sentence=f"healthy: {state}{remark}")


def _names(shards: Sequence[str]) -> str:
    return some_of(shards, _NAMED)
