"""Carrying out the plan for one day: the tombstone first, then the deletes, in batches with a bounded rate.

    crash before the tombstone      nothing has happened
    crash after it                  the day counts as expired; the next run deletes what is left, by the tombstone
    crash between two batches       the same

Deleting re-opens slots. That is safe only because no writer can hold a record of the day any more: the stream trimmed
it longer ago than a buffer may live (the command checks that before anything else).
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol

from archive.clock import Clock, IdSource
from archive.errors import ObjectVanished, SafetyRefusal
from archive.format.markers import JSON_TYPE
from archive.format.metadata import SegmentMetadata
from archive.format.tombstone import (
    FORMAT,
    ExpiredRun,
    ExpiredShard,
    Tombstone,
    decode_tombstone,
    encode_tombstone,
    tombstone_key,
)
from archive.retry import Backoff, until_known
from archive.store.commit import stored_segment
from archive.store.objects import ObjectStore, PutOutcome
from consumer.expire.plan import DayPlan
from consumer.processor.shard_start import iso_time

BATCH: Final = 1000
"""The most keys that one DeleteObjects takes."""
_HEADS_AT_ONCE: Final = 16
Each = Callable[[Callable[[str], SegmentMetadata], Iterable[str]], Iterable[SegmentMetadata]]
"""A `map` that may run its calls at once; results in order."""


def in_threads(read: Callable[[str], SegmentMetadata], keys: Iterable[str]) -> list[SegmentMetadata]:
    """Run the reads sixteen at a time."""
    with ThreadPoolExecutor(_HEADS_AT_ONCE) as pool:
        return list(pool.map(read, keys))


class Deleter(Protocol):
    """Deletes objects. Safe to repeat: a key that is not there counts as deleted."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete up to `BATCH` keys; raises `OutcomeUnknown` or `StoreRefused`."""
        ...


class Gravedigger(NamedTuple):
    """What it takes to expire a day. `rate` is objects a second."""

    store: ObjectStore
    deleter: Deleter
    prefix: str
    clock: Clock
    new_id: IdSource
    waits: Callable[[], Backoff]
    rate: int
    each: Each = in_threads

    def expire(self, plan: DayPlan) -> int:
        """Write the tombstone unless it is there, then delete; return how many objects were deleted.

        Raises:
            SafetyRefusal: the plan refuses the day, or another run expired it with another outcome.
            FormatError, ForeignObject, ObjectVanished: a segment is not what its name says; nothing was deleted.
            StoreUnavailable, StoreRefused: the store.
        """
        if plan.refusal:
            raise SafetyRefusal(f"{plan.day} may not be expired: {plan.refusal}")
        doomed = plan.doomed
        if not doomed:
            return 0
        if plan.tombstone is None:
            self._bury(plan)
        for batch in _batches(doomed, min(BATCH, self.rate)):
            until_known(lambda batch=batch: self.deleter.delete(batch), self.waits(), f"DELETE {len(batch)} objects")  # type: ignore[misc]
            self.clock.sleep(len(batch) / self.rate)
        return len(doomed)

    def _bury(self, plan: DayPlan) -> None:
        key = tombstone_key(self.prefix, plan.day)
        tombstone = self._tombstone(plan)
        body = encode_tombstone(tombstone)
        outcome = until_known(lambda: self.store.put_if_absent(key, body, {}, JSON_TYPE), self.waits(), f"PUT {key}")
        if outcome is PutOutcome.CREATED:
            return
        stored = read_tombstone(self.store, key, self.waits)
        if stored is None:
            raise ObjectVanished(f"{key} exists for PUT and not for GET", next_step="find out who deletes objects")
        if (stored.generation, stored.shards) != (tombstone.generation, tombstone.shards):
            raise SafetyRefusal(
                f"{plan.day} is being expired by another run, which keeps other segments",
                next_step="let it come to its end, then run the command again",
            )

    def _tombstone(self, plan: DayPlan) -> Tombstone:
        by_shard: dict[str, list[SegmentMetadata]] = {}
        heads = self.each(
            lambda key: stored_segment(self.store, self.prefix, key, self.waits()), sorted(plan.segments)
        )
        for metadata in heads:
            by_shard.setdefault(metadata.shard_id, []).append(metadata)
        kept = {key: plan.segments[key].shard_id for key in sorted(plan.kept)}
        return Tombstone(
            format=FORMAT,
            day=plan.day.isoformat(),
            generation=plan.generation,
            segments=len(plan.segments),
            bytes=plan.bytes,
            shards={
                shard_id: ExpiredShard(
                    runs=runs_of(metadata), kept=[key for key, owner in kept.items() if owner == shard_id]
                )
                for shard_id, metadata in sorted(by_shard.items())
            },
            writer=self.new_id(),
            written_at=iso_time(self.clock.now_ms()),
        )


def runs_of(segments: Sequence[SegmentMetadata]) -> list[ExpiredRun]:
    """Join the segments of one shard into runs, in which each names the one before it."""
    ordered = sorted(segments, key=lambda one: one.first)
    if not ordered:
        return []
    breaks = [0]
    breaks += [n for n, (one, after) in enumerate(itertools.pairwise(ordered), 1) if after.after != one.last]
    return [
        ExpiredRun(
            after=str(ordered[begin].after),
            first=str(ordered[begin].first),
            last=str(ordered[end - 1].last),
            segments=end - begin,
        )
        for begin, end in itertools.pairwise([*breaks, len(ordered)])
    ]


def read_tombstone(store: ObjectStore, key: str, waits: Callable[[], Backoff]) -> Tombstone | None:
    """Return a day's tombstone; None when the day is not expired. Raises FormatError."""
    found = until_known(lambda: store.get(key), waits(), f"GET {key}")
    return None if found is None else decode_tombstone(found.body, key)


def _batches(keys: Sequence[str], size: int) -> list[Sequence[str]]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]
