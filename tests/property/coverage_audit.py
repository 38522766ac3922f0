"""The audit of a history of coverage: what a nightly run would find, beside what only the model knows."""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from minutebook.coverage.chain import Chain, ChainView
from minutebook.coverage.evidence import Evidence, EvidenceLink, expired_evidence, expired_link, mark_evidence
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import ShardCoverage, ShardFacts, Skip
from minutebook.coverage.topology import ShardRow, ShardSources, Topology
from minutebook.coverage.verdict import State, Verdict, day_scope, judge_scope
from minutebook.format.day import Day, day_of_ms
from minutebook.format.position import Position
from minutebook.format.read_mark import mark_days, parse_read_mark_key, read_mark_key
from tests.property.coverage_history import History
from tests.property.coverage_stream import DAY, FIRST_DAY, MINUTE, StreamShard


class View(NamedTuple):
    """How an audit looks: not at all there is, after somebody deleted segments, or behind expired days."""

    narrow: bool = False
    removes: bool = False
    expired: bool = False


class Looked(NamedTuple):
    """One audit of one day, and how many of its records are not archived."""

    verdict: Verdict
    missing: int

    @property
    def is_covered(self) -> bool:
        """Tell whether the audit calls the day covered."""
        return self.verdict.state is State.COVERED


class Audit:
    """Audits of one history at one time. All of them see the same sources."""

    def __init__(self, history: History, time: int, view: View) -> None:
        self._history = history
        self._time = time
        self._view = view
        self._gone = self._removed() if view.removes else set()
        self.sources = self._sources()
        self._topology = Topology(self.sources)

    def scope_of(self, number: int) -> Interval | None:
        """Return what is judged of a day."""
        return day_scope(Day(number), self._history.begin, self._time)

    def days(self) -> Iterator[tuple[Day, Looked]]:
        """Judge every day that can be judged; behind one that is covered, as if that had been expired."""
        expired: Day | None = None
        for number in range(FIRST_DAY // DAY, self._history.stream.end // DAY):
            scope = self.scope_of(number)
            is_hidden = any(skipped <= self._time < stored for skipped, stored in self._history.pending)
            if scope is None or is_hidden:
                continue
            coverages = {
                shard_id: ShardCoverage(self._facts(shard_id, Day(number), expired))
                for shard_id in self._history.archives
            }
            verdict = judge_scope(scope, self._topology, coverages, begin_ms=self._history.begin)
            looked = Looked(verdict, self._missing(scope))
            yield Day(number), looked
            follows = expired is None or expired.number == number - 1
            expired = Day(number) if self._view.expired and looked.is_covered and follows else None

    def _removed(self) -> set[tuple[str, Position]]:
        """Choose segments that somebody deleted; often close to a midnight."""
        stored = [
            (shard_id, segment.link)
            for shard_id, archive in self._history.archives.items()
            for segment in archive.segments
            if segment.stored <= self._time
        ]
        edges = [one for one in stored if (one[1].arrival_min_ms + 5 * MINUTE) % DAY < 10 * MINUTE]
        rng = self._history.rng
        choices = edges if edges and rng.random() < 0.5 else stored
        chosen = rng.sample(choices, min(len(choices), rng.choice([1, 1, 2, 5])))
        return {(shard_id, link.first) for shard_id, link in chosen}

    def _facts(self, shard_id: str, day: Day, expired: Day | None) -> ShardFacts:
        archive = self._history.archives[shard_id]
        stored = [segment.link for segment in archive.segments if segment.stored <= self._time]
        links = [link for link in stored if (shard_id, link.first) not in self._gone]
        begun = stored[0].first if stored else None
        pieces = list(self._pieces(shard_id, day))
        if expired is not None:
            links, kept = self._expire(shard_id, expired, links, begun)
            pieces = [*kept, *pieces]
        if self._view.narrow:
            late = next((number for number, link in enumerate(links) if link.begins_ms > day.begin_ms), len(links))
            links = links[max(0, late - 1) :]
        view = ChainView(tuple(links), begun, not self._view.narrow, not self._view.narrow)
        skips = tuple(Skip(logged, put) for logged, put in archive.skips if put <= self._time)
        ended = archive.ended if archive.ended is not None and archive.ended <= self._time else None
        opened = archive.opened if archive.opened is not None and archive.opened <= self._time else None
        return ShardFacts(shard_id, view, tuple(pieces), skips, ended, opened)

    def _expire(
        self, shard_id: str, day: Day, links: list[EvidenceLink], begun: Position | None
    ) -> tuple[list[EvidenceLink], list[Evidence]]:
        """Return the links with a tombstone's runs in the place of a day's, and its proven intervals."""
        view = ChainView(tuple(links), begun, to_the_beginning=True, to_the_end=True)
        before = ShardCoverage(ShardFacts(shard_id, view, tuple(self._pieces(shard_id, day))))
        kept: list[EvidenceLink] = []
        for is_expired, nodes in groupby(
            Chain(shard_id, view).nodes, lambda node: node.link.arrival_min_ms < day.end_ms
        ):
            run = list(nodes)
            if not is_expired:
                kept += [node.link for node in run]
                continue
            first, last = run[0].link, run[-1]
            until_ms, run_id = last.until_ms, last.link.run
            kept.append(
                expired_link(
                    first=first.first,
                    last=last.link.last,
                    after=first.after,
                    arrival_min_ms=min(day.begin_ms, first.arrival_min_ms),
                    until_ms=until_ms,
                    run=run_id,
                )
            )
        reaching = [interval for interval in before.covered if interval.from_ms < day.end_ms <= interval.until_ms]
        tail = kept[-1].last if kept else None
        return kept, [expired_evidence(shard_id, Interval(one.from_ms, day.end_ms), tail) for one in reaching]

    def _pieces(self, shard_id: str, day: Day) -> Iterator[Evidence]:
        """Read the marks that lie under the day, or under a later one, by their keys."""
        for mark, stored in self._history.archives[shard_id].marks:
            if stored > self._time:
                continue
            today = day_of_ms(self._time)
            days = [one for one in mark_days(mark) if day.number <= one.number <= today.number]
            if days:
                _, read = parse_read_mark_key("p/", read_mark_key("p/", days[0], mark))
                yield mark_evidence(read, stored)

    def _sources(self) -> ShardSources:
        history, time = self._history, self._time
        opened = [
            history.stream.shards[shard_id]
            for shard_id, archive in history.archives.items()
            if archive.opened is not None and archive.opened <= time
        ]
        ended = {
            shard_id: archive.end_children
            for shard_id, archive in history.archives.items()
            if archive.ended is not None and archive.ended <= time
        }
        listed = history.stream.listed(time) if history.rng.random() < history.faults.lists_now else None
        marked = [_row(shard) for shard in opened]
        marked += [ShardRow(shard_id, children=frozenset(children)) for shard_id, children in ended.items()]
        has_first = history.rng.random() < history.faults.lists_first
        return ShardSources(
            first=tuple(_row(shard) for shard in history.first) if has_first else None,
            marked=tuple(marked),
            opened=frozenset(shard.shard_id for shard in opened),
            ended=frozenset(ended),
            listed=None if listed is None else tuple(_row(shard) for shard in listed),
            closed=frozenset(
                shard.shard_id for shard in listed or () if shard.closed is not None and shard.closed <= time
            ),
        )

    def _missing(self, scope: Interval) -> int:
        """Count the records of the scope that are not archived."""
        missing = 0
        for shard_id in self._history.family():
            archived = {
                record.position
                for segment in self._history.archives[shard_id].segments
                if segment.stored <= self._time and (shard_id, segment.link.first) not in self._gone
                for record in segment.records
            }
            missing += sum(
                scope.from_ms <= record.stamp < scope.until_ms and record.position not in archived
                for record in self._history.stream.shards[shard_id].records
            )
        return missing


def audits(history: History) -> Iterator[tuple[str, Day, Looked]]:
    """Audit every day at the history's end, in several ways, and each in the night behind it."""
    views = {
        "late": View(),
        "narrow": View(narrow=True),
        "removed": View(removes=True),
        "expired": View(expired=True),
    }
    for name, view in views.items():
        for day, looked in Audit(history, history.until, view).days():
            yield name, day, looked
    for number in range(FIRST_DAY // DAY, history.stream.end // DAY):
        night = Audit(history, Day(number).end_ms + 30 * MINUTE, View())
        yield from (("night", day, looked) for day, looked in night.days() if day.number == number)


def _row(shard: StreamShard) -> ShardRow:
    return ShardRow(shard.shard_id, shard.keys, frozenset(shard.parents))
