"""Collect a shard's records in buffers, and commit each buffer as a segment.

Records stay in position order: arrival times may step back inside a shard, and a buffer then ends earlier. `buffer`
decides when a buffer ends, `shard_start.ChainTail` holds what the next segment follows.
"""

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from consumer.dedupe.deduplicator import Deduplicator
from consumer.evidence.held import held_back
from consumer.evidence.shard_evidence import EvidenceClaim, ShardEvidence
from consumer.evidence.undelivered import keep_undelivered
from consumer.pipe.messages import Delivery
from consumer.pipe.pieces import RecordPiece
from consumer.processor.buffer import Buffer, Reason
from consumer.processor.cutting import check_order, find_slice, slices_behind
from consumer.processor.sequence_store import SequenceStore
from consumer.processor.shard_start import ChainTail
from consumer.services import Services
from consumer.stream.port import StreamIdentity
from minutebook.codec.lines import new_line_writer
from minutebook.format.metadata import ChainStart, Continuity, SegmentMetadata
from minutebook.format.minute import minute_of, minute_text
from minutebook.format.position import Position, SequenceRange
from minutebook.format.record import Measured, Record, WrittenLines
from minutebook.store.commit import Committed

_JUDGED_AT_ONCE: Final = 250
"""Records whose claims are sent together: a throttling table must not delay a buffer beyond its age."""

_LAST: Final = frozenset[Reason]({"shutdown", "shard_end"})
"""After a commit for one of these reasons, no more records are judged."""


class Archiver:
    """Extends one shard's chain.

    `identity` is the stream's. `begun` is the beginning that start.json names, if it may lie ahead. `delivered` is
    the last position that KCL delivered. `on_chain_start` is called with the span of the very first segment of the
    shard, and the arrival of its first record, before it is committed, `on_piece` after each piece of a batch.
    """

    def __init__(
        self,
        services: Services,
        shard_id: str,
        sequences: SequenceStore,
        chain: ChainTail,
        evidence: ShardEvidence,
        *,
        identity: StreamIdentity,
        begun: Position | None,
        dedupe: Deduplicator | None,
        on_chain_start: Callable[[SequenceRange, int, ChainStart, float], Continuity],
        on_piece: Callable[[], None],
    ) -> None:
        self.shard_id = shard_id
        self.chain = chain
        self.delivered: Position | None = None
        self._services = services
        self._sequences = sequences
        self._evidence = evidence
        self._identity = identity
        self._begun = begun
        self._on_chain_start = on_chain_start
        self._on_piece = on_piece
        self._dedupe = dedupe
        self._buffer: Buffer | None = None
        self._unread: Delivery | None = None
        self._fresh_at = 0.0
        self._minute: int | None = None
        # Deduplication needs records; without it their lines are enough.
        self._writer = new_line_writer(shard_id) if dedupe is None else None
        self._log = structlog.get_logger().bind(shard=shard_id)

    @property
    def reached(self) -> Position | None:
        """The last delivered position, else the last archived one; None if there is neither."""
        return self.delivered or self.chain.archived_through

    @property
    def is_empty(self) -> bool:
        """Return whether no records are held."""
        return self._buffer is None

    @property
    def held(self) -> tuple[int | None, int]:
        """The arrival of the oldest held record, in epoch milliseconds, and the number of bytes held."""
        return (None, 0) if self._buffer is None else (self._buffer.oldest_ms, self._buffer.segment.raw_bytes)

    def check_arrival(self, position: Position, arrival_ms: int) -> None:
        """Raise DeliveryDoubt if a record is stamped before its stream was made."""
        self._identity.check_arrival(f"record {position} of {self.shard_id}", arrival_ms)

    def take(self, delivery: Delivery, received_at: float) -> None:
        """Take a batch in the shard's order; commit the buffers that end in it, once all of it could be read.

        `received_at` is when the daemon's message came, on the monotonic clock. The age of a buffer counts from
        there: during any later request, the machine may be suspended for hours. Raises DeliveryDoubt if the message
        is malformed or a record not after the one before it, BufferTooOld if the buffer outlived its guarantee.
        """
        self._fresh_at = received_at
        self._unread = delivery
        for piece in delivery.pieces(self._writer):
            if isinstance(piece, RecordPiece):
                self._take_piece(piece)
            elif not self._take_written(piece.written):
                self._take_piece(piece.decode())
        self._unread = None

    def _take_written(self, written: WrittenLines) -> bool:
        """Take a piece of lines; False if it cannot go into one buffer as a whole, which is rare."""
        (first, last), measured = written.span, written.measured
        minute = minute_of(measured.arrival_min_ms)
        if minute != minute_of(measured.arrival_max_ms):
            return False
        check_order(self.shard_id, first, self.delivered)
        self.check_arrival(first, measured.arrival_min_ms)
        if self._buffer is not None and self._buffer.ends_before(minute, measured.payload_bytes) == "size":
            return False
        self._commit_before(first, minute, 0)
        is_archived = self.chain.holds(first)
        bound = self._bound(is_archived=is_archived)
        if measured.payload_bytes > self._room or (bound is not None and last >= bound):
            return False
        if is_archived:
            self._saw_archived()
        else:
            self._open_buffer(minute, measured.arrival_min_ms).segment.extend_written(written)
        self.delivered = last
        self._on_piece()
        return True

    def _take_piece(self, piece: RecordPiece) -> None:
        records, start = piece.records, 0
        most = None if self._dedupe is None else _JUDGED_AT_ONCE
        while start < len(records):
            position, minute = records[start].position, minute_of(records[start].arrival_ms)
            check_order(self.shard_id, position, self.delivered)
            self.check_arrival(position, records[start].arrival_ms)
            self._commit_before(position, minute, len(records[start].data))
            is_archived = self.chain.holds(position)
            bound, ascends = self._bound(is_archived=is_archived), piece.ascends
            part = find_slice(records, start, minute, ascends=ascends, bound=bound, room=self._room, most=most)
            if is_archived:
                self._saw_archived()
            else:
                buffer = self._open_buffer(minute, records[start].arrival_ms)
                self._hold(buffer, records[start : part.end], part.measured)
            self.delivered = part.last
            start = part.end
            self._on_piece()

    def _commit_before(self, position: Position, minute: int, payload_bytes: int) -> None:
        """Commit a buffer that ends before `position`, and adopt the stored ranges that begin at or before it."""
        if minute != self._minute:
            self._sequences.load_minute(minute, self.chain.archived_through)
            self._minute = minute
        while (stored := self._sequences.next_stored(position)) is not None:
            if not self._leave_out(stored):
                self.commit("stored_range")
            if not self.chain.holds(stored.last):
                if isinstance(self.chain.tail, ChainStart) and stored.last < position:
                    self._doubt_start(stored.last, position)
                self._adopt_tail(stored)
        if self._begun is not None and position >= self._begun:
            self.commit("beginning")
            self._begun = None
        reason: Reason | None = None
        if self._buffer is not None:
            reason = self._buffer.ends_before(minute, payload_bytes)
            if reason is None and self._buffer.is_aged(self._services.clock.monotonic()):
                reason = "age"
        if reason is not None:
            self.commit(reason)

    def _leave_out(self, stored: SegmentMetadata) -> bool:
        """Drop held records that KCL withheld from the writer of the stored segment behind them; return whether so.

        That segment follows our tail. A segment of what lies between them would follow it, too: a forked chain.
        Producer duplicates may have been judged by the held records, so deduplication archives them all the same.
        """
        buffer, services, origin = self._buffer, self._services, self._evidence.origin
        if buffer is None or self._dedupe is not None or stored.after != self.chain.tail:
            return False
        first, _ = buffer.segment.span
        withheld = held_back(services, self.shard_id, origin.info, first, stored.first)
        if withheld is None:
            return False
        keep_undelivered(services, self.shard_id, withheld)
        self._buffer = None
        return True

    def _doubt_start(self, stored_last: Position, oldest: Position) -> None:
        """Mark the chain unproven: a start without a checkpoint met its middle, and retention trimmed the rest."""
        self.chain.doubt(Continuity.UNPROVEN)
        self._log.error(
            "resumed_past_retention",
            position=str(stored_last),
            oldest=str(oldest),
            next_step="the lease table was lost after records were trimmed; records between these positions may be "
            "gone, and the audit will say unknown for this shard",
        )

    def _bound(self, *, is_archived: bool) -> tuple[int, int] | None:
        """Return where the next slice must end: after the archived part, or where a stored range begins.

        Or where the chain begins: another processor may have begun it behind records that KCL had skipped.
        """
        through = self.chain.archived_through
        if is_archived and through is not None:
            return (through.sequence, through.sub + 1)
        stored = self._sequences.next_first
        if self._begun is None or (stored is not None and stored < self._begun):
            return stored
        return self._begun

    @property
    def _room(self) -> int:
        return self._services.settings.max_segment_bytes if self._buffer is None else self._buffer.room

    def _saw_archived(self) -> None:
        """Note that the stream still holds an archived record, so nothing after it has been trimmed."""
        self.chain.continuity = Continuity.PROVEN
        self._evidence.saw_archived()

    def _open_buffer(self, minute: int, arrival_ms: int) -> Buffer:
        """Return the buffer; if there is none, begin one with a record of this minute and arrival."""
        if self._buffer is None:
            settings, compression = self._services.settings, self._sequences.compression
            self._buffer = Buffer(self.shard_id, minute, settings, self._fresh_at, arrival_ms, compression)
        return self._buffer

    def _hold(self, buffer: Buffer, records: Sequence[Record], measured: Measured | None = None) -> None:
        """Judge records and add them to a buffer; producer duplicates go beside it."""
        buffer.hold(records, () if self._dedupe is None else self._dedupe.judge(records), measured)

    def _extend_tail(self, metadata: SegmentMetadata) -> None:
        """Make our own segment the tail of the chain."""
        self.chain.tail = metadata.last
        self._evidence.committed(metadata)
        if self._dedupe is not None:
            self._dedupe.committed(metadata)

    def _adopt_tail(self, other: SegmentMetadata) -> None:
        """Make another writer's segment the tail of the chain."""
        self.chain.tail = other.last
        self._evidence.adopted(other)
        # For the supervisor, which looks behind it while the shard is quiet.
        self._log.debug(
            "segment_adopted",
            minute=minute_text(other.minute),
            last=str(other.last),
            covered_until_ms=self._evidence.until_ms,
        )
        if self._dedupe is not None:
            self._dedupe.adopt(other, self._sequences.watermarks_of(other))

    def tick(self, *, is_fed: bool, near_retention: bool) -> None:
        """End a callback (`is_fed`: it brought records): commit a buffer that has waited long enough.

        Raises as `take`.
        """
        self._tell()
        if self._buffer is None:
            return
        now = self._services.clock.monotonic()
        if is_fed:
            self._buffer.last_arrival = now
        self._buffer.check_age(now)
        reason = self._buffer.due(now, self._services.clock.now_ms(), near_retention=near_retention)
        if reason is not None:
            self.commit(reason)

    def commit(self, reason: Reason, *, budget_seconds: float | None = None) -> None:
        """Commit the held records, in as many slots as that takes.

        After another writer has won a slot, the records in its segment are dropped; the rest goes to the next slot,
        which may be lost again.
        """
        budget = self._services.settings.store_timeout_seconds if budget_seconds is None else budget_seconds
        deadline = self._services.clock.monotonic() + budget
        buffer, self._buffer = self._buffer, None
        if buffer is not None and self._unread is not None:
            self._unread.check_rest()
        while buffer is not None:
            now = self._services.clock.monotonic()
            buffer.check_age(now)
            buffer = self._commit_once(buffer, reason, now, deadline - now)
        self._tell(is_last=reason in _LAST)

    def drop(self) -> int:
        """Drop the held records; return their number."""
        buffer, self._buffer = self._buffer, None
        self._tell(is_last=True)
        return 0 if buffer is None else buffer.segment.records

    def _tell(self, *, is_last: bool = False) -> None:
        if self._dedupe is not None:
            self._dedupe.tick(is_last=is_last)

    def _commit_once(self, buffer: Buffer, reason: Reason, now: float, budget_seconds: float) -> Buffer | None:
        # The age limits the retries, too: the slot of an older buffer may have been expired.
        budget = min(budget_seconds, buffer.seconds_left(now))
        segment = buffer.segment
        claim, budget = self._claim(buffer, now, budget)
        key, metadata, outcome = self._sequences.commit(
            segment,
            after=self.chain.tail,
            writer=self._services.new_id(),
            claim=claim,
            watermarks=None if self._dedupe is None else self._dedupe.watermarks(),
            budget_seconds=budget,
        )
        first, last = map(str, metadata.span)
        log = self._log.bind(key=key, minute=minute_text(segment.minute), reason=reason, first=first, last=last)
        base = self._evidence.base
        self.chain.continuity = Continuity.PROVEN
        if isinstance(outcome, Committed):
            # Our slot was free when the PUT arrived, so nothing after it had been archived or expired.
            self._fresh_at = max(self._fresh_at, now)
            self._extend_tail(metadata)
            log.info(
                "segment_committed",
                records=metadata.records,
                dropped=metadata.dropped,
                payload_bytes=metadata.payload_bytes,
                body_bytes=len(segment.body()),
                attempts=outcome.attempts,
                commit_seconds=round(self._services.clock.monotonic() - now, 3),
                covered_from_ms=self._evidence.covers_from(metadata, base),
                covered_until_ms=self._evidence.until_ms,
                continuity=metadata.continuity,
            )
            return None
        self._adopt_tail(outcome.winner)
        log.warning(
            "slot_lost",
            winner_last=str(outcome.winner.last),
            next_step="expected for a moment after a lease changed hands; if it lasts, two workers share a shard",
        )
        return self._recut(buffer, outcome.winner.last)

    def _claim(self, buffer: Buffer, now: float, budget: float) -> tuple[EvidenceClaim, float]:
        """Write start.json before a first segment; return what this segment claims, and the rest of the budget."""
        tail = self.chain.tail
        if isinstance(tail, ChainStart):
            self.chain.doubt(self._on_chain_start(buffer.segment.span, buffer.oldest_ms, tail, budget))
        claim = self._evidence.claim(tail, self.chain.continuity, budget_seconds=budget)
        # The machine may have been suspended during these requests: check the age right before the PUT.
        later = self._services.clock.monotonic()
        buffer.check_age(later)
        return claim, budget - (later - now)

    def _recut(self, buffer: Buffer, winner_last: Position) -> Buffer | None:
        """Return the part of a buffer after the winner's end, judged again; None if there is none."""
        if buffer.segment.span.last <= winner_last:
            return None
        rest = buffer.rest()
        for part in slices_behind(buffer.segment, winner_last):
            self._hold(rest, part)
        return rest
