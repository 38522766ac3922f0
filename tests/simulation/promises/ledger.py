"""What is promised: checked at every new object and checkpoint, and on the whole archive at the end.

Independent of the consumer: only keys, metadata, bodies and the shard's own records are looked at.
"""

from itertools import pairwise
from typing import Final

from minutebook.coverage.evidence import segment_link
from minutebook.format.keys import parse_segment_key
from minutebook.format.markers import ApplicationRecord, EndMarker, StartMarker, decode_marker
from minutebook.format.metadata import ChainStart, Continuity, SegmentMetadata
from minutebook.format.minute import minute_of
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, decode_read_mark
from minutebook.format.segment import read_records
from tests.fakes.daemon_double import SHARD_END, Checkpoint
from tests.simulation.promises.ends import check_end
from tests.simulation.promises.objects import Segment
from tests.simulation.promises.withheld import Withheld
from tests.simulation.services.bucket import PREFIX, Stored
from tests.simulation.services.kinesis import HOUR, SimShard, SimStream
from tests.simulation.world import Violation, World, name

EDGE_SECONDS: Final = 1800
"""A buffer may be 15 minutes old, and its PUT 15 minutes on its way: nearer to being trimmed nothing is promised."""


class Ledger:
    """The truth about one stream, beside its archive.

    `committed` tells for each record which segment holds it; `ends` the numbers of the records that end one.
    `at_edge` are those that were delivered when retention was about to trim them (`near_retention`, at error level):
    when it does so while they are buffered, and another start begins behind them, nothing is promised.

    `given_up` are those that an operator gave up by `adoptCheckpoint` after a start was refused (`accepts_gap`): the
    first segment behind them must say `unproven`.
    """

    def __init__(self, world: World, stream: SimStream) -> None:
        self.world = world
        self.stream = stream
        self.shard: SimShard = stream.shard
        self.segments: dict[str, Segment] = {}
        self.committed: dict[int, str] = {}
        self.ends: set[int] = set()
        self.adopted: Position | None = None
        self.start: StartMarker | None = None
        self.end: EndMarker | None = None
        self.application: ApplicationRecord | None = None
        self.shard_end_written = False
        self.at_edge: set[int] = set()
        self.beyond_promise = False
        self.accepts_gap = False
        self.given_up: set[int] = set()
        self.ended_empty = False
        self.doubted: set[Position | None] = set()
        self.withheld = Withheld(world, self.shard)

    def created(self, key: str, stored: Stored) -> None:
        """Look at a new object."""
        if key.endswith("_application.json"):
            self.application = decode_marker(stored.body, ApplicationRecord, key)
            self.world.compression = self.application.compression
        elif key.endswith("start.json"):
            self.start = decode_marker(stored.body, StartMarker, key)
        elif key.endswith("end.json"):
            self.end = decode_marker(stored.body, EndMarker, key)
            self.withheld.named(key, map(int, self.end.undelivered))
            self.ended_empty = not self.segments and self.shard.trimmed == len(self.shard.everything)
        elif key.startswith(f"{PREFIX}_read/"):
            self._mark(key, stored)
        elif key.startswith(f"{PREFIX}_undelivered/"):
            self.withheld.kept(key, stored)
        elif not key.startswith(f"{PREFIX}_shards/"):
            self._segment(key, stored)

    def delivered(self, number: int) -> None:
        """Note a delivery; records of one batch lie behind `number`."""
        left = self.shard.put_at[number] + self.stream.retention_hours * HOUR - self.world.now
        if left <= EDGE_SECONDS:
            self.at_edge.add(number)

    def checkpointed(self, checkpoint: Checkpoint) -> None:
        """Look at a checkpoint at the moment it is stored: all before it is durable, and it ends a segment."""
        if self.beyond_promise:
            return
        if checkpoint == SHARD_END:
            self.shard_end_written = True
            if not self.shard.closed:
                raise Violation("SHARD_END was checkpointed for a shard that is open")
            if self.end is None:
                raise Violation("SHARD_END was checkpointed without end.json")
            reach = len(self.shard.everything)
        else:
            assert isinstance(checkpoint, Position)
            last = self.shard.index.get(checkpoint)
            if last is None or last not in self.ends:
                raise Violation(f"the checkpoint {name(last)} ends no segment")
            reach = last + 1
        for number in range(self.shard.trimmed, reach):
            if not self._is_accounted_for(number):
                raise Violation(f"the checkpoint passes {name(number)}, which is not durable")

    def _segment(self, key: str, stored: Stored) -> None:
        metadata = SegmentMetadata.decode(stored.metadata)
        parsed = parse_segment_key(PREFIX, key)
        if (parsed.minute, parsed.first) != (metadata.minute, metadata.first):
            raise Violation(f"{key} and its metadata name different segments")
        if parsed.compression is not self.world.compression:
            raise Violation(f"{key} is not of the archive's compression: another writer has a slot of its own")
        self.world.tally[f"segments: {parsed.compression}"] += 1
        first, last = self.shard.index.get(metadata.first), self.shard.index.get(metadata.last)
        if first is None or last is None:
            raise Violation(f"{key} holds records of another stream")
        for number in range(first, last + 1):
            if number in self.committed:
                other = self.committed[number]
                if self.beyond_promise or self._is_excused({first, self.segments[other].first}):
                    return
                raise Violation(f"{name(number)} is archived twice: in {other} and in {key}")
            self.committed[number] = key
        if self.accepts_gap and self._begins_again(metadata):
            self.given_up.update(range(max((end for end in self.ends if end < first), default=-1) + 1, first))
            self.world.happened("checked: a gap that the operator accepted")
        self.ends.add(last)
        self.segments[key] = Segment(first, last, metadata, stored.body, parsed.compression)
        if metadata.continuity is not None:
            self.world.tally[f"segments: {metadata.continuity}"] += 1
        if metadata.continuity is Continuity.PROVEN and not self.beyond_promise:
            assert metadata.evidence_ms is not None
            self._check_claim(key, metadata.evidence_ms, segment_link(metadata).until_ms, last)

    def _is_excused(self, firsts: set[int]) -> bool:
        """Tell whether two segments that begin so may hold a record twice: nothing more is promised of the shard."""
        if firsts & self.shard.strays:
            why = "two deliveries were filtered differently"
        elif firsts & self.at_edge:
            why = "retention passed a writer's buffer"
        else:
            return False
        self.beyond_promise = True
        self.world.happened(f"beyond the promise: {why}")
        return True

    def _mark(self, key: str, stored: Stored) -> None:
        """Look at a read mark: it names the end of a segment, and what it claims is true."""
        mark = decode_read_mark(stored.body, PREFIX, key)
        if self.beyond_promise:
            return
        last = None if mark.position is None else self.shard.index.get(mark.position)
        # A checkpoint that somebody restored may end no segment: what a mark doubts, later ones may stand on.
        is_doubted = mark.continuity is not Continuity.PROVEN or mark.position in self.doubted
        is_inside = is_doubted and last in self.committed
        if mark.position not in {None, self.adopted} and last not in self.ends and not is_inside:
            raise Violation(f"{key} names {name(last)}, which ends no segment")
        if mark.kind is MarkKind.READ and self.shard.closed and mark.until_ms > self._closed_ms():
            raise Violation(f"{key} calls a closed shard open")
        self.world.tally[f"read marks: {mark.kind}, {mark.continuity}"] += 1
        if mark.continuity is not Continuity.PROVEN:
            self.doubted.add(mark.position)
        else:
            self._check_claim(key, mark.from_ms, mark.until_ms, last)
            margin_ms = self.world.stamps.beyond_ms
            is_whole = mark.kind is MarkKind.END and mark.position is not None
            until_ms = self.world.now * 1000 if is_whole else mark.until_ms - margin_ms
            begun_ms = self.application.start_at_ms if self.application else None
            self.withheld.passed(key, mark.position, mark.from_ms + margin_ms, until_ms, begun_ms)
        self.withheld.named(key, mark.undelivered)

    def _closed_ms(self) -> float:
        return (self.stream.closed_at or self.world.now) * 1000

    def _check_claim(self, key: str, from_ms: int, until_ms: int, last: int | None) -> None:
        """Check that everything that was put between the two times lies at or before `last`, and is archived.

        No claim reaches back over a break that the chain reports: an audit sees to that. Where stamps step back
        further than evidence allows for, so much is left out.
        """
        margin_ms = self.world.stamps.beyond_ms
        doubtful = (segment.first for segment in self.segments.values() if segment.metadata.is_doubtful)
        since = max((first for first in doubtful if last is not None and first <= last), default=0)
        for number, put_at in enumerate(self.shard.put_at):
            if number < since or not from_ms + margin_ms < put_at * 1000 <= until_ms - margin_ms:
                continue
            if self.withheld.is_optional(number):
                continue
            is_archived = number in self.committed or self._before_the_chain(number)
            if not is_archived or (number > (-1 if last is None else last) and not self._before_the_chain(number)):
                raise Violation(
                    f"{key} covers {name(number)}, which is {'behind it' if is_archived else 'not archived'}"
                )
            self.world.tally["checked: a record that evidence covers"] += 1

    def _begins_again(self, metadata: SegmentMetadata) -> bool:
        """Tell whether a segment follows a start, not the chain that there is, and says so."""
        is_start = isinstance(metadata.after, ChainStart) and metadata.continuity is Continuity.UNPROVEN
        return is_start and self.start is not None and self.start.first_position() != metadata.first

    def _is_accounted_for(self, number: int) -> bool:
        """Tell whether a record is archived, was never to be, or may be left out."""
        return number in self.committed or self.withheld.is_optional(number) or self._before_the_chain(number)

    def _before_the_chain(self, number: int) -> bool:
        """Tell whether a record lies before the first one that this application was to read, or was given up."""
        if number in self.given_up:
            return True
        if self.adopted is not None and self.shard.everything[number].position <= self.adopted:
            return True
        if self.start is not None:
            return number < self.shard.index[self.start.first_position()]
        since = self.application.start_at_ms if self.application is not None else None
        return since is not None and all(record.arrival_ms < since for record in self.shard.everything[: number + 1])

    def check(self, *, drained: bool, may_break: bool) -> None:
        """Look at the whole archive. `drained`: a healthy processor has read to the end of what is held.

        `may_break`: something was trimmed, so the chain may have a break, which must be reported.
        """
        if self.beyond_promise:
            return
        chain = self.chain()
        for segment in chain:
            self._check_body(segment)
        if chain:
            self._check_first(chain[0])
        for before, segment in pairwise(chain):
            self._check_link(before, segment, may_break=may_break)
        if drained:
            for number in range(self.shard.trimmed, len(self.shard.everything)):
                if not self._is_accounted_for(number):
                    raise Violation(f"{name(number)} was never archived")
        check_end(self, chain)
        self.withheld.count(self.committed)

    def has_segment_of_strays(self) -> bool:
        """Tell whether a segment begins with a record that another delivery may have left out."""
        return any(self.withheld.is_optional(segment.first) for segment in self.segments.values())

    def chain(self) -> list[Segment]:
        """Return the segments in their order."""
        return sorted(self.segments.values(), key=lambda segment: segment.first)

    def _check_body(self, segment: Segment) -> None:
        records = list(read_records(segment.body, self.shard.shard_id, segment.compression))
        expected = self.withheld.expected(segment.first, segment.last, {position for position, _ in records})
        metadata = segment.metadata
        if len(records) != len(expected) or metadata.records != len(expected):
            raise Violation(f"{name(segment.first)}..{name(segment.last)}: {len(records)} lines in the body")
        for (position, record), truth in zip(records, expected, strict=True):
            if (position, record.arrival_ms, record.partition_key, record.data) != truth:
                raise Violation(f"{name(self.shard.index[truth.position])} is not archived byte for byte")
            if minute_of(record.arrival_ms) != metadata.minute:
                raise Violation(f"{name(self.shard.index[truth.position])} is archived under another minute")
        arrivals = [truth.arrival_ms for truth in expected]
        if (metadata.arrival_min_ms, metadata.arrival_max_ms) != (min(arrivals), max(arrivals)):
            raise Violation(f"{name(segment.first)}: arrival times in the metadata are wrong")
        if metadata.payload_bytes != sum(len(truth.data) for truth in expected):
            raise Violation(f"{name(segment.first)}: payload-bytes is wrong")

    def _check_first(self, segment: Segment) -> None:
        if not isinstance(segment.metadata.after, ChainStart):
            raise Violation(f"the chain begins with a link: {name(segment.first)} follows {segment.metadata.after}")
        if self.start is None:
            raise Violation("a segment without start.json")
        if self.start.first_position() != segment.metadata.first:
            begun = self.shard.index[self.start.first_position()]
            if self.withheld.are_optional(*sorted((begun, segment.first))):
                self.world.happened("beyond the promise: the chain begins at two records")
            elif segment.first < begun and segment.metadata.is_doubtful:
                # Whoever began the chain was not delivered these: KCL had skipped them, or they were trimmed by then.
                self.world.tally["checked: archived before the recorded beginning"] += 1
            elif begun >= self.shard.trimmed or not segment.metadata.is_doubtful:
                raise Violation(f"start.json begins at {name(begun)}, the chain at {name(segment.first)}")

    def _check_link(self, before: Segment, segment: Segment, *, may_break: bool) -> None:
        lost = self.withheld.demanded(before.last + 1, segment.first)
        # What a mark has told of the same link, the segment behind it need not tell again: it stands on the mark.
        reported = segment.metadata.is_doubtful or segment.metadata.after in self.doubted
        if lost and not reported:
            raise Violation(
                f"{lost} records before {name(segment.first)} are missing, and nothing in the archive says so"
            )
        if lost:
            self.world.tally["checked: a break, reported"] += 1
        elif reported:
            self.world.tally["checked: a break reported, nothing was lost"] += 1
        # Between a record that only another delivery brought and the next one nobody is sure.
        if segment.metadata.is_doubtful and not (may_break or self.shard.strays):
            raise Violation(f"{name(segment.first)} reports a break although nothing was trimmed")
        if segment.metadata.after != before.metadata.last and not reported:
            after = segment.metadata.after
            begun = (
                min(self.segments.values()).first if isinstance(after, ChainStart) else self.shard.index[after] + 1
            )
            if self.withheld.are_optional(begun, segment.first):
                self.world.happened("beyond the promise: a segment of strays lies beside the chain")
                return
            raise Violation(f"{name(segment.first)} follows {segment.metadata.after}, not the segment before it")
