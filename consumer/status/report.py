"""The report of `minutebook status`, and the rules that make it from an observation. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from consumer.archived.chain_ends import ChainEnd
from consumer.archived.shard_markers import ArchivedShard
from consumer.leases.rows import Lease, LeaseRows
from consumer.status.complete import CompleteTime
from consumer.status.coverage import ProvenTime
from consumer.stream.port import ShardInfo
from minutebook.format.minute import minute_text
from minutebook.format.position import Position
from minutebook.wording import some_of

FORMAT: Final = 1
_SHOWN: Final = 5
LeaseState = Literal["held", "expired", "unknown", "free", "done", "missing"]


class StatusProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A service that failed, or something to look at. `exit_code` 0: it is merely absent."""

    sentence: str
    next_step: str = ""
    exit_code: int = 0


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One shard. Positions are `<sequence>:<sub>`, times seconds; None means not known.

    `state`: "open", "closed", or "unlisted" for a shard that ListShards does not return (any more).
    `lease`: "held" (renewed between our reads), "expired" (not renewed for longer than KCL allows), "free" (without
    an owner), "done" (SHARD_END), "missing" (no row), "unknown" (not observed for long enough).
    `lease_age_seconds`: the last renewal is no older than this. `tail` is the end of the archive, `behind_seconds`
    the age of the oldest record that is not archived, by `behind_source`: "record" (that record was read),
    "stream" (MillisBehindLatest: GetRecords returned no record), "end" (the shard is archived to its end).
    `gaps`: positions after which a segment is missing, and records whose continuity was recorded as doubtful.
    """

    shard: str
    state: Literal["open", "closed", "unlisted"]
    parents: list[str]
    children: list[str]
    owner: str | None
    lease: LeaseState
    lease_age_seconds: float | None
    checkpoint: str | None
    tail: str | None
    tail_minute: str | None
    behind_seconds: float | None
    behind_source: Literal["record", "stream", "end"] | None
    gaps: list[str]
    notes: list[str]


class StatusReport(msgspec.Struct, frozen=True, kw_only=True):
    """One report; `at_ms` is epoch milliseconds. `coverage` is None if nothing could be judged.

    `complete` is what the published boundaries say; None if nobody publishes any.
    """

    format: int = FORMAT
    at_ms: int
    application: str
    stream: str
    bucket: str
    prefix: str
    problems: list[StatusProblem]
    coverage: ProvenTime | None
    complete: CompleteTime | None = None
    shards: list[ShardStatus]


class Lag(NamedTuple):
    """How far the archive of a shard is behind, see `ShardStatus`; `note`: why that is not known."""

    seconds: float | None
    source: Literal["record", "stream"] | None
    note: str = ""


class Observation(NamedTuple):
    """All that was read for a report. `leases` is None if the table could not be read or does not exist."""

    shards: Mapping[str, ShardInfo]
    archived: Mapping[str, ArchivedShard]
    ends: Mapping[str, ChainEnd]
    unread_ends: Mapping[str, str]
    leases: LeaseRows | None
    lags: Mapping[str, Lag]
    coverage: ProvenTime | None = None
    complete: CompleteTime | None = None


class LeaseWatch:
    """Derives the age of leases from two or more reads of their counters.

    A worker renews every third of the failover time. A counter that moved between two reads was renewed after the
    first of them; a lease whose counter stands still for longer than the failover time has no living owner.
    """

    def __init__(self, failover_seconds: float) -> None:
        self._failover_seconds = failover_seconds
        self._counters: dict[str, int] = {}
        self._still_since: dict[str, float] = {}
        self._renewed_after: dict[str, float] = {}
        self._last_read = 0.0

    def note(self, leases: Mapping[str, Lease], now: float) -> None:
        """Record the counters read at `now`, in seconds on a monotonic clock."""
        for shard_id, lease in leases.items():
            last = self._counters.get(shard_id)
            if last is not None and last != lease.counter:
                self._renewed_after[shard_id] = self._last_read
            if last != lease.counter:
                self._still_since[shard_id] = now
            self._counters[shard_id] = lease.counter
        self._last_read = now

    def state(self, lease: Lease, now: float) -> tuple[LeaseState, float | None]:
        """Return the state of a lease, and the greatest possible age of its last renewal."""
        if lease.checkpoint == "SHARD_END":
            return "done", None
        if lease.owner is None:
            return "free", None
        renewed = self._renewed_after.get(lease.shard_id)
        age = None if renewed is None else now - renewed
        if now - self._still_since.get(lease.shard_id, now) > self._failover_seconds:
            return "expired", age
        return ("unknown" if age is None else "held"), age


def shard_statuses(observation: Observation, watch: LeaseWatch, now: float) -> list[ShardStatus]:
    """Return the status of every shard that the stream, the archive or the lease table names."""
    leases = observation.leases.leases if observation.leases else {}
    names = (
        observation.shards.keys()
        | leases.keys()
        | {name for name, shard in observation.archived.items() if shard.end is None}
    )
    return [_status(observation, name, leases.get(name), watch, now) for name in sorted(names)]


def unread(statuses: Sequence[ShardStatus]) -> list[StatusProblem]:
    """Report the shards that no worker reads: their leases are free, or their owners are gone.

    Workers that do not lead stay healthy then (docs/operations.md): only the leader assigns leases, and it may be
    none of ours. A shard whose parents are not finished is left out: it waits for them.
    """
    leases = {status.shard: status.lease for status in statuses}
    shards = [
        f"{status.shard} ({'free' if status.lease == 'free' else f'{status.owner} does not renew it'})"
        for status in statuses
        if status.lease in {"free", "expired"}
        and all(leases.get(parent, "done") in {"done", "missing"} for parent in status.parents)
    ]
    if not shards:
        return []
    return [
        StatusProblem(
            sentence=f"lease table: nobody reads {some_of(shards, _SHOWN)}",
            next_step="normal for two minutes after a start or a stop; later see minutebook docs runbook "
            "shard_without_reader, and look at the worker that leads",
        )
    ]


def _status(observation: Observation, name: str, lease: Lease | None, watch: LeaseWatch, now: float) -> ShardStatus:
    info, end = observation.shards.get(name), observation.ends.get(name)
    marker = observation.archived.get(name, ArchivedShard(None, None)).end
    state: LeaseState = "unknown" if observation.leases is None else "missing"
    age: float | None = None
    if lease is not None:
        state, age = watch.state(lease, now)
    tail = end.tail.last if end else (marker.last_position() if marker else None)
    lag = observation.lags.get(name, Lag(None, None))
    return ShardStatus(
        shard=name,
        state="unlisted" if info is None else "closed" if info.closed else "open",
        parents=sorted(info.parents if info else lease.parents if lease else ()),
        children=sorted(info.children if info else lease.children if lease else ()),
        owner=lease.owner if lease else None,
        lease=state,
        lease_age_seconds=None if age is None else round(age, 1),
        checkpoint=str(lease.checkpoint) if lease else None,
        tail=None if tail is None else str(tail),
        tail_minute=minute_text(end.tail.minute) if end else None,
        behind_seconds=0 if marker else None if lag.seconds is None else round(lag.seconds, 1),
        behind_source="end" if marker else lag.source,
        gaps=_gaps(end),
        notes=_notes(observation, name, lease, tail, lag),
    )


def _gaps(end: ChainEnd | None) -> list[str]:
    if end is None:
        return []
    doubtful = [f"{segment.continuity} before {segment.first}" for segment in end.segments if segment.is_doubtful]
    unread = [f"{key} cannot be read, and may name a segment that is missing" for key in end.unread]
    return [*(f"missing after {position}" for position in end.holes), *unread, *doubtful]


def _notes(observation: Observation, name: str, lease: Lease | None, tail: Position | None, lag: Lag) -> list[str]:
    archived = observation.archived.get(name, ArchivedShard(None, None))
    notes = [text for text in (observation.unread_ends.get(name), lag.note) if text]
    if lease and isinstance(lease.checkpoint, Position) and (tail is None or lease.checkpoint > tail) and not notes:
        notes.append(
            "the checkpoint lies beyond the archive: objects were deleted, or the prefix is another; see restore"
        )
    if archived.end is not None and archived.end.proof == "expired":
        notes.append("its end is not proven: the stream trimmed it before all of it was read; the audit says unknown")
    if lease and lease.checkpoint == "SHARD_END" and archived.end is None and name in observation.shards:
        notes.append("KCL says the shard has ended, and the archive holds no proof: end.json is missing")
    return notes
