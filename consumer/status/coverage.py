"""Up to when the archive is proven: by the same judgement that the nightly audit gives of a day."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from consumer.leases.rows import Lease
from consumer.stream.port import ShardInfo
from minutebook.clock import Clock
from minutebook.coverage.intervals import Interval
from minutebook.coverage.topology import ShardRow, hash_range_of
from minutebook.coverage.verdict import SO_FAR_MARGIN_MS, ShardVerdict, Verdict
from minutebook.errors import FormatError
from minutebook.format.aggregate import HashRange
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import judge_archive
from minutebook.proof.sources import Stream
from minutebook.store.retrying import RetryingStore

_HOUR_MS: Final = 60 * MINUTE_MS
_FRESH_SECONDS: Final = 60.0
"""With `--watch`, the archive is judged anew once a minute: a judgement asks S3 about every segment of the time."""


class Unproven(msgspec.Struct, frozen=True, kw_only=True):
    """A time that is not proven. `shard` is empty where it is the stream's shape that is in doubt."""

    shard: str
    begins: str
    ends: str
    reasons: list[str]


class ProvenTime(msgspec.Struct, frozen=True, kw_only=True):
    """From `since` on, every record that arrived until `until` is archived once; times are UTC in ISO 8601.

    `until` is None where something is open from the beginning on. `shards` says the same of each shard that is
    judged. `unproven` are open times that began more than 80 minutes ago: later ones are not due yet. `unreadable`
    are objects that cannot be believed, with the reason: what they would prove is not.
    """

    since: str
    until: str | None
    shards: dict[str, str | None]
    unproven: list[Unproven]
    unreadable: list[str] = []


class CoverageWatch:
    """Judges the last hours of an archive, at most once a minute."""

    def __init__(self, store: RetryingStore, prefix: str, clock: Clock, *, hours: float) -> None:
        self._store = store
        self._prefix = prefix
        self._clock = clock
        self._hours = hours
        self._last: tuple[float, ProvenTime | None] | None = None

    def look(
        self, application: ApplicationRecord, shards: Mapping[str, ShardInfo], leases: Mapping[str, Lease]
    ) -> ProvenTime | None:
        """Return what is proven; None when nothing is asked for, or the application begins later.

        Raises:
            StoreUnavailable, StoreRefused: the store.
        """
        now = self._clock.monotonic()
        if self._last is None or now - self._last[0] >= _FRESH_SECONDS:
            self._last = now, self._judge(application, known_stream(shards, leases))
        return self._last[1]

    def _judge(self, application: ApplicationRecord, stream: Stream) -> ProvenTime | None:
        now_ms = self._clock.now_ms()
        since_ms = max(application.begin_ms, now_ms - int(self._hours * _HOUR_MS))
        if since_ms >= now_ms or not self._hours:
            return None
        query = ProofQuery(Interval(since_ms, now_ms), application.begin_ms, now_ms, stream)
        judged = judge_archive(self._store, self._prefix, query)
        unreadable = [f"{problem.key}: {problem.why}" for problem in judged.facts.problems]
        return msgspec.structs.replace(proven_time(judged.verdict), unreadable=unreadable)


def proven_time(verdict: Verdict) -> ProvenTime:
    """Return a verdict as how far it reaches. Pure."""
    scope = verdict.scope
    reached = {shard.shard_id: _reached(shard) for shard in verdict.shards}
    # Only what is open holds the stream back: a shard that has ended is required, and reached, no farther.
    begins = (verdict.inside(one.interval).from_ms for one in verdict.open_times)
    until_ms = min(begins, default=scope.until_ms)
    late_ms = scope.until_ms - SO_FAR_MARGIN_MS
    return ProvenTime(
        since=iso_time(scope.from_ms),
        until=_time(None if until_ms <= scope.from_ms else until_ms),
        shards={shard_id: _time(ms) for shard_id, ms in sorted(reached.items())},
        unproven=list(_unproven(verdict, late_ms)),
    )


def _reached(shard: ShardVerdict) -> int | None:
    """Return up to when a shard is proven without a gap; None: it is open from the beginning on."""
    until_ms = shard.gaps[0].interval.from_ms if shard.gaps else shard.required.until_ms
    return None if until_ms <= shard.required.from_ms else until_ms


def _unproven(verdict: Verdict, late_ms: int) -> Iterator[Unproven]:
    for one in verdict.open_times:
        if one.interval.from_ms < late_ms:
            begins, ends = map(iso_time, verdict.inside(one.interval))
            reasons = [f"{reason}: {reason.meaning}" for reason in one.reasons]
            yield Unproven(shard=one.shard_id or "", begins=begins, ends=ends, reasons=reasons)


def _time(ms: int | None) -> str | None:
    return None if ms is None else iso_time(ms)


def known_stream(shards: Mapping[str, ShardInfo], leases: Mapping[str, Lease]) -> Stream:
    """Return what is known besides the archive. Without an answer to ListShards, nothing is made of its silence."""
    listed = tuple(
        ShardRow(name, _range(row.starting_hash_key, row.ending_hash_key), frozenset(row.parents))
        for name, row in shards.items()
    )
    leased = tuple(
        ShardRow(name, _range(row.starting_hash_key, row.ending_hash_key), row.parents, row.children)
        for name, row in leases.items()
    )
    return Stream(listed or None, frozenset(name for name, row in shards.items() if row.closed), leased)


def _range(first: str, last: str) -> HashRange | None:
    try:
        return hash_range_of(first, last)
    except FormatError:
        return None
