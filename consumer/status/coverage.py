"""Up to when the archive is proven complete, by the rules of the nightly audit. Overlaps are not looked for."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from consumer.archived.listed_shards import listed_stream, parsed_range
from consumer.leases.rows import Lease
from consumer.stream.port import ShardInfo
from minutebook.clock import Clock
from minutebook.coverage.intervals import Interval
from minutebook.coverage.topology import ShardRow
from minutebook.coverage.verdict import SO_FAR_MARGIN_MS, ShardVerdict, Verdict
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import HOUR_MS, iso_time
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import judge_archive
from minutebook.proof.sources import Stream
from minutebook.store.retrying import RetryingStore

_FRESH_SECONDS: Final = 60.0
"""With `--watch`, the archive is judged once a minute: that takes a request to S3 for every segment in the scope."""


class Unproven(msgspec.Struct, frozen=True, kw_only=True):
    """A time that is not proven. `shard` is empty if the stream's shards themselves are in doubt."""

    shard: str
    begins: str
    ends: str
    reasons: list[str]


class ProvenTime(msgspec.Struct, frozen=True, kw_only=True):
    """Every record that arrived from `since` until `until` is archived; times are UTC in ISO 8601.

    Whether some are archived twice is not known: a segment's name holds its first position only.

    `until` is None if nothing is proven. `shards` holds the same per judged shard. `unproven` are the open times that
    began more than 80 minutes ago; later ones are not due yet. `unreadable` are objects that are ignored as evidence,
    each with the reason.
    """

    since: str
    until: str | None
    shards: dict[str, str | None]
    unproven: list[Unproven]
    unreadable: list[str] = []


class CoverageWatch:
    """Judges the last `hours` of an archive, at most once a minute."""

    def __init__(self, store: RetryingStore, prefix: str, clock: Clock, *, hours: float) -> None:
        self._store = store
        self._prefix = prefix
        self._clock = clock
        self._hours = hours
        self._last: tuple[float, ProvenTime | None] | None = None

    def look(
        self, application: ApplicationRecord, shards: Mapping[str, ShardInfo], leases: Mapping[str, Lease]
    ) -> ProvenTime | None:
        """Return what is proven; None when `hours` is 0 or the application begins later. Raises as the store does."""
        now = self._clock.monotonic()
        if self._last is None or now - self._last[0] >= _FRESH_SECONDS:
            self._last = now, self._judge(application, known_stream(shards, leases))
        return self._last[1]

    def _judge(self, application: ApplicationRecord, stream: Stream) -> ProvenTime | None:
        now_ms = self._clock.now_ms()
        since_ms = max(application.begin_ms, now_ms - int(self._hours * HOUR_MS))
        if since_ms >= now_ms or not self._hours:
            return None
        query = ProofQuery(Interval(since_ms, now_ms), application.begin_ms, now_ms, stream)
        judged = judge_archive(self._store, self._prefix, query)
        unreadable = [f"{problem.key}: {problem.why}" for problem in judged.facts.problems]
        return msgspec.structs.replace(proven_time(judged.verdict), unreadable=unreadable)


def proven_time(verdict: Verdict) -> ProvenTime:
    """Return how far a verdict reaches. Pure."""
    scope = verdict.scope
    reached = {shard.shard_id: _reached(shard) for shard in verdict.shards}
    # Only open times limit the stream: an ended shard reaches its required end, which is earlier.
    begins = (verdict.inside(open_time.interval).from_ms for open_time in verdict.open_times)
    until_ms = min(begins, default=scope.until_ms)
    late_ms = scope.until_ms - SO_FAR_MARGIN_MS
    return ProvenTime(
        since=iso_time(scope.from_ms),
        until=_time(None if until_ms <= scope.from_ms else until_ms),
        shards={shard_id: _time(ms) for shard_id, ms in sorted(reached.items())},
        unproven=list(_unproven(verdict, late_ms)),
    )


def _reached(shard: ShardVerdict) -> int | None:
    """Return up to when a shard is proven without a gap; None if its beginning is a gap."""
    until_ms = shard.gaps[0].interval.from_ms if shard.gaps else shard.required.until_ms
    return None if until_ms <= shard.required.from_ms else until_ms


def _unproven(verdict: Verdict, late_ms: int) -> Iterator[Unproven]:
    for open_time in verdict.open_times:
        if open_time.interval.from_ms < late_ms:
            begins, ends = map(iso_time, verdict.inside(open_time.interval))
            reasons = [f"{reason}: {reason.meaning}" for reason in open_time.reasons]
            yield Unproven(shard=open_time.shard_id or "", begins=begins, ends=ends, reasons=reasons)


def _time(ms: int | None) -> str | None:
    return None if ms is None else iso_time(ms)


def known_stream(shards: Mapping[str, ShardInfo], leases: Mapping[str, Lease]) -> Stream:
    """Return the shards from ListShards and from the leases. An empty `shards` means that ListShards failed."""
    leased = tuple(
        ShardRow(name, parsed_range(row.starting_hash_key, row.ending_hash_key), row.parents, row.children)
        for name, row in leases.items()
    )
    return listed_stream(shards)._replace(leased=leased)
