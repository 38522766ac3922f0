"""Expire one day by its plan: write the tombstone first, then delete, in batches with a limited rate.

    crash before the tombstone      nothing has happened
    crash after it                  the day counts as expired; the next run deletes the rest, by the tombstone
    crash between two batches       the same

Deleting re-opens slots. That is safe because no writer can hold a record of the day any more: the stream trimmed it
longer ago than a buffer may live (`command.newest_day` checks that first).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from consumer.expire.coverage import DayProof
from consumer.expire.plan import ExpiryPlan
from minutebook.clock import Clock, IdSource
from minutebook.errors import SafetyRefusal
from minutebook.format.document import FORMAT
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.minute import iso_time
from minutebook.format.tombstone import (
    ExpiredShard,
    Tombstone,
    decode_tombstone,
    encode_tombstone,
    tombstone_key,
)
from minutebook.store.retrying import RetryingStorage

_BATCH: Final = 1000
"""The most keys that one DeleteObjects takes."""


def delete_all(store: RetryingStorage, keys: Sequence[str], rate: int, clock: Clock) -> None:
    """Delete in batches, at `rate` objects a second."""
    size = min(_BATCH, rate)
    for begin in range(0, len(keys), size):
        batch = keys[begin : begin + size]
        store.delete(batch)
        clock.sleep(len(batch) / rate)


class DayDeleter(NamedTuple):
    """Expires days. `rate` is objects a second."""

    store: RetryingStorage
    prefix: str
    clock: Clock
    new_id: IdSource
    rate: int

    def expire(self, plan: ExpiryPlan, proof: DayProof | None) -> int:
        """Write the tombstone unless it is there, then delete; return how many objects were deleted.

        `proof` is None if an earlier run judged the day and wrote its tombstone. Raises SafetyRefusal if the plan
        refuses the day, or another run expired it with another outcome.
        """
        refusal = plan.refusal or (proof.refusal if proof else None)
        if refusal:
            raise SafetyRefusal(f"{plan.day} may not be expired: {refusal}")
        deletions = plan.deletions
        if not deletions:
            return 0
        if proof is not None:
            self._put_tombstone(plan, proof)
        delete_all(self.store, deletions, self.rate, self.clock)
        return len(deletions)

    def _put_tombstone(self, plan: ExpiryPlan, proof: DayProof) -> None:
        key = tombstone_key(self.prefix, plan.day)
        tombstone = tombstone_of(plan, proof, writer=self.new_id(), now_ms=self.clock.now_ms())
        other = self.store.put_or_read(key, encode_tombstone(tombstone))
        if other is None:
            return
        stored = decode_tombstone(other.body, key)
        if (stored.generation, _chains(stored)) != (tombstone.generation, _chains(tombstone)):
            raise SafetyRefusal(
                f"{plan.day} is being expired by another run, which keeps other segments",
                next_step="let it come to its end, then run the command again",
            )


def tombstone_of(plan: ExpiryPlan, proof: DayProof, *, writer: str, now_ms: int) -> Tombstone:
    """Return the tombstone of a day that the plan expires and the proof covers."""
    kept = {key: plan.segments[key].shard_id for key in sorted(plan.kept)}
    return Tombstone(
        format=FORMAT,
        day=plan.day.isoformat(),
        generation=plan.generation,
        segments=len(plan.segments),
        bytes=plan.bytes,
        shards={
            shard_id: ExpiredShard(
                runs=[proof.run_of(run) for run in runs_of(proof.segments.get(shard_id, ()))],
                kept=[key for key, owner in kept.items() if owner == shard_id],
                proven=proof.proven(shard_id),
            )
            for shard_id in sorted({*proof.segments, *proof.judged.coverages})
            if shard_id in proof.segments or proof.proven(shard_id)
        },
        writer=writer,
        written_at=iso_time(now_ms),
        manifest=plan.manifest,
    )


def runs_of(segments: Iterable[SegmentMetadata]) -> Iterator[list[SegmentMetadata]]:
    """Yield the segments of one shard in runs, in which each names the one before it."""
    run: list[SegmentMetadata] = []
    for segment in sorted(segments, key=lambda segment: segment.first):
        if run and segment.after != run[-1].last:
            yield run
            run = []
        run.append(segment)
    if run:
        yield run


def _chains(tombstone: Tombstone) -> dict[str, tuple[list[tuple[str, str, str]], list[str]]]:
    """Return what two runs of the command must agree on, even if evidence arrives between them."""
    return {
        shard_id: ([(run.after, run.first, run.last) for run in shard.runs], shard.kept)
        for shard_id, shard in tombstone.shards.items()
        if shard.runs
    }
