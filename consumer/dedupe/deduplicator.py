"""Producer deduplication: which of the delivered records are a producer's second copy of an archived one.

Two modes behind one port. A deduplicator follows one shard's chain: it judges records in order, says what must travel
with a segment, and is told when the chain's tail moved. Judging twice, on a replay or by a zombie, gives the same
answer; so it may happen before the commit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import NamedTuple, Protocol, TypeVar

import structlog

from consumer.dedupe.claim_batches import MOST_STATEMENTS, VERBS, EventClaim, Owner, StatementBatch, Undecided, Verb
from consumer.dedupe.conflicts import IdConflicts
from consumer.dedupe.table import CLAIM_CONNECTIONS, DedupeTable
from consumer.dedupe.tail_rows import ShardTail
from consumer.dedupe.watermarks import Watermarks
from minutebook.clock import Clock
from minutebook.errors import OutcomeUnknown
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.payload import PayloadPath
from minutebook.format.record import Record
from minutebook.retry import Backoff, until_known

DAY_SECONDS = 86_400
_DIGEST_BYTES = 16
A = TypeVar("A")
B = TypeVar("B")


class ClaimMap(Protocol):
    """A `map` that may run its calls at once; results in order."""

    def __call__(self, call: Callable[[A], B], given: Iterable[A], /) -> Iterable[B]:
        """Return the result of each call."""
        ...


class Deduplicator(Protocol):
    """Follows one shard's chain."""

    def judge(self, records: Sequence[Record]) -> Sequence[str | None]:
        """Return, per record, None to keep it or what it is a duplicate of. Records come in chain order."""
        ...

    def watermarks(self) -> Watermarks | None:
        """Return the state behind the last judged record, to travel with the segment; None for none."""
        ...

    def committed(self, metadata: SegmentMetadata) -> None:
        """Our segment was committed; called before any checkpoint at its end."""
        ...

    def adopt(self, metadata: SegmentMetadata, watermarks: Watermarks | None) -> None:
        """The chain's tail is another writer's segment now, and its state is ours."""
        ...

    def tick(self, *, is_last: bool = False) -> None:
        """Tell what waits to be told; all of it when nothing more is judged."""
        ...


class Claims:
    """Mode `claims`: the first position that claims an event id in the table keeps the event, for ever after.

    A record is a copy when its payload is the owner's, too. One with the same id and another payload is an event of
    its own, kept and counted: else a producer that names the ids of others would make their events disappear.
    `shard` is `<stream>/<shardId>`: with it a position is the name of an owner.
    The table is asked for all records of a call at once; throttling holds the processor back.
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
        """Claim each event id once; a record is kept when the claim is its own, or another payload's."""
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
        """Claims live in the table: nothing travels with the segment."""

    def committed(self, metadata: SegmentMetadata) -> None:  # noqa: ARG002 - the port's
        """Nothing to write: claims precede the commit."""
        self._conflicts.tell()

    def adopt(self, metadata: SegmentMetadata, watermarks: Watermarks | None) -> None:
        """Nothing to do: the winner's records hold their own claims."""

    def tick(self, *, is_last: bool = False) -> None:
        """Tell of conflicts."""
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
        """Claim each event: what nobody has claimed, what we have, and one by one what is neither."""
        owners: dict[str, Owner] = {}
        left = wanted
        for verb in VERBS:
            batches = [left[start : start + MOST_STATEMENTS] for start in range(0, len(left), MOST_STATEMENTS)]
            # A claim that is alone is decided at once, by the whole condition.
            for found in self._map_claims(partial(self._decide, verb), [each for each in batches if len(each) > 1]):
                owners |= found
            left = [claim for claim in wanted if claim.event_id not in owners]
        for claim, owner in zip(left, self._map_claims(self._claim, left), strict=True):
            owners[claim.event_id] = owner
        return owners

    def _decide(self, verb: Verb, claims: Sequence[EventClaim]) -> Mapping[str, Owner]:
        """Return the owners of those events of a batch that statements of one kind decide."""
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

        # Safe to repeat: what an earlier attempt claimed is there by the second, under its own position.
        until_known(ask, self._backoff(), "claims")
        return owners

    def _claim(self, wanted: EventClaim) -> Owner:
        now, lifetime = self._clock.now_ms() // 1000, self._lifetime_seconds()
        # Safe to repeat: the second attempt finds its own position as the owner.
        return until_known(
            lambda: self._table.claim(wanted, expires=now + lifetime, now=now),
            self._backoff(),
            "a claim",
        )


class WatermarkPaths(NamedTuple):
    """Where payloads hold the producer's number and, when several producers share a shard, its key."""

    sequence: PayloadPath
    key: PayloadPath | None
    ordered: bool


class WatermarkDedupe:
    """Mode `watermark`: numbers that the chain has seen are duplicates. `state` is that of the chain's tail."""

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
        """Compare with the state, and move it."""
        verdicts: list[str | None] = []
        missing = 0
        for record in records:
            number = self._paths.sequence.number(record.data)
            producer = "" if self._paths.key is None else self._paths.key.text(record.data)
            if number is None or producer is None:
                missing += 1
                verdicts.append(None)
                continue
            new = self._state.take(producer, number, ordered=self._paths.ordered)
            verdicts.append(None if new else f"producer {producer} number {number}")
        if missing:
            self._log.info("no_producer_sequence", records=missing)
        return verdicts

    def watermarks(self) -> Watermarks:
        """Return the state behind the last judged record."""
        return self._state

    def committed(self, metadata: SegmentMetadata) -> None:
        """Write the tail row: after the commit, before any checkpoint at its end."""
        tail = ShardTail(metadata.last, self._state, (metadata.minute, metadata.first))
        until_known(lambda: self._table.write_tail(self._shard, tail), self._backoff(), "the watermarks' tail row")

    def adopt(self, metadata: SegmentMetadata, watermarks: Watermarks | None) -> None:
        """Take the winner's state. A segment without one was written in another mode: what it holds is unknown."""
        if watermarks is None:
            self._log.warning(
                "watermarks_missing",
                last=str(metadata.last),
                next_step="expected once, when watermark mode is switched on for an archive that exists",
            )
        self._state = watermarks or Watermarks()

    def tick(self, *, is_last: bool = False) -> None:
        """Nothing waits to be told."""
