"""Whether a task does its work. Pure: what is known comes in, one sentence goes out.

    no daemon runs ......................................... nobody reads
    the lease table was not read for five minutes .......... KCL never began, or nobody knows who reads what
    a shard has no reader, and this worker has its lease,
      or leads ............................................. found in the lease table (`readers.rules`)
    nothing of a shard was committed for longer than
      `minutebook.maxUncommittedSeconds` while there was
      something to commit .................................. S3 is cut off, or the processor hangs
    nothing is held, and the daemon has not called the
      processor for 150 s .................................. the daemon hangs, or Kinesis does not answer

The wait counts from when a record was received, or from the last commit: a task that catches up with hours of records
is healthy while it commits. How old the records are is `minutebook_behind_seconds`, to alarm on, never to kill for.
A shard that another worker leaves without a reader is said, and no reason to restart this one.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from consumer.monitoring.shards import ShardView
from minutebook.wording import some_of

SILENT_SECONDS: Final = 150.0
BLIND_SECONDS: Final = 300.0
_NAMED: Final = 3


class HealthView(NamedTuple):
    """What is known at one time.

    `unread`: the shards without a reader. `blind_seconds`: since the last look at the lease table, or since the
    daemon was started; None where nobody looks. `looks_apart`: how far the last two looks lay apart. `others`: those
    of `unread` for which another worker answers.
    """

    is_up: bool
    shards: Sequence[ShardView]
    unread: frozenset[str]
    blind_seconds: float | None = None
    looks_apart: float = 0
    others: frozenset[str] = frozenset()


class HealthVerdict(NamedTuple):
    """Whether all is well, and the line that says so, or why not."""

    is_healthy: bool
    sentence: str


def judge_health(look: HealthView, *, limit_seconds: float) -> HealthVerdict:
    """Return what is to be said of the task."""
    if not look.is_up:
        return HealthVerdict(is_healthy=False, sentence="unhealthy: the daemon does not run")
    reasons = []
    if look.unread - look.others:
        reasons.append(f"without a reader: {_names(sorted(look.unread - look.others))}")
    late = [shard for shard in look.shards if (shard.waits_seconds or 0) > limit_seconds]
    if late:
        longest = max(shard.waits_seconds or 0 for shard in late)
        names = _names([shard.shard for shard in late])
        reasons.append(f"nothing committed for {longest:.0f} s (limit {limit_seconds:g} s): {names}")
    silent = [
        shard for shard in look.shards if shard.waits_seconds is None and (shard.silent_seconds or 0) > SILENT_SECONDS
    ]
    if silent:
        longest = max(shard.silent_seconds or 0 for shard in silent)
        reasons.append(f"not called by KCL for {longest:.0f} s: {_names([shard.shard for shard in silent])}")
    # A table of thousands of leases is looked at less often (`readers.poll`).
    if look.blind_seconds is not None and look.blind_seconds > max(BLIND_SECONDS, 3 * look.looks_apart):
        reasons.append(f"the lease table was not read for {look.blind_seconds:.0f} s")
    if reasons:
        return HealthVerdict(is_healthy=False, sentence=f"unhealthy: {'; '.join(reasons)}")
    count = "1 shard" if len(look.shards) == 1 else f"{len(look.shards)} shards"
    waits = max((shard.waits_seconds or 0 for shard in look.shards), default=0)
    what = f"{count}, a record waits for its commit since {waits:.0f} s" if waits else f"{count}, nothing waits"
    beside = f"; another worker leaves without a reader: {_names(sorted(look.others))}" if look.others else ""
    return HealthVerdict(is_healthy=True, sentence=f"healthy: {what}{beside}")


def _names(shards: Sequence[str]) -> str:
    return some_of(shards, _NAMED)
