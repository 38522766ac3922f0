"""Producer deduplication: which delivered records are a producer's second copy of an archived one.

Two modes behind one port. A deduplicator follows one shard's chain: it judges records in order, returns what must be
stored with a segment, and is called when the chain's tail moved. Judging again, on a replay or by a zombie, gives the
same answer, so records may be judged before the commit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import NamedTuple, Protocol, TypeVar

import structlog

from consumer.dedupe.claim_batches import MOST_STATEMENTS, VERBS, EventClaim, Owner, StatementBatch, Undecided, Verb
from consumer.dedupe.table import CLAIM_CONNECTIONS, DedupeTable, ShardTail
from consumer.dedupe.watermarks import Watermarks
from minutebook.clock import Clock
from minutebook.errors import OutcomeUnknown
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.payload import PayloadPath, ProducerNumbers
from minutebook.format.record import Record, numbered
from minutebook.retry import Backoff, until_known

DAY_SECONDS = 86_400
_DIGEST_BYTES = 16
_TELL_SECONDS = 60.0
A = TypeVar("A")
B = TypeVar("B")


class ClaimMap(Protocol):
    """A `map` that may run its calls in parallel; results in order."""

    def __call__(self, call: Callable[[A], B], items: Iterable[A], /) -> Iterable[B]:
        """Return the result of each call."""
        ...


class Deduplicator(Protocol):
    """Follows one shard's chain."""

    def judge(self, records: Sequence[Record]) -> Sequence[str | None]:
        """Return, per record, None to keep it, or what it duplicates. Records come in chain order."""
        ...

    def watermarks(self) -> Watermarks | None:
        """Return the state after the last judged record, to be stored with the segment; None for none."""
        ...

    def committed(self, metadata: SegmentMetadata) -> None:
        """Take note that our segment was committed; called before any checkpoint at its end."""
        ...

    def adopt(self, metadata: SegmentMetadata, watermarks: Watermarks | None) -> None:
        """Take over the state of another writer's segment, which is the chain's tail now."""
        ...

    def tick(self, *, is_last: bool = False) -> None:
        """Log what is due; with `is_last`, everything: no record will be judged any more."""
        ...


class IdConflicts:
    """Counts one shard's conflicts, different events with one id, and logs them at most once a minute."""

    def __init__(self, shard_id: str, clock: Clock) -> None:
        self._clock = clock
        self._log = structlog.get_logger().bind(shard=shard_id)
        self._untold = 0
        self._last: tuple[EventClaim, Owner] | None = None
        self._told_at: float | None = None

    def add(self, claim: EventClaim, owner: Owner) -> None:
        """Count a record whose id is claimed by a record with another payload."""
        self._untold += 1
        self._last = (claim, owner)

    def tell(self, *, is_last: bool = False) -> None:
        """Log the conflicts since the last line, at most once a minute; at once if `is_last`."""
        now = self._clock.monotonic()
        is_young = self._told_at is not None and now - self._told_at < _TELL_SECONDS
        if self._last is None or (is_young and not is_last):
            return
        claim, owner = self._last
        self._log.warning(
            "id_conflict",
            records=self._untold,
            position=claim.owner,
            owner=owner.position,
            next_step="find the producer that gives two events one id: compare the records at these two positions",
        )
        self._untold, self._last, self._told_at = 0, None, now


class Claims:
    """Mode `claims`: the first position that claims an event id in the table owns the event until the claim expires.

    A record is a copy if its payload, too, is the owner's. A record with the same id and another payload is kept and
    counted: otherwise a producer could suppress the events of others by using their ids.
    `shard` is `<stream>/<shardId>`: followed by a position, it names an owner.
    All records of a call are claimed together; throttling by DynamoDB holds the processor back.
    """

    def __init__(
        self,
        table: DedupeTable,
        event_id: PayloadPath,
        shard: str,
        clock: Clock,
        backoff: Callable[[], Backoff],
        *,
        lifetime_seconds: Callable[[], int],
        map_claims: ClaimMap | None = None,
    ) -> None:
        self._table = table
        self._event_id = event_id
        self._shard = shard
        self._clock = clock
        self._backoff = backoff
        self._lifetime_seconds = lifetime_seconds
        self._map_claims = map_claims or ThreadPoolExecutor(CLAIM_CONNECTIONS, thread_name_prefix="claim").map
        self._log = structlog.get_logger().bind(place=shard)
        self._conflicts = IdConflicts(shard.rpartition("/")[2], clock)

    def judge(self, records: Sequence[Record]) -> Sequence[str | None]:
        """Claim each event id once. A record is kept if it owns the claim, or if the owner has another payload."""
        claims = [self._claim_of(record) for record in records]
        wanted: dict[str, EventClaim] = {}
        for claim in claims:
            if claim is not None:
                wanted.setdefault(claim.event_id, claim)
        owners = self._owners(list(wanted.values()))
        missing = claims.count(None)
        if missing:
            self._log.info("no_event_id", records=missing)
        verdicts = [None if claim is None else self._verdict(claim, owners[claim.event_id]) for claim in claims]
        self._conflicts.tell()
        return verdicts

    def watermarks(self) -> None:
        """Return None: claims are in the table, not with the segment."""

    def committed(self, metadata: SegmentMetadata) -> None:  # noqa: ARG002 - part of the port
        """Nothing to write: claims precede the commit."""
        self._conflicts.tell()

    def adopt(self, metadata: SegmentMetadata, watermarks: Watermarks | None) -> None:
        """Do nothing: the winner's records have their own claims."""

    def tick(self, *, is_last: bool = False) -> None:
        """Log conflicts."""
        self._conflicts.tell(is_last=is_last)

    def _claim_of(self, record: Record) -> EventClaim | None:
        event_id = self._event_id.text(record.data)
        if event_id is None:
            return None
        digest = blake2b(record.data, digest_size=_DIGEST_BYTES).hexdigest()
        return EventClaim(event_id, f"{self._shard}/{record.position}", digest)

    def _verdict(self, claim: EventClaim, owner: Owner) -> str | None:
        if owner.position == claim.owner:
            return None
        if owner.digest is not None and owner.digest != claim.digest:
            self._conflicts.add(claim, owner)
            return None
        return owner.position

    def _owners(self, wanted: Sequence[EventClaim]) -> Mapping[str, Owner]:
        """Claim each event: by INSERT, by UPDATE, and what both leave undecided one by one."""
        owners: dict[str, Owner] = {}
        rest = wanted
        for verb in VERBS:
            batches = [rest[start : start + MOST_STATEMENTS] for start in range(0, len(rest), MOST_STATEMENTS)]
            # A batch of one would save no request: the PutItem below decides it.
            batches = [batch for batch in batches if len(batch) > 1]
            for decided in self._map_claims(partial(self._decide, verb), batches):
                owners |= decided
            rest = [claim for claim in wanted if claim.event_id not in owners]
        for claim, owner in zip(rest, self._map_claims(self._claim, rest), strict=True):
            owners[claim.event_id] = owner
        return owners

    def _decide(self, verb: Verb, claims: Sequence[EventClaim]) -> Mapping[str, Owner]:
        """Return the owners of those events of a batch that statements of this kind decide."""
        now = self._clock.now_ms() // 1000
        batch = StatementBatch(verb, claims, now + self._lifetime_seconds(), now)
        owners: dict[str, Owner] = {}

        def ask() -> None:
            nonlocal batch
            answers = list(zip(batch.claims, self._table.claim_batch(batch), strict=True))
            owners.update((claim.event_id, answer) for claim, answer in answers if isinstance(answer, Owner))
            again = [claim for claim, answer in answers if answer is Undecided.AGAIN]
            if again:
                batch = batch._replace(claims=again)
                raise OutcomeUnknown(f"{len(again)} of {len(answers)} claims were not decided")

        # Safe to repeat: a claim of an earlier attempt names this record's position, so the UPDATE succeeds.
        until_known(ask, self._backoff(), "claims")
        return owners

    def _claim(self, wanted: EventClaim) -> Owner:
        now, lifetime = self._clock.now_ms() // 1000, self._lifetime_seconds()
        # Safe to repeat: the second attempt finds this record's position as the owner.
        return until_known(
            lambda: self._table.claim(wanted, expires=now + lifetime, now=now),
            self._backoff(),
            "a claim",
        )


class WatermarkPaths(NamedTuple):
    """Where payloads hold the producer's number, and whether the producer guarantees its order."""

    numbers: ProducerNumbers
    ordered: bool


class WatermarkDedupe:
    """Mode `watermark`: numbers that the chain already holds are duplicates. `state`: at the chain's tail."""

    def __init__(
        self,
        table: DedupeTable,
        paths: WatermarkPaths,
        shard: str,
        state: Watermarks,
        backoff: Callable[[], Backoff],
    ) -> None:
        self._table = table
        self._paths = paths
        self._shard = shard
        self._state = state
        self._backoff = backoff
        self._log = structlog.get_logger().bind(place=shard)

    def judge(self, records: Sequence[Record]) -> Sequence[str | None]:
        """Look each number up in the state, and add it."""
        verdicts: list[str | None] = []
        missing = 0
        for record in records:
            known = self._paths.numbers.of(record.data)
            if known is None:
                missing += 1
                verdicts.append(None)
                continue
            new = self._state.take(*known, ordered=self._paths.ordered)
            verdicts.append(None if new else numbered(*known))
        if missing:
            self._log.info("no_producer_sequence", records=missing)
        return verdicts

    def watermarks(self) -> Watermarks:
        """Return the state after the last judged record."""
        return self._state

    def committed(self, metadata: SegmentMetadata) -> None:
        """Write the tail row: after the commit, before any checkpoint at its end."""
        tail = ShardTail(metadata.last, self._state, (metadata.minute, metadata.first))
        until_known(lambda: self._table.write_tail(self._shard, tail), self._backoff(), "the watermarks' tail row")

    def adopt(self, metadata: SegmentMetadata, watermarks: Watermarks | None) -> None:
        """Take the winner's state; begin an empty one after a segment of another mode, whose numbers are unknown."""
        if watermarks is None:
            self._log.warning(
                "watermarks_missing",
                last=str(metadata.last),
                next_step="expected once, when watermark mode is switched on for an archive that exists",
            )
        self._state = watermarks or Watermarks()

    def tick(self, *, is_last: bool = False) -> None:
        """Do nothing."""
