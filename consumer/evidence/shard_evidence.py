"""The base of a shard's next piece of evidence, and what that piece may claim (docs/decisions/0018).

    segment of this run ....... its own claim: the next segment leaves its continuity to the reader
    segment of another one .... its minute; after a lost slot, or a stored range that was found by LIST
    read mark ................. its `until`
    nothing known yet ......... the minute of the record at the chain's tail, if the stream still holds it. Else the
                                newest read mark of today and yesterday at that position. Else the application's
                                start, or the birth of a shard without a segment: mostly too old to prove anything

Claims are judged after the records were delivered, by the service's time (`minutebook.coverage.continuity`).
"""

from contextlib import suppress
from typing import Final, NamedTuple

import structlog

from consumer.evidence.birth import ShardOrigin, is_child, prove_birth
from consumer.evidence.held import oldest_record, record_at
from consumer.evidence.tip_walk import TipWalk
from consumer.services import Services
from minutebook.coverage.continuity import Base, Held, first_from, is_young, judge_continuity, must_state
from minutebook.coverage.evidence import SURELY_HELD_MS, adopted_evidence, mark_evidence, segment_link
from minutebook.errors import FormatError
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.coverage_markers import AdoptedMarker, adopted_marker_key
from minutebook.format.day import Day, day_of_ms
from minutebook.format.metadata import ChainStart, Continuity, Predecessor, SegmentMetadata
from minutebook.format.minute import MINUTE_MS, minute_of
from minutebook.format.position import Position
from minutebook.format.read_mark import ReadMark, parse_read_mark_key, read_mark_folder
from minutebook.store.markers import read_marker

SEEN_MS: Final = 5 * MINUTE_MS


class EvidenceClaim(NamedTuple):
    """What a segment claims; None leaves it to the reader. `evidence_ms` is set with a proven continuity."""

    continuity: Continuity | None
    evidence_ms: int | None = None


class ShardEvidence:
    """The evidence of one shard known to this processor.

    `until_ms` is how far the last durable piece reaches; None if nothing is known. `base` is that of the next piece;
    None: nothing is known, or a child has no evidence yet.
    """

    def __init__(self, services: Services, origin: ShardOrigin) -> None:
        self.origin = origin
        self.until_ms: int | None = None
        self.is_doubt_told = False
        self._services = services
        self.base: Base | None = None
        self._is_known = False
        self._is_child = False
        self._is_own = False
        self._is_mark = False
        self._is_tail = False
        self._seen_ms: int | None = None
        self._log = structlog.get_logger().bind(shard=origin.shard_id)

    # What happened

    def committed(self, metadata: SegmentMetadata) -> None:
        """Make our own segment the base."""
        base = None if metadata.continuity in {Continuity.UNPROVEN, Continuity.LOST} else self.base
        self._stand_on_segment(metadata, base)
        self._is_own = True

    def adopted(self, metadata: SegmentMetadata) -> None:
        """Make another writer's segment the base, which became the chain's tail."""
        self._stand_on_segment(metadata, None)

    def marked(self, mark: ReadMark) -> None:
        """Make our read mark the base."""
        self._stand_on(Base(mark.until_ms, mark.position), mark.until_ms)
        self._is_mark = self.is_doubt_told = True

    def covers_from(self, metadata: SegmentMetadata, base: Base | None) -> int | None:
        """Return since when our own segment, which followed `base`, covers its shard; in doubt: its `until`."""
        if metadata.continuity is None:
            return None if base is None else base.until_ms
        return metadata.evidence_ms if metadata.continuity is Continuity.PROVEN else self.until_ms

    def saw_archived(self) -> None:
        """Note that an archived record was delivered: for a while, nothing after it can be trimmed."""
        self._seen_ms = self._services.stream.service_ms()

    def found_tail(self, position: Position, arrival_ms: int) -> None:
        """Make the record at the chain's tail, which the stream holds, the base unless there is a newer one."""
        if not self._is_known:
            until_ms = minute_of(arrival_ms) * MINUTE_MS - ARRIVAL_STEP_BACK_MS
            self._stand_on(Base(until_ms, position), until_ms)
            self._is_tail = True

    def _stand_on_segment(self, metadata: SegmentMetadata, base: Base | None) -> None:
        link = segment_link(metadata)
        until_ms = link.begins_ms if metadata.is_doubtful else max(link.until_ms, base.until_ms if base else 0)
        self._stand_on(Base(until_ms, metadata.last), until_ms)

    def _stand_on(self, base: Base | None, until_ms: int | None) -> None:
        self.base, self.until_ms = base, until_ms
        self._is_known = True
        self._is_child = self._is_own = self._is_mark = self._is_tail = self.is_doubt_told = False
        self._seen_ms = None

    # What is known

    @property
    def is_founded(self) -> bool:
        """Return whether the next piece has a base: its `from` is the base's `until`, or the shard's birth."""
        return self.base is not None or self._is_child

    @property
    def young_mark(self) -> Base | None:
        """The base if it is a read mark and nothing after it can have been trimmed."""
        return self.base if self._is_mark and self.is_young() else None

    def is_young(self) -> bool:
        """Return whether nothing after the base can have been trimmed."""
        now_ms = self._services.stream.service_ms()
        return self.base is not None and now_ms is not None and is_young(self.base.until_ms, now_ms)

    def look_up(self, tail: Predecessor, services: Services | None = None) -> bool:
        """Find the base of the next piece, once; `services` may have a smaller retry budget than ours.

        Returns whether it read the record at the chain's tail from the stream.
        """
        services = services or self._services
        if self._is_known:
            return False
        position = position_of(tail)
        record = None if position is None else record_at(services, self.origin.shard_id, position)
        if isinstance(tail, Position) and record is not None:
            self.found_tail(tail, record.arrival_ms)
        else:
            self.look_up_beyond(tail, services)
        return record is not None

    def look_up_beyond(self, tail: Predecessor, services: Services) -> None:
        """Find the base if the stream does not hold the record at the chain's tail."""
        if self._is_known:
            return
        position = position_of(tail)
        # Older marks than yesterday's cannot prove anything.
        untils = [mark.until_ms for mark in self._recent_marks(services) if mark.position == position]
        if untils:
            self._stand_on_mark(max(untils), position)
            self.is_doubt_told = True
        elif isinstance(tail, ChainStart) and position is None:
            self._stand_on_beginning(services)
        elif isinstance(tail, ChainStart):
            self._stand_on(self._adoption(position, services), None)
        else:
            # This proves something only if the application began within the last day: nothing is trimmed since.
            self._stand_on(Base(self.origin.application.begin_ms, position), None)

    def find_newer_mark(self, services: Services) -> bool:
        """If the base is the record at the chain's tail, search once for a proven mark that reaches further.

        Today's marks come first, then yesterday's, which may have the last one soon after midnight. Returns whether
        there was one.
        """
        now_ms = services.stream.service_ms()
        if not self._is_tail or self.base is None or now_ms is None:
            return False
        self._is_tail = False
        base, today = self.base, day_of_ms(now_ms)
        for day in (today, today.shift(-1)):
            marks = [mark for mark in self._marks_of(day, services) if mark.position == base.position]
            proven = [mark.until_ms for mark in marks if mark.continuity is Continuity.PROVEN]
            if proven and max(proven) > base.until_ms:
                self._stand_on_mark(max(proven), base.position)
                return True
        return False

    def _stand_on_mark(self, until_ms: int, position: Position | None) -> None:
        """Make a read mark of an earlier run the base; the supervisor's next look stands on it, too."""
        self._stand_on(Base(until_ms, position), until_ms)
        self._is_mark = True
        last = None if position is None else str(position)
        self._log.debug("read_mark_found", last=last, covered_until_ms=until_ms)

    def _stand_on_beginning(self, services: Services) -> None:
        is_born_later = is_child(services, self.origin)
        self._stand_on(None if is_born_later else Base(self.origin.application.begin_ms), None)
        self._is_child = is_born_later

    def _adoption(self, position: Position | None, services: Services) -> Base | None:
        """Return the base that an adopted checkpoint gives: the time at which S3 stored its marker."""
        key = adopted_marker_key(services.settings.prefix, self.origin.shard_id)
        head, marker = services.store.head(key), read_marker(services.store, key, AdoptedMarker)
        if head is None or marker is None or position is None or marker.adopted_position() != position:
            return None
        shard_id, stored_ms = self.origin.shard_id, head.last_modified_ms
        return Base(adopted_evidence(shard_id, position, stored_ms=stored_ms, held=marker.held).until_ms, position)

    def _recent_marks(self, services: Services) -> list[ReadMark]:
        now_ms = services.stream.service_ms()
        if now_ms is None:
            return []
        today = day_of_ms(now_ms)
        return [mark for day in (today, today.shift(-1)) for mark in self._marks_of(day, services)]

    def _marks_of(self, day: Day, services: Services) -> list[ReadMark]:
        prefix, marks = services.settings.prefix, []
        for key in services.store.keys(f"{read_mark_folder(prefix, day)}{self.origin.shard_id}/"):
            # Skip keys of later versions and foreign objects: they must not stop the shard.
            with suppress(FormatError):
                marks.append(parse_read_mark_key(prefix, key)[1])
        # A mark is stored under each of its days, the last of them last. Its writer may have died before: then it
        # does not prove the later days, and nothing may stand on it.
        whole = [mark for mark in marks if day_of_ms(mark.until_ms) == day]
        return [mark for mark in whole if not mark_evidence(mark).is_loss]

    # What may be claimed

    def claim(self, tail: Predecessor, continuity: Continuity, *, budget_seconds: float) -> EvidenceClaim:
        """Return the claim of a segment after `tail` whose records were delivered.

        `continuity` is that of the chain: a doubt that no read mark records yet is claimed.
        """
        if continuity is not Continuity.PROVEN and not self.is_doubt_told:
            return EvidenceClaim(continuity)
        services = self._services.within(budget_seconds)
        self.look_up(tail, services)
        now_ms = services.stream.service_ms()
        if self._is_own and self.base is not None:
            asked_ms = self.base.until_ms if now_ms is None else now_ms
            if not must_state(self.base, asked_ms, follows_own_segment=True):
                return EvidenceClaim(None)
        is_seen = self._is_seen_lately()
        is_clear = self.base is None or is_seen or self.is_young()
        judged = self.judge(Held(tail=is_seen) if is_clear else self._ask_held(tail, services), services)
        return EvidenceClaim(judged, first_from(self.base) if judged is Continuity.PROVEN else None)

    def judge(self, held: Held, services: Services) -> Continuity:
        """Judge the next piece after its read; `held` is what the stream held then."""
        if self.base is None:
            return prove_birth(services, self.origin) if self._is_child else Continuity.UNPROVEN
        now_ms = services.stream.service_ms()
        # Without a time of the service, nothing counts as young.
        return judge_continuity(self.base, self.base.until_ms + SURELY_HELD_MS if now_ms is None else now_ms, held)

    def judge_walk(self, tail: Predecessor, walk: TipWalk, services: Services) -> Continuity:
        """Judge a walk after `tail` that reached the tip or the shard's end."""
        if position_of(tail) is None:
            is_clear = self.base is None or self.is_young()
            held = Held() if is_clear else Held(oldest=oldest_record(services, self.origin.shard_id))
            return self.judge(held, services)
        if walk.record is None and not self._is_mark:
            # The tail is trimmed, and its aggregate may have had more records; a mark would exclude that.
            return Continuity.UNPROVEN
        return self.judge(Held(tail=walk.record is not None), services)

    def _is_seen_lately(self) -> bool:
        """Return whether an archived record was delivered in the last five minutes, just before the held records."""
        now_ms = self._services.stream.service_ms()
        return self._seen_ms is not None and now_ms is not None and now_ms - self._seen_ms < SEEN_MS

    def _ask_held(self, tail: Predecessor, services: Services) -> Held:
        position = position_of(tail)
        if position is None:
            return Held(oldest=oldest_record(services, self.origin.shard_id))
        return Held(tail=record_at(services, self.origin.shard_id, position) is not None)


def position_of(tail: Predecessor) -> Position | None:
    """Return the position of a chain's end; None for a shard without an archived or adopted position."""
    return tail if isinstance(tail, Position) else tail.adopted
