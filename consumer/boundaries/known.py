"""What a supervisor knows of its shards' times: from their processors' log lines, and from its own looks.

    line                    row                                                the next look stands on it
    segment_committed       [from, until of its evidence], open at its minute  yes, at its last position
                            less a minute; in doubt: [until, until]
    read_mark_written       the mark's interval; unproven: [until, until]      yes, at its position
    shard_end_proven        its end piece                                      there is nothing left to look at
    read_mark_found         none: an earlier run has said it                   yes, if the processor has said nothing
    segment_adopted         [until, until]: another processor wrote it         yes, at its last position
    checkpoint_behind_      [until, until]: the stream is empty behind a       yes, without a position
      archive               chain whose end the processor does not know
    a look at the tip       [until of what it stands on, until]                no: it is not durable

**The log rule.** KCL logs a batch that it skips before it delivers the next one. So a line counts only once the
daemon's own log was read to its end after the line had come: then nothing was skipped before it. What came since, and
the shard's lines up to the daemon's end, are dropped with a skipped batch: the archive judges that time.
"""

import threading
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from consumer.child_logs.processor_log import COMMITTED, LEFT, OPENED, ProcessorEvent
from minutebook.coverage.continuity import Base
from minutebook.errors import FormatError
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.boundaries import ShardRow
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS, parse_minute_text
from minutebook.format.position import Position

MARKED: Final = "read_mark_written"
END_PROVEN: Final = "shard_end_proven"
FOUND: Final = "read_mark_found"
ADOPTED: Final = "segment_adopted"
BEHIND: Final = "checkpoint_behind_archive"
_TAKEN: Final = frozenset({OPENED, COMMITTED, MARKED, END_PROVEN, FOUND, ADOPTED, BEHIND, *LEFT})


@dataclass(slots=True)
class _Shard:
    after: str | None = None
    """Where its processor began, as its line says it; None: nobody here reads it."""
    pid: int = 0
    """That of the processor that opened it last."""
    base: Base | None = None
    """The durable evidence that the next look stands on."""
    until_ms: int = 0
    committed_ms: int | None = None
    has_ended: bool = False
    news: list[ShardRow] = field(default_factory=list)


class ReadShard(NamedTuple):
    """A shard that this worker reads. `until_ms` is how far its rows reach, looks included (0: none).

    `after` is where its processor began. `base` is None before its first line. `committed_ms` is the service's time
    when the last segment was logged.
    """

    shard_id: str
    after: str
    base: Base | None
    until_ms: int
    committed_ms: int | None


class KnownShards:
    """The shards of one supervisor. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shards: dict[str, _Shard] = {}
        self._staged: list[tuple[int, ProcessorEvent]] = []
        self._number = 0
        self._distrusted: set[str] | None = set()

    def daemon_started(self) -> None:
        """Begin a run of the daemon: its processors say anew which shards they read."""
        with self._lock:
            self._distrusted = set()
            self._staged.clear()
            for shard in self._shards.values():
                shard.after = None

    def note(self, event: ProcessorEvent) -> None:
        """Take a line of a processor; it counts once `settle` is called."""
        if event.shard and event.event in _TAKEN:
            with self._lock:
                if self._distrusted is not None and event.shard not in self._distrusted:
                    self._number += 1
                    self._staged.append((self._number, event))

    def skipped(self, shard_id: str) -> None:
        """Drop what did not count yet of a shard (empty: of all), and all that comes until the daemon is started."""
        with self._lock:
            if not shard_id:
                self._distrusted = None
                self._staged.clear()
            elif self._distrusted is not None:
                self._distrusted.add(shard_id)
                self._staged = [(number, event) for number, event in self._staged if event.shard != shard_id]

    def staged(self) -> int:
        """Return a number for `settle`: that of the last line that has come."""
        with self._lock:
            return self._number

    def settle(self, number: int, service_ms: int | None) -> None:
        """Count the lines up to a number: since it was returned, the daemon's log was read to its end."""
        with self._lock:
            counted = [event for staged, event in self._staged if staged <= number]
            self._staged = [(staged, event) for staged, event in self._staged if staged > number]
            for event in counted:
                self._count(self._shards.setdefault(event.shard, _Shard()), event, service_ms)

    def looked(self, shard_id: str, base: Base, row: ShardRow) -> None:
        """Take the result of a look; dropped if the shard stands on something else by now."""
        with self._lock:
            shard = self._shards.get(shard_id)
            if shard is not None and (shard.base is None or shard.base == base):
                _say(shard, row)

    def to_read(self) -> list[ReadShard]:
        """Return the shards that a look may be due at, in order."""
        with self._lock:
            return [
                ReadShard(name, shard.after, shard.base, shard.until_ms, shard.committed_ms)
                for name, shard in sorted(self._shards.items())
                if shard.after is not None and not shard.has_ended
            ]

    def has_news(self) -> bool:
        """Return whether `take_news` would return rows, or forget a shard that nobody here reads any more."""
        with self._lock:
            return any(shard.news or shard.after is None for shard in self._shards.values())

    def take_news(self) -> dict[str, list[ShardRow]]:
        """Return the rows that nobody has stored yet, by shard; the caller stores them."""
        with self._lock:
            news = {name: shard.news for name, shard in sorted(self._shards.items()) if shard.news}
            for name in news:
                self._shards[name].news = []
            self._shards = {name: shard for name, shard in self._shards.items() if shard.after is not None}
            return news

    @staticmethod
    def _count(shard: _Shard, event: ProcessorEvent, service_ms: int | None) -> None:
        if event.event in LEFT:
            # One that hung may leave after this worker has opened the shard anew.
            if event.pid == shard.pid:
                shard.after = None
        elif event.event == OPENED:
            if shard.base is not None and str(shard.base.position) != event.after:
                shard.base = None
            shard.after, shard.has_ended, shard.pid = event.after, False, event.pid
        elif event.event == FOUND:
            if shard.base is None and event.covered_until_ms is not None:
                shard.base = _base(event.covered_until_ms, event.last)
        elif (row := row_of(event)) is not None:
            _say(shard, row)
            shard.base = _base(row.until_ms, row.position)
            shard.has_ended = row.end is not None
            if event.event == COMMITTED:
                shard.committed_ms = service_ms


def row_of(event: ProcessorEvent) -> ShardRow | None:
    """Return what a line says of its shard's times; None if it lacks a part, as one of an older version does."""
    until_ms = event.covered_until_ms
    from_ms = until_ms if event.event in {ADOPTED, BEHIND} else event.covered_from_ms
    if from_ms is None or until_ms is None or from_ms > until_ms:
        return None
    if event.event in {COMMITTED, ADOPTED}:
        try:
            open_ms = parse_minute_text(event.minute) * MINUTE_MS - ARRIVAL_STEP_BACK_MS
        except FormatError:
            return None
        return ShardRow(from_ms, until_ms, open_ms, event.last)
    is_proven = event.continuity == Continuity.PROVEN
    from_ms = from_ms if is_proven else until_ms
    if event.event in {MARKED, BEHIND}:
        return ShardRow(from_ms, until_ms, until_ms, event.last)
    return ShardRow(from_ms, until_ms, 0, event.last, "proven" if is_proven else "unproven")


def _base(until_ms: int, position: str | None) -> Base:
    return Base(until_ms, None if position is None else Position.parse(position))


def _say(shard: _Shard, row: ShardRow) -> None:
    """Add a row to the news; one that continues the last becomes one with it."""
    shard.until_ms = max(shard.until_ms, row.until_ms)
    last = shard.news[-1] if shard.news else None
    if last is None or last.end is not None or not last.from_ms <= row.from_ms <= last.until_ms:
        shard.news.append(row)
    else:
        until_ms, open_ms = max(last.until_ms, row.until_ms), max(last.open_ms, row.open_ms)
        shard.news[-1] = ShardRow(last.from_ms, until_ms, open_ms, row.position or last.position, row.end)
