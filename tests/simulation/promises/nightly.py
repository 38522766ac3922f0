"""The nightly audit of a history's days, by the product's own code, beside what was really put and archived.

A day that misses a record must never be clean. Of the finished days that miss none, those that are not clean are
counted by their reasons.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from minutebook.coverage.chain import Reason
from minutebook.coverage.intervals import Interval
from minutebook.coverage.topology import ShardRow
from minutebook.coverage.verdict import State, Verdict, day_scope
from minutebook.format.aggregate import HashRange
from minutebook.format.day import Day, day_of_ms
from minutebook.format.read_mark import FOLDER, parse_read_mark_key
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.sources import Stream
from tests.simulation.promises.bucket_view import BucketView
from tests.simulation.promises.published_ends import PublishedEnds
from tests.simulation.services.bucket import PREFIX
from tests.simulation.world import Violation, name

if TYPE_CHECKING:
    from tests.simulation.histories.history import History
    from tests.simulation.histories.site import Site
    from tests.simulation.promises.ledger import Ledger

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
    """Audits one application's archive. `sites` may grow: shards are split and merged between two nights."""

    def __init__(self, history: "History", sites: "Sequence[Site]") -> None:
        self._world = history.world
        self._bucket = history.bucket
        self._sites = sites
        self._published = PublishedEnds()

    def nights(self, since: Day | None = None) -> Iterator[Night]:
        """Judge each finished day since the application began, or since a day.

        Where stamps step back further than evidence allows for, nothing is promised of the days: it is counted.

        Raises:
            Violation: a day that misses a record is called clean, or one whose chains are whole is called broken.
        """
        application = self._sites[0].ledger.application
        if application is None:
            return
        now_ms = int(self._world.now * 1000)
        start_ms = application.start_at_ms
        begin_ms = application.stream_created_ms if start_ms is None else start_ms
        # Before the history there was nothing; a stream may be as old as it likes.
        first = day_of_ms(max(begin_ms, int(self._world.began * 1000)))
        view, stream = BucketView(self._bucket), self._stream()
        for number in range(max(first, since or first).number, day_of_ms(now_ms).number):
            scope = day_scope(Day(number), begin_ms, now_ms)
            if scope is None or scope.until_ms + SETTLED_MS > now_ms:
                continue
            verdict = view.judge(ProofQuery(scope, begin_ms, now_ms, stream), self._published).verdict
            self._published.note(view, Day(number))
            night = Night(Day(number), verdict, self._missing(scope, begin_ms))
            if night.is_clean and night.missing is not None:
                if not self._world.stamps.beyond_ms:
                    raise Violation(f"{night.day} is called clean, and {night.missing} is not archived")
                self._world.tally["audit: a clean day misses records, and stamps lie beyond the contract"] += 1
            if Reason.BROKEN_CHAIN in verdict.reasons and not (self._world.stamps.beyond_ms or self._bucket.gone):
                if not any(site.ledger.has_segment_of_strays() for site in self._sites):
                    raise Violation(f"{night.day} is called broken, and no segment is gone: {verdict}")
                self._world.tally["audit: a day is called broken, a segment of strays lies beside the chain"] += 1
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

    def count_marks(self, most: int) -> None:
        """Check how many read marks the shards got on each day.

        Raises:
            Violation: one got more than `most`.
        """
        marks = (
            parse_read_mark_key(PREFIX, key)[1] for key in self._bucket.objects if key.startswith(PREFIX + FOLDER)
        )
        found = Counter((mark.shard_id, day_of_ms(mark.until_ms)) for mark in set(marks))
        for (shard_id, day), count in found.items():
            if count > most:
                raise Violation(f"{shard_id} got {count} read marks on {day}")
        self._world.tally[f"checked: a day has at most {most} read marks"] += len(found)

    def _missing(self, scope: Interval, begin_ms: int) -> str | None:
        """Name a record that arrived in the scope and is not archived."""
        from_ms, until_ms = max(scope.from_ms, begin_ms), scope.until_ms
        for site in self._sites:
            ledger, shard = site.ledger, site.stream.shard
            for number, put_at in enumerate(shard.put_at):
                if number in ledger.committed or _was_adopted(ledger, number) or number in shard.strays:
                    continue
                times = (put_at * 1000, shard.everything[number].arrival_ms)
                if from_ms <= min(times) and max(times) < until_ms:
                    return f"{name(number)} of {shard.shard_id}"
        return None

    def _stream(self) -> Stream:
        """Return what ListShards says."""
        listed = [stream for stream in self._sites[0].stream.shards if stream.listed]
        rows = (
            ShardRow(stream.shard.shard_id, HashRange(*stream.shard.hash_range), frozenset(stream.shard.parents))
            for stream in listed
        )
        closed = frozenset(stream.shard.shard_id for stream in listed if stream.shard.closed)
        return Stream(tuple(rows), closed)


def _was_adopted(ledger: "Ledger", number: int) -> bool:
    """Tell whether a record lies before the checkpoint of another application that the shard was taken over at."""
    return ledger.adopted is not None and ledger.shard.everything[number].position <= ledger.adopted
