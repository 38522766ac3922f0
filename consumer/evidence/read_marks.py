"""Read marks: while its shard is quiet, a processor proves that it was read to its tip and held no more records.

A walk continues from tick to tick, with one GetRecords request in each. The daemon sends the next message only after
the answer to the last, so a batch may wait on the pipe for that request, or for the few that begin a walk or write
the mark. Each is sent once, without pauses. An error costs the mark and nothing else; the next attempt comes after a
minute.
"""

from typing import Final

import structlog

from consumer.evidence.opening import is_begun
from consumer.evidence.shard_evidence import ShardEvidence, position_of
from consumer.evidence.tip_walk import Reached, TipWalk
from consumer.evidence.undelivered import keep_undelivered
from consumer.evidence.worker_lock import WorkerLock
from consumer.services import Services
from consumer.stream.port import shard_hash_range
from minutebook.aws.kinesis.answers import Answer, Beginning
from minutebook.coverage.continuity import first_from, is_mark_due, read_until
from minutebook.errors import MinutebookError
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.metadata import Predecessor
from minutebook.format.minute import HOUR_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, mark_days, read_mark_key

_CALL_SECONDS: Final = 1.0
_MAX_CALLS: Final = 20
_KEPT_A_CALL: Final = 10
_DATE_MS: Final = 1000
"""The resolution of a Date header."""
_MAX_WALK_SECONDS: Final = 240.0
"""An iterator lives for five minutes."""


class ReadMarks:
    """Writes the read marks of one shard."""

    def __init__(self, services: Services, evidence: ShardEvidence, lock: WorkerLock) -> None:
        self._services = services.within(0)
        self._evidence = evidence
        self._shard_id = evidence.origin.shard_id
        self._lock = lock
        self._attempt_ms: int | None = None
        self._told_ms: int | None = None
        self._walk: _Walk | None = None
        self._log = structlog.get_logger().bind(shard=self._shard_id)

    def stop(self) -> None:
        """Give up a walk, because there are records to archive."""
        self._walk = None

    def tick(self, tail: Predecessor) -> None:
        """Continue a walk, or begin one that is due. No records are held, and KCL delivered none after `tail`."""
        try:
            if self._may_ask(tail) and self._lock.take():
                try:
                    self._ask(tail)
                finally:
                    self._lock.release()
        except MinutebookError as exc:
            self._walk = None
            self._log.warning(
                "read_mark_failed",
                error=str(exc),
                next_step="nothing is lost, it is tried again in a minute; until one is written the audit may "
                "answer unknown for this shard",
            )

    def _may_ask(self, tail: Predecessor) -> bool:
        if self._walk is not None and self._walk.tail == tail:
            return self._services.clock.monotonic() - self._walk.called_at >= _CALL_SECONDS
        self._walk = None
        return self._is_due()

    def _is_due(self) -> bool:
        now_ms = self._services.stream.service_ms()
        return now_ms is not None and is_mark_due(self._shard_id, self._evidence.until_ms, now_ms, self._attempt_ms)

    def _ask(self, tail: Predecessor) -> None:
        if self._walk is None:
            if not self._is_due_beyond(tail):
                return
            self._attempt_ms = self._services.stream.service_ms()
            self._walk = self._open(tail)
        walk, clock = self._walk, self._services.clock
        walk.called_at = clock.monotonic()
        if clock.monotonic() - walk.began_at > _MAX_WALK_SECONDS:
            self._walk = None
            return
        if self._keep_some(walk) and (walk.is_at_tip or self._read(walk)) and self._keep_some(walk):
            self._walk = None
            self._mark(walk)

    def _is_due_beyond(self, tail: Predecessor) -> bool:
        """Return whether a mark is still due after looking for one of an earlier run, as after a redeploy."""
        if not isinstance(tail, Position):
            self._evidence.look_up_beyond(tail, self._services)
        self._evidence.find_newer_mark(self._services)
        return self._is_due()

    def _read(self, walk: "_Walk") -> bool:
        """Send one request; return whether the walk is at the tip."""
        walk.calls += 1
        if walk.calls > _MAX_CALLS or not walk.iterator:
            self._walk = None
            return False
        reached = walk.take(self._services.stream.read(self._shard_id, walk.iterator))
        walk.is_at_tip = reached is Reached.TIP
        if not self._is_still_due(walk):
            self._walk = self._attempt_ms = None
        elif reached is not None and not walk.is_at_tip:
            self._walk = None
        return walk.is_at_tip and self._walk is not None

    def _keep_some(self, walk: "_Walk") -> bool:
        """Store some of the records that KCL withholds, as there may be thousands; return whether all are stored."""
        unkept = walk.withheld[len(walk.kept) :][:_KEPT_A_CALL]
        walk.kept += keep_undelivered(self._services, self._shard_id, unkept)
        return len(walk.kept) == len(walk.withheld)

    def _is_still_due(self, walk: "_Walk") -> bool:
        """Return whether a mark is still due after reading the record at the tail, or a mark of the last run."""
        if self._evidence.until_ms is not None or walk.record is None or not isinstance(walk.tail, Position):
            return True
        self._evidence.found_tail(walk.tail, walk.record.arrival_ms)
        attempt_ms, self._attempt_ms = self._attempt_ms, None
        is_due = self._is_due()
        if is_due and self._evidence.find_newer_mark(self._services):
            is_due = self._is_due()
        self._attempt_ms = attempt_ms
        return is_due

    def _open(self, tail: Predecessor) -> "_Walk":
        mark, position = self._evidence.young_mark, position_of(tail)
        start_ms = self._evidence.origin.application.start_at_ms if str(tail) == "AT_TIMESTAMP" else None
        if mark is not None:
            # The last mark has already proven the rest of the aggregate at the tail.
            beginning = Beginning(since_ms=max(mark.until_ms - ARRIVAL_STEP_BACK_MS, start_ms or 0))
        else:
            beginning = Beginning(None if position is None else position.sequence, start_ms)
        opened = self._services.stream.open(self._shard_id, beginning)
        if opened is None:
            opened = self._services.stream.open(self._shard_id, Beginning())
        return _Walk(tail, self._evidence, opened or Answer(None, None), self._services.clock.monotonic())

    def _mark(self, walk: "_Walk") -> None:
        """Write the mark that the walk proves."""
        evidence, services = self._evidence, self._services
        evidence.look_up_beyond(walk.tail, services)
        asked_ms, position = walk.asked_ms, position_of(walk.tail)
        if asked_ms is None or walk.answered_ms is None:
            return
        if position is None and is_begun(services, self._shard_id):
            self._tell_behind(asked_ms)
            return
        if walk.stands_on_mark and not evidence.is_young():
            return  # the mark aged during the walk: the next attempt begins at the tail
        continuity = evidence.judge_walk(walk.tail, walk, services)
        from_ms = first_from(evidence.base) if evidence.is_founded else asked_ms - ARRIVAL_STEP_BACK_MS
        until_ms = read_until(asked_ms, from_ms)
        if until_ms > walk.answered_ms + _DATE_MS or services.clock.monotonic() - walk.began_at > _MAX_WALK_SECONDS:
            return
        mark = ReadMark(
            self._shard_id,
            MarkKind.READ,
            continuity,
            from_ms,
            until_ms,
            position,
            services.new_id(),
            tuple(walk.kept),
        )
        store_mark(services, mark)
        evidence.marked(mark)
        self._attempt_ms = None
        self._log.info(
            "read_mark_written",
            last=None if position is None else str(position),
            continuity=str(continuity),
            covered_from_ms=from_ms,
            covered_until_ms=until_ms,
        )

    def _tell_behind(self, asked_ms: int) -> None:
        """Say, once an hour, that a chain has begun of which the stream holds nothing any more.

        Where it ends is not known here, so no mark can name its position. But nothing has arrived behind it, which is
        what the supervisor's looks stand on.
        """
        if self._told_ms is not None and asked_ms - self._told_ms < HOUR_MS:
            return
        self._told_ms = asked_ms
        self._log.warning(
            "checkpoint_behind_archive",
            covered_until_ms=read_until(asked_ms, 0),
            next_step="the stream has trimmed what the archive has behind this checkpoint, and the next record will "
            "be refused: stop the worker and run minutebook restore --apply",
        )


def store_mark(services: Services, mark: ReadMark) -> None:
    """Store a mark under every day that its interval touches, the earliest first.

    So one that is stored under the day of its `until` is stored under all days before: only on such a one may the
    next run stand (`ShardEvidence`).
    """
    for day in mark_days(mark):
        # The key contains our writer id: if it exists already, an earlier attempt of this request was applied.
        services.store.put_if_absent(read_mark_key(services.settings.prefix, day, mark), encode_read_mark(mark))


class _Walk(TipWalk):
    """A walk after a chain's tail; `began_at` and `called_at` are on the monotonic clock."""

    def __init__(self, tail: Predecessor, evidence: ShardEvidence, opened: Answer, began_at: float) -> None:
        super().__init__(position_of(tail), shard_hash_range(evidence.origin.info), opened)
        self.tail = tail
        self.began_at = self.called_at = began_at
        self.calls = 0
        self.is_at_tip = False
        self.kept: list[int] = []
        self.stands_on_mark = evidence.young_mark is not None
