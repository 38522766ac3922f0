"""Level `stream`: read Kinesis again and compare it with the archive, shard by shard, in tasks.

What cannot be compared is said, never passed over: records that have left the stream, shards that it no longer lists,
and records that are not archived yet. A record that the stream holds and the archive does not is

    at or before the position that the shard's reader has passed .. missing_in_archive, a defect: nobody brings it
    behind that, of a shard that was read to its end .............. the same, unless the end names it as undelivered
    behind that, however old it is ............................... unknown: a consumer that lags will still bring it

The slices of a shard are read one after another, so that its share of the stream's reads is never taken twice: each
round of tasks reads the next slice of every shard. The driver sees counts and samples.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from archive.errors import StreamRefused, StreamUnavailable
from archive.format.markers import ApplicationRecord
from archive.format.minute import iso_time
from archive.format.position import Position
from compaction.comparison.records import Bounds, Comparison, joined
from compaction.comparison.sample import Window
from compaction.comparison.slices import SLICE_BYTES, Slice, cut
from compaction.comparison.task import SHARDS_A_TASK, SliceOrder, SliceResult, compare_slices
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.segments import Segment
from compaction.inventory.shard_markers import ArchiveMarkers, ShardMarkers
from compaction.job.context import JobContext
from compaction.stream.kinesis import Reach, ReadLog, StreamFacts
from compaction.verdict.audit_document import AuditCheck
from compaction.verdict.findings import Finding


class StreamResult(NamedTuple):
    """Findings and checks of the level, how many records were compared, and how each shard was read.

    `shards` holds those of which the whole scope was read in one unbroken piece, and no others.
    """

    findings: tuple[Finding, ...]
    checks: tuple[AuditCheck, ...]
    compared: int
    shards: Mapping[str, tuple[Comparison, ReadLog]] = {}


class Asked(NamedTuple):
    """What is compared: one shard alone, or a window of each; in slices of so many bytes of payload."""

    only: str | None = None
    sample_minutes: int | None = None
    slice_bytes: int = SLICE_BYTES


def check_stream(
    context: JobContext,
    inventory: DayObjects,
    segments: Sequence[Segment],
    markers: ArchiveMarkers,
    ends: Mapping[str, Position],
    asked: Asked,
) -> StreamResult:
    """Compare a day with the stream; a stream that cannot be read leaves its checks unknown.

    `ends` is the last position of each shard that its reader has passed, by what was read before the stream is asked.
    """
    if context.stream is None:
        return _unread("stream_readable", "no stream was given")
    try:
        facts = context.stream().describe()
    except (StreamRefused, StreamUnavailable) as exc:
        return _unread("stream_readable", str(exc))
    stranger = _stranger(markers.application, facts)
    if stranger:
        return _unread("stream_identity", stranger)
    shards = [shard for shard in facts.shards if asked.only in {None, shard}]
    window = Window.of(inventory, asked.sample_minutes)
    try:
        work = _Rounds(context, inventory, segments, markers, facts=facts, ends=ends, window=window)
        read = work.run(shards, asked.slice_bytes)
    except (StreamRefused, StreamUnavailable) as exc:
        return _unread("stream_readable", str(exc))
    whole = {shard: one for shard, one in read.items() if not one.error and not one.log.is_broken}
    findings = tuple(found for one in read.values() for found in one.comparison.findings)
    checks = _checks(read, {segment.metadata.shard_id for segment in segments} - set(facts.shards), window)
    total = sum(one.comparison.compared for one in read.values())
    marked = {} if window.is_sample else {shard: (one.comparison, one.log) for shard, one in whole.items()}
    return StreamResult(findings, tuple(checks), total, marked)


def _unread(check: str, message: str) -> StreamResult:
    return StreamResult((), (AuditCheck(id=check, status="unknown", message=message),), 0)


def _stranger(application: ApplicationRecord | None, facts: StreamFacts) -> str:
    if application is None:
        return "there is no record of the stream that the prefix belongs to"
    if (application.stream_arn, application.stream_created_ms) != (facts.arn, facts.created_ms):
        return f"the prefix belongs to {application.stream_arn}, created at {application.stream_created_ms} ms"
    return ""


class _Shard:
    """A shard that is being read: the slices that are left, and what the others have shown."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self.left = list(slices)
        self.results: list[SliceResult] = []

    @property
    def is_done(self) -> bool:
        last = self.results[-1] if self.results else None
        return not self.left or (last is not None and (bool(last.error) or last.log.is_broken))

    def result(self) -> SliceResult:
        """Join the slices: asked before the first one was read, answered when the last one had been."""
        comparison = joined([one.comparison for one in self.results])
        log = replace(self.results[0].log)
        read = [one.log for one in self.results if one.log.asked_ms is not None]
        log.answered_ms = read[-1].answered_ms if read else None
        log.is_broken = any(one.log.is_broken for one in self.results)
        return SliceResult(comparison, log, next((one.error for one in self.results if one.error), ""))


class _Rounds:
    def __init__(
        self,
        context: JobContext,
        inventory: DayObjects,
        segments: Sequence[Segment],
        markers: ArchiveMarkers,
        *,
        facts: StreamFacts,
        ends: Mapping[str, Position],
        window: Window,
    ) -> None:
        self._context = context
        self._inventory = inventory
        self._markers = markers
        self._facts = facts
        self._ends = ends
        self._window = window
        self._segments: dict[str, list[Segment]] = defaultdict(list)
        for segment in segments:
            self._segments[segment.metadata.shard_id].append(segment)

    def _cut(self, shard_id: str, slice_bytes: int) -> _Shard:
        return _Shard(cut(self._window.of_shard(self._segments[shard_id], shard_id), slice_bytes))

    def run(self, shard_ids: Sequence[str], slice_bytes: int) -> dict[str, SliceResult]:
        """Read the shards, a slice of each in every round."""
        shards = {shard: self._cut(shard, slice_bytes) for shard in shard_ids}
        while at_work := [shard for shard, state in shards.items() if not state.is_done]:
            orders = [self._order(shard, shards[shard]) for shard in at_work]
            tasks = [orders[begin : begin + SHARDS_A_TASK] for begin in range(0, len(orders), SHARDS_A_TASK)]
            results = [one for task in self._context.spread(compare_slices, tasks) for one in task]
            for shard, result in zip(at_work, results, strict=True):
                shards[shard].results.append(result)
        return {shard: state.result() for shard, state in shards.items()}

    def _order(self, shard_id: str, state: _Shard) -> SliceOrder:
        part = state.left.pop(0)
        before = state.results[-1].log if state.results else None
        markers = self._markers.shards.get(shard_id, ShardMarkers())
        end, application = markers.end, self._markers.application
        kept = frozenset(map(int, end.undelivered)) if end is not None else frozenset[int]()
        first = state.results[0].log if state.results else None
        since_ms = first.since_ms if first is not None and first.is_trimmed else 0
        begin_ms, end_ms = self._window.times(shard_id)
        assert self._context.stream is not None  # noqa: S101 - for the type checker: `check_stream` has looked
        sentinel = None if markers.start is None else markers.start.chain_start()
        return SliceOrder(
            shard_id=shard_id,
            stream=self._context.stream,
            archive=self._context.place.address,
            prefix=self._inventory.prefix,
            segments=part.segments,
            reach=Reach(
                begin_ms,
                end_ms,
                part.start,
                part.stop,
                None if before is None else before.next_sequence,
                self._facts.created_ms,
                self._facts.retention_ms,
            ),
            bounds=Bounds(since_ms, self._ends.get(shard_id), end is not None, kept),
            begun_ms=None if application is None else application.start_at_ms,
            adopted=None if sentinel is None else sentinel.adopted,
            # The slice before has read to the stream's end: what the archive holds behind it, the stream does not.
            read=before is None or before.next_sequence is not None,
        )


def _checks(read: Mapping[str, SliceResult], gone: set[str], window: Window) -> list[AuditCheck]:
    """Say what was compared, and what could not be."""
    checks = [_compared(read, window)]
    failed = {shard: one.error for shard, one in read.items() if one.error}
    if failed:
        message = (
            f"{len(failed)} shard(s) could not be read: {', '.join(list(failed)[:5])}: {next(iter(failed.values()))}"
        )
        checks.append(AuditCheck(id="stream_readable", status="unknown", message=message))
    if any(one.log.is_trimmed for one in read.values()):
        message = "a part of the day has left the stream; only what is still there was compared"
        checks.append(AuditCheck(id="stream_reach", status="unknown", message=message))
    broken = [shard for shard, one in read.items() if one.log.is_broken]
    if broken:
        message = (
            f"records left the stream faster than they were read again: {', '.join(broken[:5])} "
            "(--stream-budget reads faster, --sample reads less)"
        )
        checks.append(AuditCheck(id="stream_unbroken", status="unknown", message=message))
    if gone:
        message = f"the stream no longer lists {', '.join(sorted(gone)[:5])}"
        checks.append(AuditCheck(id="stream_shards", status="unknown", message=message))
    behind = {shard: one.comparison for shard, one in read.items() if one.comparison.to_come}
    if behind:
        oldest_ms = min(one.to_come_since_ms or 0 for one in behind.values())
        message = (
            f"{sum(one.to_come for one in behind.values())} record(s) behind the archive's end, the oldest of "
            f"{iso_time(oldest_ms)}, are not archived yet: {', '.join(list(behind)[:5])}"
        )
        checks.append(AuditCheck(id="stream_tail", status="unknown", message=message))
    return checks


def _compared(read: Mapping[str, SliceResult], window: Window) -> AuditCheck:
    total = sum(one.comparison.compared for one in read.values())
    message = f"{total} records of {len(read)} shards were read from the stream and compared"
    if not window.is_sample:
        return AuditCheck(id="stream_compared", status="pass", message=message)
    return AuditCheck(id="stream_sample", status="warning", message=f"{message}: {window.told(list(read))}")
