"""One attempt to publish the boundaries that are reached: read, judge, fold, write.

    1  the newest marker, and the withdrawals of the last day
    2  the workers' rows from an hour before it on: one that was written later may say something earlier
    3  the markers of shards, and of batches that KCL skipped
    4  the archive, about what no row covers, and about the gaps that are named already
    5  PUT If-None-Match, a boundary after the other; 412: another worker was faster, and the next attempt sees its

Killed between any two requests, it leaves a beginning of the same sequence. The next attempt, by whomever, goes on.
A marker may be as old as a day: before that it begins anew, because rows and skipped batches are searched no further.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from minutebook.completeness.folding import (
    ENDED_MS,
    Facts,
    Folded,
    Hold,
    first_boundary,
    fold,
    next_boundary,
    questions,
    shards_required,
)
from minutebook.completeness.judging import judge_times, question_of, still_open
from minutebook.completeness.objects import LOOK_BACK_MS, BoundaryObjects, ListedMarkers, ahead
from minutebook.completeness.rows import AllRows
from minutebook.completeness.withdrawing import Claim, is_within, withdraw
from minutebook.coverage.chain import Reason
from minutebook.coverage.intervals import FOREVER, Interval
from minutebook.coverage.shard_coverage import LOG_MARGIN_MS
from minutebook.errors import FormatError
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.boundaries import CompleteMarker, NamedGap, ShardState, Since, since_key, success_key
from minutebook.format.coverage_markers import SKIPPED, parse_skipped_key
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import HOUR_MS, MINUTE_MS, iso_time
from minutebook.proof.sources import Stream, sources_of
from minutebook.proof.statements import StatementCache, Statements, read_statements
from minutebook.store.retrying import RetryingStore

_AGAIN_MS: Final = MINUTE_MS
"""Without a new row only ages change, so an attempt is not repeated sooner: it lists all markers of shards."""


class Skipped(NamedTuple):
    """A stored marker of a skipped batch, and its writer."""

    shard: str
    logged_ms: int
    stored_ms: int
    writer: str

    @property
    def run(self) -> str:
        """The run of the daemon that logged the line; empty for one of an older version."""
        return self.writer.rpartition("_")[0]


class Attempt(NamedTuple):
    """The result. `newest` is the newest marker, `published` how many are new, `withdrawn` how many gaps."""

    newest: CompleteMarker | None
    holds: tuple[Hold, ...] = ()
    published: int = 0
    withdrawn: int = 0


class HoldReport(msgspec.Struct, frozen=True, kw_only=True):
    """What holds the next boundary; `shard` is None if the stream's shards are in doubt, `reached` if unknown."""

    shard: str | None
    reached: str | None
    why: str


class _Tried(NamedTuple):
    """An attempt, and its time."""

    at_ms: int
    attempt: Attempt


class _Beginning(NamedTuple):
    """The first boundary (None: it is to be decided), and the one after which it begins anew (None: it never did)."""

    since_ms: int | None = None
    after_ms: int | None = None


class Publisher:
    """Publishes the boundaries of one archive.

    `begin_ms` is the application's start, `writer` this process. `writes`: else it only says what holds.
    Every method raises as the store does, and FormatError for a damaged object.
    """

    def __init__(
        self, store: RetryingStore, prefix: str, *, every_ms: int, begin_ms: int, writer: str, writes: bool = True
    ) -> None:
        self.objects = BoundaryObjects(store, prefix)
        self._store = store
        self._prefix = prefix
        self._every_ms = every_ms
        self._begin_ms = begin_ms
        self._writer = writer
        self._writes = writes
        self._rows = AllRows()
        self._last: _Tried | None = None
        self._judged_old_ms = 0
        self._cache = StatementCache()

    def attempt(self, now_ms: int, *, withdraws: bool = False) -> Attempt:
        """Publish what is reached by `now_ms`, the service's time.

        `withdraws`: a batch was skipped, so what was published is judged, although no boundary is due.
        """
        listed = self.objects.list_markers(now_ms - LOOK_BACK_MS, now_ms + HOUR_MS)
        newest = self._newest(listed, now_ms)
        is_due = newest is None or next_boundary(newest.boundary_ms, self._every_ms) <= now_ms
        if newest is not None and not (is_due or withdraws or self._lacks_hour(listed, newest)):
            return Attempt(newest)
        beginning = _Beginning() if newest is not None else self._beginning(now_ms)
        known_ms = newest.boundary_ms if newest is not None else (beginning.since_ms or now_ms)
        if newest is not None:
            self._rows.forget_before(newest.shards, now_ms - LOOK_BACK_MS)
        new_rows = self.objects.new_rows(known_ms - HOUR_MS, now_ms + HOUR_MS)
        for rows in new_rows:
            self._rows.add(*rows)
        last = self._last
        is_old_news = last is not None and not new_rows and last.attempt.newest == newest
        if last is not None and is_old_news and now_ms - last.at_ms < _AGAIN_MS and not withdraws:
            return Attempt(newest, last.attempt.holds)
        attempt = self._try(listed, newest, beginning, now_ms)
        self._last = _Tried(now_ms, attempt)
        return attempt

    def _try(
        self, listed: ListedMarkers, newest: CompleteMarker | None, beginning: "_Beginning", now_ms: int
    ) -> Attempt:
        """Fold what is known, and write."""
        since_ms = beginning.since_ms
        statements = read_statements(self._store, self._prefix, (), self._cache)
        if newest is None and since_ms is None:
            begun = self._begin(statements, now_ms, beginning.after_ms)
            if isinstance(begun, tuple):
                return Attempt(None, begun)
            since_ms = begun
        facts = self._facts(statements, newest, since_ms or 0, now_ms)
        return self._publish(listed, newest, facts, statements)

    def _lacks_hour(self, listed: ListedMarkers, newest: CompleteMarker) -> bool:
        """Return whether a publisher died between a marker and the hour that it finishes."""
        hour_ms = newest.boundary_ms - HOUR_MS
        is_whole = newest.boundary_ms % HOUR_MS == 0 and newest.since_ms <= hour_ms
        is_told = any(each.boundary_ms >= newest.boundary_ms for each in listed.withdrawals)
        return is_whole and not is_told and self._is_to_finish(hour_ms, listed.finished, newest.gaps)

    def _newest(self, listed: ListedMarkers, now_ms: int) -> CompleteMarker | None:
        young = [boundary for boundary in listed.boundaries if boundary >= now_ms - LOOK_BACK_MS]
        return self.objects.newest(young, now_ms) if young else None

    def _beginning(self, now_ms: int) -> "_Beginning":
        """Return the stored first boundary, if it is young enough to go on from, else what the next one follows.

        Whoever begins anew after the same boundary stores the same object, so only one of them decides where.
        """
        since, after_ms, oldest_ms = self.objects.since(), None, now_ms - LOOK_BACK_MS
        if since is not None and since.since_ms > now_ms + HOUR_MS:
            raise ahead(since_key(self._prefix), since.since_ms)
        while since is not None and since.since_ms < oldest_ms:
            listed = self.objects.list_all().boundaries if after_ms is None else ()
            # A younger one is of somebody who has begun anew just now.
            after_ms = max([since.since_ms, *(boundary for boundary in listed if boundary < oldest_ms)])
            since = self.objects.since(after_ms)
            if since is not None and since.since_ms <= after_ms:
                key = since_key(self._prefix, after_ms)
                raise FormatError(f"{key} begins before the boundary that it follows", next_step="delete it")
        return _Beginning(None if since is None else since.since_ms, after_ms)

    def _begin(self, statements: Statements, now_ms: int, after_ms: int | None) -> int | tuple[Hold, ...]:
        first = first_boundary(self._facts(statements, None, 0, now_ms))
        if not isinstance(first, int):
            return tuple(first)
        # A worker that has held boundaries up for days has older rows.
        since_ms = max(first, next_boundary(now_ms - LOOK_BACK_MS, self._every_ms))
        if not self._writes:
            return since_ms
        return self.objects.begin(Since(since=iso_time(since_ms), writer=self._writer), after_ms).since_ms

    def _facts(self, statements: Statements, newest: CompleteMarker | None, since_ms: int, now_ms: int) -> Facts:
        for problem in statements.problems:
            if not problem.is_foreign:
                raise FormatError(
                    f"{problem.key}: {problem.why}",
                    next_step="no boundary is published before it is mended: minutebook audit names it, too",
                )
        ends = {
            shard: markers.end_stored_ms
            for shard, markers in statements.shards.items()
            if markers.end_stored_ms is not None
        }
        states: dict[str, ShardState] = {} if newest is None else newest.shards
        known = {*statements.shards, *self._rows.shards, *states}
        return Facts(
            since_ms=newest.since_ms if newest is not None else since_ms,
            boundary_ms=newest.boundary_ms if newest is not None else since_ms,
            every_ms=self._every_ms,
            now_ms=now_ms,
            states=states,
            gaps=() if newest is None else newest.gaps,
            rows=self._rows,
            sources=sources_of(statements, known, Stream()),
            ends=ends,
        )

    def _publish(
        self, listed: ListedMarkers, newest: CompleteMarker | None, facts: Facts, statements: Statements
    ) -> Attempt:
        withdrawals = [(each.identity, self.objects.withdrawal(each.key)) for each in listed.withdrawals]
        known = set() if newest is None else set(newest.folded)
        later = [gap for identity, found in withdrawals if found and identity not in known for gap in found.gaps]
        skips = [skip for skip in _skips(statements, self._prefix) if skip.stored_ms >= facts.now_ms - LOOK_BACK_MS]
        shards = shards_required(facts)
        times = {shard: required.interval for shard, required in shards.items()}
        gap_of = {skip: self._skipped_gap(skip, facts, times) for skip in skips if skip.writer not in known}
        skipped = [gap for gap in gap_of.values() if gap is not None]
        asked, first = questions(facts, shards), {shard for shard, required in shards.items() if required.is_first}
        named = tuple(dict.fromkeys(_clipped([*facts.gaps, *later, *skipped], facts, times)))
        left = self._left_alone(named, facts)
        again = {gap: question_of(gap, is_child=gap.shard not in first) for gap in named if gap not in left}
        judged = judge_times(
            self._store,
            self._prefix,
            statements,
            {*asked, *again.values()},
            begin_ms=self._begin_ms,
            now_ms=facts.now_ms,
        )
        gaps = _merged([*left, *still_open(again, judged)])
        claim = None if newest is None else Claim(newest, (*facts.gaps, *later))
        withdrawn = self._withdraw(claim, gaps)
        facts = facts._replace(gaps=gaps)
        ids = {*(identity for identity, _ in withdrawals), *(skip.writer for skip in skips)}
        folded = fold(facts, judged, asked, self._writer, ids)
        return self._write(listed, newest, folded, withdrawn, gaps)

    def _left_alone(self, gaps: Iterable[NamedGap], facts: Facts) -> frozenset[NamedGap]:
        """Return the gaps that are not judged again now: old ones are, once an hour."""
        if facts.now_ms - self._judged_old_ms >= HOUR_MS:
            self._judged_old_ms = facts.now_ms
            return frozenset()
        return frozenset(gap for gap in gaps if gap.times_ms[1] < facts.boundary_ms - ENDED_MS)

    @staticmethod
    def _skipped_gap(skipped: Skipped, facts: Facts, times: Mapping[str, Interval]) -> NamedGap | None:
        """Return the time of a batch that KCL skipped; None if that lies before all boundaries, or is archived.

        It begins where the run that logged the line had said that everything is archived, with its log read to the
        end. Without such a row, where anybody had said so before the line, by as much as a host's clock may be wrong:
        a run that begins behind an outage skips what arrived hours before. A host without a clock logs in 1970, and
        a child of minutes has no such row: then the archive judges all since the shard was required, of the last
        day. A run that was further behind had held the boundaries, and they begin anew.
        """
        said_ms = facts.rows.said.get((skipped.run, skipped.shard))
        if said_ms is None:
            said_ms = facts.rows.said_by(skipped.shard, skipped.logged_ms - LOG_MARGIN_MS)
        required = times.get(skipped.shard)
        born_ms = 0 if required is None else required.from_ms
        from_ms = max(said_ms or 0, facts.since_ms, born_ms, skipped.stored_ms - LOOK_BACK_MS)
        until_ms = skipped.stored_ms + ARRIVAL_STEP_BACK_MS
        if from_ms >= until_ms:
            return None
        return NamedGap.of(skipped.shard, from_ms, until_ms, [Reason.SKIPPED])

    def _withdraw(self, claim: Claim | None, gaps: Iterable[NamedGap]) -> int:
        """Say of what was published already that it has gaps; return how many of them are new."""
        if claim is None or not self._writes:
            return 0
        why = "KCL skipped a batch, or a gap was found, after the boundary was published"
        return len(withdraw(self.objects, claim, gaps, why))

    def _write(
        self,
        listed: ListedMarkers,
        newest: CompleteMarker | None,
        folded: Folded,
        withdrawn: int,
        gaps: Sequence[NamedGap],
    ) -> Attempt:
        """Store the markers, and the finished hours; `gaps` are those that this attempt knows of, and has not healed.

        Hours after each marker: behind an outage of a day an attempt stores markers of more hours than it looks back.
        """
        published, finished = 0, set(listed.finished)
        if newest is not None and self._writes:
            self._finish_hours(finished, newest, gaps)
        for marker in folded.markers if self._writes else ():
            if not self.objects.publish(marker):
                break  # another worker's: the next attempt goes on from it
            published, newest = published + 1, marker
            self._finish_hours(finished, marker, gaps)
        return Attempt(newest, folded.holds, published, withdrawn)

    def _finish_hours(self, finished: set[str], newest: CompleteMarker, gaps: Iterable[NamedGap]) -> None:
        """Store what is missing of the last day's hours before a marker; `finished` are those that are stored."""
        begin_ms = max(newest.since_ms, newest.boundary_ms - LOOK_BACK_MS)
        for hour_ms in range(-(-begin_ms // HOUR_MS) * HOUR_MS, newest.boundary_ms - HOUR_MS + 1, HOUR_MS):
            if self._is_to_finish(hour_ms, finished, (*newest.gaps, *gaps)):
                self.objects.finish_hour(hour_ms)
                finished.add(success_key(self._prefix, hour_ms))

    def _is_to_finish(self, hour_ms: int, finished: Container[str], gaps: Iterable[NamedGap]) -> bool:
        """Return whether an hour is not finished, and has no gap."""
        hour = Interval(hour_ms, hour_ms + HOUR_MS)
        is_finished = success_key(self._prefix, hour_ms) in finished
        return not is_finished and not any(hour.overlaps(Interval(*gap.times_ms)) for gap in gaps)


def what_holds(
    store: RetryingStore, prefix: str, record: ApplicationRecord, every_ms: int, now_ms: int
) -> list[HoldReport]:
    """Return what holds the next boundary, by the rules of its publishers; nothing is written. Raises as they do."""
    publisher = Publisher(store, prefix, every_ms=every_ms, begin_ms=record.begin_ms, writer="", writes=False)
    return [
        HoldReport(shard=hold.shard, reached=iso_time(hold.reached_ms) if hold.reached_ms else None, why=hold.why)
        for hold in publisher.attempt(now_ms).holds
    ]


def _skips(statements: Statements, prefix: str) -> list[Skipped]:
    skips = []
    for row in statements.rows:
        if row.key.startswith(f"{prefix}{SKIPPED}"):
            try:
                parsed = parse_skipped_key(prefix, row.key)
            except FormatError:
                continue  # a foreign object, which the audit names
            skips.append(Skipped(parsed.shard_id, parsed.logged_ms, row.last_modified_ms, parsed.writer))
    return skips


def _clipped(gaps: Iterable[NamedGap], facts: Facts, times: Mapping[str, Interval]) -> Iterator[NamedGap]:
    """Yield gaps as far as their time has come; those of skipped batches from when their shard can have lived.

    What a night has found it finds again, with the same times: clipped, it would be withdrawn each night.
    """
    for gap in gaps:
        from_ms, until_ms = gap.times_ms
        required = times.get(gap.shard, Interval(0, FOREVER))
        low_ms = max(from_ms, facts.since_ms, required.from_ms) if Reason.SKIPPED in gap.reasons else from_ms
        high_ms = min(until_ms, facts.now_ms + HOUR_MS)
        if low_ms < high_ms:
            is_same = (low_ms, high_ms) == (from_ms, until_ms)
            yield gap if is_same else NamedGap.of(gap.shard, low_ms, high_ms, gap.reasons)


def _merged(gaps: Iterable[NamedGap]) -> tuple[NamedGap, ...]:
    """Return the gaps without those that lie within another one."""
    kept: list[NamedGap] = []
    for gap in sorted(gaps, key=lambda gap: (gap.shard, gap.times_ms[0], -gap.times_ms[1])):
        if not is_within(gap, kept):
            kept.append(gap)
    return tuple(kept)
