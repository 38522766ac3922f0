"""From records to segments: how a shard's records are cut into runs, and how each run is committed.

A run is a contiguous stretch of the shard within one minute. Where it is cut never matters for correctness, only
that its slot is named by its first record and that it follows the chain's tail (docs/decisions/0003). Records are
taken in position order and never sorted: arrival times may step back inside a shard, runs are then shorter.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from archive.clock import Clock, IdSource
from archive.errors import BufferTooOld, DeliveryDoubt
from archive.format.metadata import ChainStart, Continuity, Predecessor, SegmentMetadata
from archive.format.minute import MINUTE_MS, minute_of, minute_text
from archive.format.position import Position
from archive.format.record import Record
from archive.format.segment import SegmentWriter
from archive.store.commit import Committed
from consumer.dedupe.deduplicator import Deduplicator
from consumer.processor.cutting import Slice, find_slice, slices_behind
from consumer.processor.sequence_store import SequenceStore


class Limits(NamedTuple):
    """When a run ends, beside the end of its minute. Bytes are uncompressed line bytes; the rest seconds."""

    max_segment_bytes: int
    max_segment_age_seconds: float
    linger_seconds: float
    flush_seconds: float | None
    store_timeout_seconds: float


class Archiver:
    """One shard's chain, as this processor extends it.

    `tail` is what the next segment follows; `delivered` the last position that KCL handed over. `on_chain_start`
    is called with the first position before the very first segment of the shard is committed.
    """

    def __init__(
        self,
        shard_id: str,
        sequences: SequenceStore,
        tail: Predecessor,
        limits: Limits,
        clock: Clock,
        new_id: IdSource,
        *,
        dedupe: Deduplicator | None = None,
        on_chain_start: Callable[[Position, ChainStart, float], Continuity],
        continuity: Continuity,
    ) -> None:
        self.shard_id = shard_id
        self.tail = tail
        self.delivered: Position | None = None
        self.write_through = False
        self._floor = tail if isinstance(tail, Position) else tail.adopted
        self._sequences = sequences
        self._limits = limits
        self._clock = clock
        self._new_id = new_id
        self._on_chain_start = on_chain_start
        self._dedupe = dedupe
        self._continuity = continuity
        self._run: SegmentWriter | None = None
        self._run_started = 0.0
        self._fresh_at = 0.0
        self._minute: int | None = None
        self._last_arrival = 0.0
        self._log = structlog.get_logger().bind(shard=shard_id)

    @property
    def last(self) -> Position | None:
        """The last archived (or adopted) position; None while the shard has none."""
        return self._floor

    @property
    def is_unbroken(self) -> bool:
        """Tell whether nothing may have been trimmed between the tail and what comes next."""
        return self._continuity is Continuity.PROVEN

    def take(self, records: Sequence[Record], received_at: float) -> None:
        """Take a batch in the shard's order; commits the runs that end in it.

        `received_at` is when the daemon's message was met, on the monotonic clock. The age of a buffer counts from
        there: any request between may take hours of somebody's suspended machine.

        Raises:
            DeliveryDoubt: a record does not lie after the one before it.
            BufferTooOld: the run outlived its guarantee.
            StoreError, FormatError: see `archive.store.commit`.
        """
        self._fresh_at = received_at
        start = 0
        while start < len(records):
            position, minute = records[start].position, minute_of(records[start].arrival_ms)
            self._check_order(position)
            self._enter(position, minute, len(records[start].data))
            skipped = self._floor is not None and position <= self._floor
            stretch = self._stretch(records, start, minute, skipped=skipped)
            if skipped:
                # A record of the archived part is still in the stream: nothing behind it has been trimmed.
                self._continuity = Continuity.PROVEN
            else:
                self._append(records[start : stretch.end], minute)
            self.delivered = stretch.last
            start = stretch.end

    def _check_order(self, position: Position) -> None:
        if self.delivered is not None and position <= self.delivered:
            raise DeliveryDoubt(
                f"record {position} of {self.shard_id} was delivered after {self.delivered}",
                next_step="nothing was checkpointed beyond the archive; the records will be delivered again",
            )

    def _enter(self, position: Position, minute: int, payload_bytes: int) -> None:
        """Commit the run that ends before `position`, and pass the stored ranges that begin by then."""
        run = self._run
        if run is not None and run.minute != minute:
            self.commit("minute")
        elif run is not None and run.raw_bytes + payload_bytes > self._limits.max_segment_bytes:
            self.commit("size")
        if minute != self._minute:
            self._sequences.meet(minute, self._floor)
            self._minute = minute
        while (stored := self._sequences.next_stored(position)) is not None:
            self.commit("stored_range")
            if self._floor is None or stored.last > self._floor:
                if isinstance(self.tail, ChainStart) and stored.last < position:
                    self._doubt_start(stored.last, position)
                self._follow(stored)

    def _stretch(self, records: Sequence[Record], start: int, minute: int, *, skipped: bool) -> Slice:
        """Find how far the records from `start` on go in one piece, up to the next thing that is stored.

        That is the end of the archived part (`skipped`), or the next stored range.
        """
        bound: tuple[int, int] | None = self._sequences.next_first
        if skipped and self._floor is not None:
            bound = (self._floor.sequence, self._floor.sub + 1)
        room = self._limits.max_segment_bytes - (0 if self._run is None else self._run.raw_bytes)
        return find_slice(records, start, minute, bound=bound, room=room)

    def _append(self, records: Sequence[Record], minute: int) -> None:
        if self._run is None:
            self._run = SegmentWriter(self.shard_id, minute)
            self._run_started = self._fresh_at
        self._write(self._run, records)

    def _write(self, run: SegmentWriter, records: Sequence[Record]) -> None:
        """Add records to a run, the producer duplicates among them beside it."""
        if self._dedupe is None:
            run.extend(records)
            return
        start = 0
        for index, duplicate_of in enumerate(self._dedupe.judge(records)):
            if duplicate_of is not None:
                if index > start:
                    run.extend(records[start:index])
                run.drop(records[index], duplicate_of)
                start = index + 1
        if start < len(records):
            run.extend(records[start:])

    def _doubt_start(self, stored_last: Position, oldest: Position) -> None:
        """Report that a start without a checkpoint met the chain's middle, and no record of the archived part.

        Retention trimmed those records, and perhaps records behind them that nobody archived.
        """
        self._continuity = Continuity.UNPROVEN
        self._log.error(
            "resumed_past_retention",
            position=str(stored_last),
            oldest=str(oldest),
            next_step="the lease table was lost after records were trimmed; records between these positions may be "
            "gone, and the audit will say unknown for this shard",
        )

    def _follow(self, other: SegmentMetadata) -> None:
        """Make another writer's segment the tail of the chain."""
        self.tail = self._floor = other.last
        if self._dedupe is not None:
            self._dedupe.adopt(other, self._sequences.watermarks_of(other))

    def tick(self, *, records: int) -> None:
        """End a callback that brought `records` records: commit what has waited long enough.

        Raises:
            BufferTooOld, StoreError, FormatError: as `take`.
        """
        now = self._clock.monotonic()
        if records:
            self._last_arrival = now
        if self._run is None:
            return
        age = now - self._run_started
        self._guard_age(self._run, now)
        if self.write_through:
            self.commit("near_retention")
        elif self._limits.flush_seconds is not None and age >= self._limits.flush_seconds:
            self.commit("flush")
        elif now - self._last_arrival >= self._limits.linger_seconds and self._is_over(self._run, age):
            self.commit("idle")

    def commit(self, reason: str, *, budget_seconds: float | None = None) -> None:
        """Commit what is held, however many slots that takes. Does nothing when nothing is held.

        After a slot was lost to a longer or shorter segment, the records that the winner already holds are
        dropped and the rest goes to the next slot, which is contested again.
        """
        budget = self._limits.store_timeout_seconds if budget_seconds is None else budget_seconds
        deadline = self._clock.monotonic() + budget
        run, self._run = self._run, None
        while run is not None:
            now = self._clock.monotonic()
            self._guard_age(run, now)
            run = self._commit_once(run, reason, now, deadline - now)

    def drop(self) -> int:
        """Throw away what is held; returns the number of records."""
        run, self._run = self._run, None
        return 0 if run is None else run.records

    def _commit_once(
        self, run: SegmentWriter, reason: str, now: float, budget_seconds: float
    ) -> SegmentWriter | None:
        # The age bounds the retries too: a slot may have been expired once the buffer is older than that.
        budget = min(budget_seconds, self._limits.max_segment_age_seconds - (now - self._run_started))
        if isinstance(self.tail, ChainStart):
            self._continuity = self._on_chain_start(run.span.first, self.tail, budget) or self._continuity
            # Its requests may have taken a day of a suspended machine: nothing may stand between guard and PUT.
            later = self._clock.monotonic()
            self._guard_age(run, later)
            budget -= later - now
        key, metadata, outcome = self._sequences.commit(
            run,
            after=self.tail,
            writer=self._new_id(),
            continuity=self._continuity,
            watermarks=None if self._dedupe is None else self._dedupe.watermarks(),
            budget_seconds=budget,
        )
        log = self._log.bind(key=key, minute=minute_text(run.minute), reason=reason)
        self._continuity = Continuity.PROVEN
        if isinstance(outcome, Committed):
            # Our slot was free when the PUT arrived, so nothing behind it had been archived, let alone expired.
            self._fresh_at = max(self._fresh_at, now)
            self.tail = self._floor = metadata.last
            if self._dedupe is not None:
                self._dedupe.committed(metadata)
            log.info(
                "segment_committed",
                first=str(metadata.first),
                last=str(metadata.last),
                records=metadata.records,
                dropped=metadata.dropped,
                payload_bytes=metadata.payload_bytes,
                body_bytes=len(run.body()),
                attempts=outcome.attempts,
                continuity=metadata.continuity.stored,
            )
            return None
        self._follow(outcome.winner)
        log.warning(
            "slot_lost",
            first=str(metadata.first),
            last=str(metadata.last),
            winner_last=str(outcome.winner.last),
            next_step="expected for a moment after a lease changed hands; if it lasts, two workers share a shard",
        )
        return self._recut(run, outcome.winner.last)

    def _recut(self, run: SegmentWriter, winner_last: Position) -> SegmentWriter | None:
        """Return the part of a run behind the winner's end, judged again behind it; None when there is none."""
        if run.span.last <= winner_last:
            return None
        rest = SegmentWriter(run.shard_id, run.minute)
        for stretch in slices_behind(run, winner_last):
            self._write(rest, stretch)
        return rest

    def _is_over(self, run: SegmentWriter, age: float) -> bool:
        over_by_wall_clock = self._clock.now_ms() >= (run.minute + 1) * MINUTE_MS
        return over_by_wall_clock or age >= MINUTE_MS / 1000 + self._limits.linger_seconds

    def _guard_age(self, run: SegmentWriter, now: float) -> None:
        age = now - self._run_started
        if age > self._limits.max_segment_age_seconds:
            self.drop()
            raise BufferTooOld(
                f"the buffer of {self.shard_id} is {age:.0f} s old, older than maxSegmentAgeSeconds "
                f"({self._limits.max_segment_age_seconds:g}); {run.records} buffered records were thrown away",
                next_step="nothing is lost, they will be delivered again; look for pauses of this process or host",
            )
