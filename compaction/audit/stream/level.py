"""Level `stream`: read Kinesis again and compare it with the archive, shard by shard, in tasks.

What cannot be compared becomes a check: records that have left the stream, shards that it no longer lists,
and records that are not archived yet. A record that the stream holds and the archive does not is

    at or before the position that the shard's reader has passed .. missing_in_archive, a defect: nobody brings it
    behind that, of a shard that was read to its end .............. the same
    kept under _undelivered/, or named by the shard's end ......... `undelivered`, which is a warning
    behind that, however old it is ............................... unknown: a consumer that lags will still bring it

The slices of a shard are read one after another, so that its share of the stream's reads is never taken twice: each
round of tasks reads the next slice of every shard. The driver sees counts and samples.

Read marks keep the result, because the stream trims what was compared:

    proven    a whole comparison of a shard that lacked nothing
    lost      minutes in which missing records arrived, of a part of a comparison, too: it stands against all other
              evidence of them, whoever wrote that and when
    answer    a proven mark for each lost one that this audit had read and whose records it found archived since: with
              the interval and the writer of the lost one, which is void from then on. Nothing answers a lost mark of
              an interval that the stream has trimmed
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from compaction.audit.stream.records import Bounds, Comparison, joined
from compaction.audit.stream.slices import (
    SHARDS_A_TASK,
    SLICE_BYTES,
    ComparedWindow,
    ShardSlice,
    SliceOrder,
    SliceResult,
    compare_slices,
    cut_slices,
)
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.segments import ArchivedSegment
from compaction.inventory.shard_markers import ArchiveMarkers, ShardMarkers
from compaction.job.context import JobContext
from compaction.stream.kinesis import ListedShards, ReadLog, ReadSpan
from compaction.verdict.audit_document import AuditCheck
from compaction.verdict.findings import Finding
from minutebook.coverage.evidence import SURELY_HELD_MS, Kind, mark_evidence, unanswered
from minutebook.coverage.intervals import Interval, union
from minutebook.coverage.shard_coverage import ShardFacts
from minutebook.errors import StreamRefused, StreamUnavailable
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.coverage_markers import UNDELIVERED
from minutebook.format.day import Day
from minutebook.format.markers import ApplicationRecord
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, mark_days, read_mark_key
from minutebook.proof.reading import ScopeFacts


class StreamResult(NamedTuple):
    """Findings and checks of the level, how many records were compared, and how each shard was read.

    `shards` holds those of which the whole scope was read in one unbroken piece, and no others. `lost` are the times
    in which the missing records of a shard arrived.
    """

    findings: tuple[Finding, ...]
    checks: tuple[AuditCheck, ...]
    compared: int
    shards: Mapping[str, tuple[Comparison, ReadLog]] = {}
    lost: Mapping[str, tuple[Interval, ...]] = {}


class ComparisonRequest(NamedTuple):
    """What is compared: one shard alone, or a window of each; in slices of so many bytes of payload."""

    only: str | None = None
    sample_minutes: int | None = None
    slice_bytes: int = SLICE_BYTES


def compare_with_stream(
    context: JobContext,
    inventory: DayObjects,
    segments: Sequence[ArchivedSegment],
    markers: ArchiveMarkers,
    ends: Mapping[str, Position],
    request: ComparisonRequest,
) -> StreamResult:
    """Compare a day with the stream; a stream that cannot be read leaves its checks unknown.

    `ends` is the last position of each shard that its reader has passed, by what was read before the stream is asked.
    """
    if context.stream is None:
        return _unread("stream_readable", "no stream was given")
    try:
        stream = context.stream().listed()
    except (StreamRefused, StreamUnavailable) as exc:
        return _unread("stream_readable", str(exc))
    other_stream = _other_stream(markers.application, stream)
    if other_stream:
        return _unread("stream_identity", other_stream)
    listed = sorted(row.shard_id for row in stream.rows)
    window = ComparedWindow.of(inventory.day, inventory.end_ms, request.sample_minutes)
    rounds = _Rounds(context, inventory, segments, markers, stream=stream, ends=ends, window=window)
    try:
        results = rounds.run([shard for shard in listed if request.only in {None, shard}], request.slice_bytes)
    except (StreamRefused, StreamUnavailable) as exc:
        return _unread("stream_readable", str(exc))
    findings = tuple(finding for result in results.values() for finding in result.comparison.findings)
    checks = _checks(results, {segment.metadata.shard_id for segment in segments}.difference(listed), window)
    compared = sum(result.comparison.compared for result in results.values())
    whole = {
        shard: (result.comparison, result.log)
        for shard, result in results.items()
        if not result.error and not result.log.is_broken
    }
    lost = {
        shard: union(Interval(minute * MINUTE_MS, (minute + 1) * MINUTE_MS) for minute in minutes)
        for shard, result in results.items()
        if (minutes := result.comparison.lost_minutes)
    }
    return StreamResult(findings, tuple(checks), compared, {} if window.is_sample else whole, lost)


def _unread(check: str, message: str) -> StreamResult:
    return StreamResult((), (_unknown(check, message),), 0)


def _unknown(check: str, message: str) -> AuditCheck:
    return AuditCheck(id=check, status="unknown", message=message)


def _other_stream(application: ApplicationRecord | None, stream: ListedShards) -> str:
    if application is None:
        return "there is no record of the stream that the prefix belongs to"
    if (application.stream_arn, application.stream_created_ms) != (stream.arn, stream.created_ms):
        return f"the prefix belongs to {application.stream_arn}, created at {application.stream_created_ms} ms"
    return ""


class _Shard:
    """A shard that is being read: the slices that are left, and what the others have shown."""

    def __init__(self, slices: Sequence[ShardSlice]) -> None:
        self.left = list(slices)
        self.results: list[SliceResult] = []

    @property
    def is_done(self) -> bool:
        last = self.results[-1] if self.results else None
        return not self.left or (last is not None and (bool(last.error) or last.log.is_broken))

    def result(self) -> SliceResult:
        """Join the slices: asked before the first one was read, answered when the last one had been."""
        logs = [result.log for result in self.results]
        answered = [log.answered_ms for log in logs if log.asked_ms is not None]
        log = replace(
            logs[0],
            answered_ms=answered[-1] if answered else None,
            is_broken=any(log.is_broken for log in logs),
        )
        comparison = joined([result.comparison for result in self.results])
        return SliceResult(comparison, log, next((result.error for result in self.results if result.error), ""))


class _Rounds:
    def __init__(
        self,
        context: JobContext,
        inventory: DayObjects,
        segments: Sequence[ArchivedSegment],
        markers: ArchiveMarkers,
        *,
        stream: ListedShards,
        ends: Mapping[str, Position],
        window: ComparedWindow,
    ) -> None:
        self._context = context
        self._inventory = inventory
        self._markers = markers
        self._stream = stream
        self._ends = ends
        self._window = window
        self._undelivered = kept_undelivered(context, inventory.day)
        self._segments: dict[str, list[ArchivedSegment]] = defaultdict(list)
        for segment in segments:
            self._segments[segment.metadata.shard_id].append(segment)

    def run(self, shard_ids: Sequence[str], slice_bytes: int) -> dict[str, SliceResult]:
        """Read the shards, a slice of each in every round."""
        window, segments = self._window, self._segments
        shards = {
            shard: _Shard(cut_slices(window.of_shard(segments[shard], shard), slice_bytes)) for shard in shard_ids
        }
        while at_work := [shard for shard, state in shards.items() if not state.is_done]:
            orders = [self._order(shard, shards[shard]) for shard in at_work]
            tasks = [orders[begin : begin + SHARDS_A_TASK] for begin in range(0, len(orders), SHARDS_A_TASK)]
            results = [result for task in self._context.spread(compare_slices, tasks) for result in task]
            for shard, result in zip(at_work, results, strict=True):
                shards[shard].results.append(result)
        return {shard: state.result() for shard, state in shards.items()}

    def _order(self, shard_id: str, state: _Shard) -> SliceOrder:
        segments, start, stop = state.left.pop(0)
        first, before = (state.results[0].log, state.results[-1].log) if state.results else (None, None)
        markers = self._markers.shards.get(shard_id, ShardMarkers())
        end, application = markers.end, self._markers.application
        undelivered = self._undelivered.get(shard_id, frozenset())
        undelivered |= frozenset(map(int, end.undelivered)) if end is not None else frozenset[int]()
        since_ms = first.since_ms if first is not None and first.is_trimmed else 0
        oldest = None if first is None else first.oldest
        begin_ms, end_ms = self._window.times(shard_id)
        assert self._context.stream is not None  # noqa: S101 - for the type checker: `compare_with_stream` has checked
        sentinel = None if markers.start is None else markers.start.chain_start()
        return SliceOrder(
            shard_id=shard_id,
            stream=self._context.stream,
            archive=self._context.place.address,
            prefix=self._inventory.prefix,
            segments=segments,
            reach=ReadSpan(
                begin_ms,
                end_ms,
                start,
                stop,
                None if before is None else before.next_sequence,
                self._stream.created_ms,
                self._stream.retention_ms,
            ),
            bounds=Bounds(since_ms, oldest, self._ends.get(shard_id), end is not None, undelivered),
            begun_ms=None if application is None else application.start_at_ms,
            adopted=None if sentinel is None else sentinel.adopted,
            # The slice before has read to the stream's end: what the archive holds behind it, the stream does not.
            read=before is None or before.next_sequence is not None,
        )


def kept_undelivered(context: JobContext, day: Day) -> dict[str, frozenset[int]]:
    """Return, by shard, the sequence numbers of the day's records that KCL did not deliver and that are kept."""
    folder = f"{context.place.prefix}{UNDELIVERED}{day}/"
    kept: dict[str, set[int]] = defaultdict(set)
    for key in context.archive.keys(folder):
        shard_id, _, name = key.removeprefix(folder).partition("/")
        sequence = name.removesuffix(".json")
        if sequence.isdecimal() and sequence.isascii():
            kept[shard_id].add(int(sequence))
    return {shard_id: frozenset(sequences) for shard_id, sequences in kept.items()}


def _checks(results: Mapping[str, SliceResult], gone: set[str], window: ComparedWindow) -> list[AuditCheck]:
    """Say what was compared, and what could not be."""
    checks = [_compared(results, window)]
    failed = {shard: result.error for shard, result in results.items() if result.error}
    if failed:
        message = f"{len(failed)} shard(s) could not be read: {_first_few(failed)}: {next(iter(failed.values()))}"
        checks.append(_unknown("stream_readable", message))
    if any(result.log.is_trimmed or result.comparison.not_compared for result in results.values()):
        message = "a part of the day has left the stream; only what is still there was compared"
        checks.append(_unknown("stream_reach", message))
    broken = [shard for shard, result in results.items() if result.log.is_broken]
    if broken:
        message = (
            f"records left the stream faster than they were read again: {_first_few(broken)} "
            "(--stream-budget reads faster, --sample reads less)"
        )
        checks.append(_unknown("stream_unbroken", message))
    if gone:
        checks.append(_unknown("stream_shards", f"the stream no longer lists {_first_few(sorted(gone))}"))
    behind = {shard: result.comparison for shard, result in results.items() if result.comparison.to_come}
    if behind:
        oldest_ms = min(comparison.to_come_since_ms or 0 for comparison in behind.values())
        message = (
            f"{sum(comparison.to_come for comparison in behind.values())} record(s) behind the archive's end, the "
            f"oldest of {iso_time(oldest_ms)}, are not archived yet: {_first_few(behind)}"
        )
        checks.append(_unknown("stream_tail", message))
    return checks


def _first_few(shards: Iterable[str]) -> str:
    return ", ".join(list(shards)[:5])


def _compared(results: Mapping[str, SliceResult], window: ComparedWindow) -> AuditCheck:
    total = sum(result.comparison.compared for result in results.values())
    message = f"{total} records of {len(results)} shards were read from the stream and compared"
    if not window.is_sample:
        return AuditCheck(id="stream_compared", status="pass", message=message)
    return AuditCheck(id="stream_sample", status="warning", message=f"{message}: {window.describe(list(results))}")


def store_stream_marks(
    context: JobContext, compared: StreamResult, facts: ScopeFacts, before: Iterable[ReadMark]
) -> None:
    """Store the result of a comparison as read marks of kind `stream`, under each of their days.

    `before` are the marks that were read before anything was compared.
    """
    scope, marks = facts.query.scope, list[ReadMark]()
    for shard, lost in compared.lost.items():
        marks += lost_marks(shard, scope, lost, writer=context.new_id())
    for shard, (comparison, log) in compared.shards.items():
        of_shard = facts.shards.get(shard, ShardFacts(shard))
        mark = stream_mark(of_shard, scope, comparison, log, writer=context.new_id())
        if mark is not None:
            marks += [mark, *answers(mark, before)]
    for mark in marks:
        for day in mark_days(mark):
            context.archive.put_if_absent(read_mark_key(context.place.prefix, day, mark), encode_read_mark(mark))


def lost_marks(shard_id: str, scope: Interval, lost: Iterable[Interval], *, writer: str) -> list[ReadMark]:
    """Return the marks of a shard's lost times, within the scope.

    They name no position: whatever the chain holds or will hold does not matter to them.
    """
    times = [one.common(scope) for one in lost]
    return [
        ReadMark(shard_id, MarkKind.STREAM, Continuity.LOST, *one, None, writer) for one in times if not one.is_empty
    ]


def answers(mark: ReadMark, before: Iterable[ReadMark]) -> list[ReadMark]:
    """Return an answer to each lost mark that was read before the comparison and lies within what it proves."""
    return [
        mark._replace(from_ms=lost.from_ms, until_ms=lost.until_ms, writer=lost.writer)
        for lost in unanswered(before)
        if lost.shard_id == mark.shard_id
        and mark_evidence(lost).is_loss
        and mark.from_ms <= lost.from_ms
        and lost.until_ms <= mark.until_ms
    ]


def stream_mark(
    facts: ShardFacts, scope: Interval, compared: Comparison, read: ReadLog, *, writer: str
) -> ReadMark | None:
    """Return the mark of one shard; None where the comparison proves nothing.

    A mark says that everything that arrived on the shard in its interval is archived, because the stream still held
    all of it and the archive lacked none:

        until    the Date of an answer before the first record was asked for, less a minute; at the latest the
                 scope's end, and that of what was read
        from     a minute behind the oldest record that was read, or 24 h less five minutes before the last answer:
                 nothing younger has been trimmed. Never before the scope
    """
    if compared.findings or compared.to_come or read.asked_ms is None or read.answered_ms is None:
        return None
    from_ms = read.answered_ms - SURELY_HELD_MS
    if read.oldest_ms is not None:
        from_ms = min(from_ms, read.oldest_ms + ARRIVAL_STEP_BACK_MS)
    from_ms = max(from_ms, read.since_ms, scope.from_ms)
    until_ms = min(read.asked_ms - ARRIVAL_STEP_BACK_MS, read.until_ms, scope.until_ms)
    lasts = [
        link.last
        for link in facts.chain.links
        if link.kind is not Kind.SEGMENT or link.until_ms + ARRIVAL_STEP_BACK_MS < scope.until_ms
    ]
    if until_ms <= from_ms or (not lasts and not _begins_later(facts, until_ms)):
        return None
    position = max(lasts, default=None)
    return ReadMark(facts.shard_id, MarkKind.STREAM, Continuity.PROVEN, from_ms, until_ms, position, writer)


def _begins_later(facts: ShardFacts, until_ms: int) -> bool:
    """Return whether a shard had no record yet: it has not begun, or its first segment holds later ones alone."""
    begun_at = facts.chain.begun_at
    first = min(facts.chain.links, key=lambda link: link.first, default=None)
    return begun_at is None or (first is not None and first.first == begun_at and first.arrival_min_ms >= until_ms)
