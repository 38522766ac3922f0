"""`--so-far` without a time: the last full hour of a day that every shard covers, estimated by names alone.

A shard that is read gets a read mark in the first twelve minutes of each hour, unless a later segment covers it. So
names tell how far each shard reaches, before a line is read:

    a proven read mark                              to its `until`
    a segment                                       to its minute, less a minute
    an end (end.json, or the proof of it)           for ever
    opened after an hour, as the child of another   the hour is its parents'

The judgement decides afterwards: an hour that it cannot prove is never called clean, and one that names do not show
is published with the next.
"""

from collections import defaultdict
from typing import ClassVar, Final, Literal, NamedTuple

from compaction.job.context import JobContext
from compaction.job.scope import SETTLED_MS, begins_ms, is_settled, scope_end
from minutebook.coverage.intervals import FOREVER
from minutebook.errors import MinutebookError, SettingsError
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.coverage_markers import OpenedMarker
from minutebook.format.day import Day, day_of_ms
from minutebook.format.markers import ApplicationRecord
from minutebook.format.metadata import Continuity
from minutebook.format.minute import HOUR_MS, MINUTE_MS, iso_time, parse_iso_time
from minutebook.format.read_mark import MarkKind
from minutebook.index.names import ArchiveIndex
from minutebook.proof.statements import Statements, read_statements
from minutebook.wording import some_of

_NAMED: Final = 3


class NoFullHour(MinutebookError):  # noqa: N818 - the name says what happened, as in minutebook.errors
    """No full hour of the day ended 20 minutes ago: nothing is wrong, and there is nothing to do yet."""

    exit_code: ClassVar[int] = 0


class NoCoveredHour(MinutebookError):  # noqa: N818 - as above
    """There is no full hour that every shard covers by names."""

    exit_code: ClassVar[int] = 4


def part_end(
    context: JobContext,
    day: Day,
    so_far_ms: int | Literal["covered"] | None,
    application: ApplicationRecord | None,
    published_ms: int = 0,
) -> int | None:
    """Return where the requested part of a day ends; None: the whole day, also where it is settled.

    No hour is looked for before `published_ms`, up to which the day is published already.

    Raises:
        SettingsError: no minute of the day lies before the time.
        NoFullHour, NoCoveredHour: there is no such hour.
    """
    now_ms = context.clock.now_ms()
    if so_far_ms != "covered":
        return scope_end(day, so_far_ms, now_ms)
    if is_settled(day, now_ms):
        return None
    begin_ms = max(day.begin_ms, begins_ms(application))
    last = (now_ms - SETTLED_MS) // HOUR_MS
    hours = [number * HOUR_MS for number in range(begin_ms // HOUR_MS + 1, last + 1)]
    if not hours:
        raise NoFullHour(
            f"no full hour of {day} ended {SETTLED_MS // MINUTE_MS} minutes ago or more",
            next_step="nothing: a later run publishes it",
        )
    return _last_covered(context, day, [hour for hour in reversed(hours) if hour > published_ms] or hours[-1:])


class _Reached(NamedTuple):
    """How far the shards reach by names, and since when an hour concerns each."""

    since: dict[str, int]
    until: defaultdict[str, int]

    def short_of(self, hour_ms: int) -> list[str]:
        """Return the shards that concern an hour's end and do not reach it."""
        return [shard for shard, since in self.since.items() if since < hour_ms and self.until[shard] < hour_ms]


def _last_covered(context: JobContext, day: Day, hours: list[int]) -> int:
    """Return the first of these ends of hours, the last one first, that every shard reaches."""
    prefix, now_ms = context.place.prefix, context.clock.now_ms()
    days = dict.fromkeys((day, day_of_ms(now_ms)))
    statements = read_statements(context.archive, prefix, days)
    index = ArchiveIndex(context.archive, prefix)
    reached, until_ms, short = _by_markers(statements), now_ms, list[str]()
    for hour_ms in hours:
        if reached.short_of(hour_ms):
            for name in (name for names in index.in_hours(hour_ms, until_ms) for name in names):
                end_ms = name.minute * MINUTE_MS - ARRIVAL_STEP_BACK_MS
                reached.until[name.shard_id] = max(reached.until[name.shard_id], end_ms)
                reached.since.setdefault(name.shard_id, 0)
            until_ms = hour_ms
        short = reached.short_of(hour_ms)
        if not short:
            return hour_ms
    raise NoCoveredHour(
        f"no full hour of {day} is covered by every shard: neither a segment nor a read mark of "
        f"{some_of(sorted(short), _NAMED)} reaches {iso_time(hours[-1])}",
        next_step="minutebook status says whether the shard is read; --so-far TIME judges up to a time in any case",
    )


def _by_markers(statements: Statements) -> _Reached:
    opened = {shard_id: markers.opened for shard_id, markers in statements.shards.items()}
    since = {shard_id: _since_ms(marker) for shard_id, marker in opened.items()}
    since |= dict.fromkeys((row.shard for row in statements.first.shards) if statements.first else (), 0)
    ended = {shard_id: FOREVER for shard_id, markers in statements.shards.items() if markers.end is not None}
    reached = _Reached(since, defaultdict(int, ended))
    for mark, _ in (stored for marks in statements.marks.values() for stored in marks):
        since.setdefault(mark.shard_id, 0)
        if mark.continuity is Continuity.PROVEN and mark.kind is not MarkKind.STREAM:
            until_ms = FOREVER if mark.kind is MarkKind.END else mark.until_ms
            reached.until[mark.shard_id] = max(reached.until[mark.shard_id], until_ms)
    return reached


def _since_ms(opened: OpenedMarker | None) -> int:
    """Return from when on a shard is required: a child since it was opened, by the clock of its host."""
    try:
        return parse_iso_time(opened.opened_at) if opened is not None and opened.parents else 0
    except SettingsError:
        return 0
