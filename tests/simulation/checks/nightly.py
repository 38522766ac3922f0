"""The nightly audit of a history's days, by the product's rules, beside what was really put and archived.

A day that misses a record must never be clean. Of the finished days that miss none, those that are not clean are
counted by their reasons.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from archive.coverage.chain import ChainView
from archive.coverage.evidence import Evidence, adopted_evidence, mark_evidence, segment_link
from archive.coverage.intervals import Interval
from archive.coverage.shard_coverage import ShardCoverage, ShardFacts
from archive.coverage.topology import HashRange, ShardRow, Sources, Topology, first_rows, marked_rows
from archive.coverage.verdict import State, Verdict, day_scope, judge
from archive.format.coverage_markers import (
    AdoptedMarker,
    FirstShards,
    OpenedMarker,
    decode_coverage_marker,
    first_shards_key,
)
from archive.format.day import Day, day_of_ms
from archive.format.read_mark import decode_read_mark
from tests.simulation.services.bucket import PREFIX, Stored
from tests.simulation.world import Violation, name

if TYPE_CHECKING:
    from tests.simulation.checks.ledger import Ledger
    from tests.simulation.histories.history import History
    from tests.simulation.histories.site import Site

SETTLED_MS: Final = 20 * 60_000
"""A day is judged so long after its end."""


class Night(NamedTuple):
    """One day as an audit sees it, and the first record of it that is not archived (None: it has all)."""

    day: Day
    verdict: Verdict
    missing: str | None

    @property
    def is_clean(self) -> bool:
        """Tell whether the audit calls the day clean."""
        return self.verdict.state is State.COVERED


class NightlyAudit:
    """Audits one application's archive. `margin_ms` is how far its records' stamps may lie beyond the rules' own."""

    def __init__(self, history: "History", sites: "Iterable[Site]", *, margin_ms: int = 0) -> None:
        self._world = history.world
        self._bucket = history.bucket
        self._sites = list(sites)
        self._margin_ms = margin_ms
        self._pieces: dict[str, Evidence] = {}

    def nights(self) -> Iterator[Night]:
        """Judge each finished day since the application began.

        Raises:
            Violation: a day that misses a record is called clean.
        """
        application = self._sites[0].ledger.application
        if application is None:
            return
        now_ms = int(self._world.now * 1000)
        start_ms = application.start_at_ms
        begin_ms = application.stream_created_ms if start_ms is None else start_ms
        # Before the history there was nothing; a stream may be as old as it likes.
        first_ms = max(begin_ms, int(self._world.began * 1000))
        topology, coverages = self._topology(), {}
        for number in range(day_of_ms(first_ms).number, day_of_ms(now_ms).number):
            scope = day_scope(Day(number), begin_ms, now_ms)
            if scope is None or scope.until_ms + SETTLED_MS > now_ms:
                continue
            coverages = coverages or {site.stream.shard.shard_id: self._coverage(site) for site in self._sites}
            night = Night(
                Day(number), judge(scope, topology, coverages, begin_ms=begin_ms), self._missing(scope, begin_ms)
            )
            if night.is_clean and night.missing is not None:
                raise Violation(f"{night.day} is called clean, and {night.missing} is not archived")
            yield night

    def count(self) -> None:
        """Audit each day a last time, and count what came of it."""
        tally = self._world.tally
        for night in self.nights():
            if night.missing is not None:
                tally["audit: a day that misses records is not clean"] += 1
            elif night.is_clean:
                tally["audit: a sound day is clean"] += 1
            else:
                tally[f"audit: a sound day is not clean: {', '.join(night.verdict.reasons)}"] += 1
                if self._world.trace is not None:
                    self._world.note("audit", f"{night.day}: {night.verdict}")

    def _missing(self, scope: Interval, begin_ms: int) -> str | None:
        """Name a record that arrived in the scope and is not archived."""
        from_ms, until_ms = max(scope.from_ms, begin_ms) + self._margin_ms, scope.until_ms - self._margin_ms
        for site in self._sites:
            ledger, shard = site.ledger, site.stream.shard
            for number, put_at in enumerate(shard.put_at):
                if number in ledger.committed or _was_adopted(ledger, number):
                    continue
                times = (put_at * 1000, shard.everything[number].arrival_ms)
                if from_ms <= min(times) and max(times) < until_ms:
                    return f"{name(number)} of {shard.shard_id}"
        return None

    def _topology(self) -> Topology:
        ledgers = [site.ledger for site in self._sites]
        found = self._bucket.objects.get(first_shards_key(PREFIX))
        opened = {
            ledger.shard.shard_id: decode_coverage_marker(stored.body, OpenedMarker, "opened.json")
            for ledger in ledgers
            if (stored := self._marker(ledger, "opened.json")) is not None
        }
        starts = {ledger.shard.shard_id: ledger.start for ledger in ledgers if ledger.start is not None}
        ends = {ledger.shard.shard_id: ledger.end for ledger in ledgers if ledger.end is not None}
        listed = [stream for stream in self._sites[0].stream.shards if stream.listed]
        return Topology(
            Sources(
                first=None if found is None else first_rows(decode_coverage_marker(found.body, FirstShards, "first")),
                marked=marked_rows(
                    [ledger.shard.shard_id for ledger in ledgers if ledger.segments], starts, opened, ends
                ),
                opened=frozenset(opened),
                ended=frozenset(ends),
                listed=tuple(
                    ShardRow(
                        stream.shard.shard_id, HashRange(*stream.shard.hash_range), frozenset(stream.shard.parents)
                    )
                    for stream in listed
                ),
                closed=frozenset(stream.shard.shard_id for stream in listed if stream.shard.closed),
            )
        )

    def _coverage(self, site: "Site") -> ShardCoverage:
        ledger, shard_id = site.ledger, site.stream.shard.shard_id
        end = self._marker(ledger, "end.json")
        pieces = [self._piece(key) for key in self._bucket.objects if key.startswith(f"{PREFIX}_read/")]
        unique = {piece: None for piece in pieces if piece.shard_id == shard_id}
        adopted = self._marker(ledger, "adopted.json")
        if adopted is not None:
            marker = decode_coverage_marker(adopted.body, AdoptedMarker, "adopted.json")
            at = marker.adopted_position()
            unique[adopted_evidence(shard_id, at, stored_ms=_stored_ms(adopted), held=marker.held)] = None
        return ShardCoverage(
            ShardFacts(
                shard_id,
                ChainView(
                    tuple(segment_link(segment.metadata) for segment in ledger.segments.values()),
                    None if ledger.start is None else ledger.start.first_position(),
                    to_the_beginning=True,
                    to_the_end=True,
                ),
                tuple(unique),
                end_stored_ms=None if end is None else _stored_ms(end),
            )
        )

    def _piece(self, key: str) -> Evidence:
        if key not in self._pieces:
            stored = self._bucket.objects[key]
            self._pieces[key] = mark_evidence(decode_read_mark(stored.body, PREFIX, key), None)
        return self._pieces[key]

    def _marker(self, ledger: "Ledger", file_name: str) -> Stored | None:
        return self._bucket.objects.get(f"{PREFIX}_shards/{ledger.shard.shard_id}/{file_name}")


def _stored_ms(stored: Stored) -> int:
    return int(stored.written_at * 1000)


def _was_adopted(ledger: "Ledger", number: int) -> bool:
    """Tell whether a record lies before the checkpoint of another application that the shard was taken over at."""
    return ledger.adopted is not None and ledger.shard.everything[number].position <= ledger.adopted
