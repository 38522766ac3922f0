"""Is a day proven to be archived? Asked once more before its segments go, whatever verdict was published of it.

A verdict may be older than the evidence that speaks against it: a batch that KCL skipped, a segment that was deleted.
What was proven is kept in the tombstone, because later days' segments and marks stand on it.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from consumer.expire.plan import ExpiryPlan
from minutebook.clock import Clock
from minutebook.coverage.evidence import EvidenceLink, segment_link
from minutebook.coverage.verdict import State, day_scope
from minutebook.errors import SafetyRefusal
from minutebook.format.day import Day
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.minute import iso_time
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import JudgedScope, days_touched, judge_facts, read_facts
from minutebook.proof.statements import read_statements
from minutebook.store.commit import stored_segment
from minutebook.store.retrying import RetryingStore


class DayProof(NamedTuple):
    """A day's segments by shard, and what is proven of it; `refusal` says why it may not go."""

    segments: Mapping[str, list[SegmentMetadata]]
    judged: JudgedScope
    day: Day

    @property
    def refusal(self) -> str | None:
        """The first thing that is not proven; None when everything is."""
        verdict = self.judged.verdict
        if verdict.state is State.COVERED:
            return None
        if not verdict.open_times:
            return f"nothing of it is proven: run minutebook audit --date {self.day}"
        first = verdict.open_times[0]
        begins, until = map(iso_time, verdict.inside(first.interval))
        why = "; ".join(reason.meaning for reason in first.reasons)
        return (
            f"what arrived on {first.shard_id or 'the stream'} from {begins} to {until} is not proven to be archived "
            f"({why}): run minutebook audit --date {self.day}"
        )

    def proven(self, shard_id: str) -> list[tuple[int, int]]:
        """Return the intervals of a shard that are proven and reach the day's end."""
        coverage = self.judged.coverages.get(shard_id)
        covered = coverage.covered if coverage else ()
        return [(begin, until) for begin, until in covered if begin < self.day.end_ms <= until]

    def until_ms(self, last: SegmentMetadata) -> int:
        """Return how far the segment at the end of a run reaches, with what it stands on."""
        coverage = self.judged.coverages.get(last.shard_id)
        reach_ms = coverage.reach_of(last.last) if coverage else None
        return segment_link(last).until_ms if reach_ms is None else reach_ms


class DayProver(NamedTuple):
    """Judges days by all the evidence of now. `begin_ms` is the application's start.

    The simulation, whose readers are away for days, puts one in its place that believes what was published.
    """

    store: RetryingStore
    prefix: str
    clock: Clock
    begin_ms: int

    def prove(self, plan: ExpiryPlan) -> DayProof:
        """Read a day's segments and judge it.

        Raises:
            SafetyRefusal: the day ended before the archive begins.
            FormatError, ForeignObject, ObjectVanished: a segment is not what its name says.
            StoreUnavailable, StoreRefused: the store.
        """
        store, prefix, day = self.store, self.prefix, Day.parse(str(plan.day))
        scope = day_scope(day, self.begin_ms, self.clock.now_ms())
        if scope is None:
            raise SafetyRefusal(
                f"the archive begins after it, at {iso_time(self.begin_ms)}",
                next_step="find out who put segments under a day that nobody archived",
            )
        statements = read_statements(store, prefix, days_touched(scope))
        segments: dict[str, list[SegmentMetadata]] = defaultdict(list)
        for metadata in store.read_many(lambda key: stored_segment(store, prefix, key), sorted(plan.segments)):
            segments[metadata.shard_id].append(metadata)
        links: dict[str, list[EvidenceLink]] = {
            name: list(map(segment_link, found)) for name, found in segments.items()
        }
        query = ProofQuery(scope, self.begin_ms, self.clock.now_ms())
        return DayProof(segments, judge_facts(read_facts(store, prefix, query, statements, links)), day)
