"""Prove a day once more before its segments are deleted, whatever verdict was published.

The published verdict may be older than evidence against it: a batch that KCL skipped, a deleted segment. The proven
intervals are kept in the tombstone, because the proof of later days relies on them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from consumer.expire.plan import ExpiryPlan
from minutebook.clock import Clock
from minutebook.coverage.evidence import EvidenceLink, segment_link
from minutebook.coverage.verdict import State, day_scope
from minutebook.errors import SafetyRefusal
from minutebook.format.day import Day
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.minute import iso_time
from minutebook.format.tombstone import ExpiredRun
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import JudgedScope, days_touched, judge_facts, read_facts
from minutebook.proof.statements import read_statements
from minutebook.store.commit import stored_segment
from minutebook.store.retrying import RetryingStore


class DayProof(NamedTuple):
    """A day's segments by shard, and the judgement of its coverage."""

    segments: Mapping[str, list[SegmentMetadata]]
    judged: JudgedScope
    day: Day

    @property
    def refusal(self) -> str | None:
        """The first interval that is not proven, as a sentence; None when the day is covered."""
        verdict = self.judged.verdict
        if verdict.state is State.COVERED:
            return None
        if not verdict.open_times:
            return f"nothing of it is proven: run minutebook audit --date {self.day}"
        first = verdict.open_times[0]
        return (
            f"{verdict.arrivals(first)} is not proven to be archived ({first.why}): run minutebook audit "
            f"--date {self.day}"
        )

    def proven(self, shard_id: str) -> list[tuple[int, int]]:
        """Return the proven intervals of a shard that reach the day's end."""
        coverage = self.judged.coverages.get(shard_id)
        covered = coverage.covered if coverage else ()
        return [(begin, until) for begin, until in covered if begin < self.day.end_ms <= until]

    def run_of(self, segments: Sequence[SegmentMetadata]) -> ExpiredRun:
        """Return segments that follow each other as a run of the tombstone, with the times that are proven of it."""
        first, last = segments[0], segments[-1]
        coverage = self.judged.coverages.get(last.shard_id)
        reach_ms = coverage.reach_of(last.last) if coverage else None
        return ExpiredRun(
            after=str(first.after),
            first=str(first.first),
            last=str(last.last),
            segments=len(segments),
            until_ms=segment_link(last).until_ms if reach_ms is None else reach_ms,
            writer=last.writer,
            from_ms=coverage.proven_since(first.first, last.last) if coverage else None,
            arrival_min_ms=min(segment.arrival_min_ms for segment in segments),
        )


class DayProver(NamedTuple):
    """Judges days by all present evidence. `begin_ms` is the application's start.

    The simulation replaces it, because its readers pause for days.
    """

    store: RetryingStore
    prefix: str
    clock: Clock
    begin_ms: int

    def prove(self, plan: ExpiryPlan) -> DayProof:
        """Read a day's segments and judge it; raises SafetyRefusal if it ended before the archive begins."""
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
            shard_id: list(map(segment_link, chain)) for shard_id, chain in segments.items()
        }
        query = ProofQuery(scope, self.begin_ms, self.clock.now_ms())
        return DayProof(segments, judge_facts(read_facts(store, prefix, query, statements, links)), day)
