"""Read what readers see of a stream's days, for the page over streams and days.

A day is one GET of its pointer; of one that is not clean the audit is read, too: was it accepted? The last ones are
read as `minutebook.reader` reads them, manifest and audit: a pointer that says `clean` beside a damaged one is no
clean day. What cannot be read is a note of its day, or of the stream.
"""

from functools import partial
from typing import Final, NamedTuple

from compaction.job.context import JobContext
from compaction.job.scope import newest_settled
from compaction.night.due import oldest_day, pointer_word
from compaction.report.calendar import CalendarDay, CalendarWord, StreamCalendar
from minutebook.errors import MinutebookError
from minutebook.format.day import Day
from minutebook.owner import read_owned
from minutebook.published.generation import DayFolder, proven_verdict
from minutebook.published.reading import PublishedReader, published_days
from minutebook.published.verdict import CLEAN
from minutebook.reader.days import read_current
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import list_tombstones

DAYS: Final = 400
"""Days of the page, at most."""
SIZE_DAYS: Final = 30
"""The newest published days whose bytes are counted."""


def read_calendar(context: JobContext, out: StorePrefix, known: StreamCalendar, days: int = DAYS) -> StreamCalendar:
    """Return the calendar with the last days of the stream: from its archive's first one to the newest settled one.

    `known` names the stream and its places. A day that is not over is among them if it is published so far.
    """
    try:
        return _read_calendar(context, out, known, days)
    except MinutebookError as exc:
        return known._replace(error=str(exc))


def _read_calendar(context: JobContext, out: StorePrefix, known: StreamCalendar, days: int) -> StreamCalendar:
    prefix, now_ms, storage = context.place.prefix, context.clock.now_ms(), context.open(out.address)
    known = known._replace(where=storage.uri(out.prefix).rstrip("/") + "/")
    newest = newest_settled(now_ms)
    published, expired = published_days(storage, out.prefix), list_tombstones(context.archive, prefix)
    application = read_owned(context.archive, prefix, context.owner, application=known.application)
    first = oldest_day(context, application, newest, [*published, *expired])
    if first is None:
        return known._replace(error="nothing is archived or published there")
    last = max([newest, *published])
    shown = [Day(number) for number in range(max(first.number, last.number + 1 - days), last.number + 1)]
    folders = [DayFolder(out.prefix, day) for day in shown if day in frozenset(published)]
    found = {each.day: each for each in in_parallel(partial(_read_day, storage), folders)}
    counted = [each for each in folders if found[each.day].rows is not None][-SIZE_DAYS:]
    whole = in_parallel(lambda folder: _read_whole(storage, folder, found[folder.day]), counted)
    found |= {each.day.day: each.day for each in whole}
    sizes = [each.size for each in whole]
    seen = [found.get(day, CalendarDay(day, "none")) for day in shown]
    # A day that is not over has a folder as soon as `follow` or a run that died wrote there.
    seen = [each._replace(is_over=each.day <= newest) for each in seen if each.day <= newest or each.rows is not None]
    return known._replace(
        # A verdict that was withdrawn since says that its output is not what it was expired with.
        days=[
            each._replace(word="expired") if each.day in expired and each.is_readable and each.is_proven else each
            for each in seen
        ],
        size=None if None in sizes else sum(filter(None, sizes)),
    )


def _read_day(storage: RetryingStorage, folder: DayFolder) -> CalendarDay:
    try:
        pointer = PublishedReader(storage, folder).current().pointer
        if pointer is None:
            return CalendarDay(folder.day, "none")
        is_clean = pointer.verdict == CLEAN
        word: CalendarWord = proven_verdict(pointer) if is_clean else pointer_word(storage, folder.root, folder.day)
        is_proven = is_clean or word == "accepted"
        return CalendarDay(folder.day, word, pointer.rows, pointer.written_at, pointer.until, is_proven=is_proven)
    except MinutebookError as exc:
        return CalendarDay(folder.day, "unread", note=str(exc))


class _WholeDay(NamedTuple):
    """A day as a reader sees it, and its bytes; None: nobody knows."""

    day: CalendarDay
    size: int | None


def _read_whole(storage: RetryingStorage, folder: DayFolder, known: CalendarDay) -> _WholeDay:
    """Read the day's manifest and audit, too. `known`: by its pointer alone."""
    try:
        current = read_current(storage, folder, "")
    except MinutebookError as exc:
        return _WholeDay(known._replace(word="unread", note=str(exc)), None)
    if current is None:
        return _WholeDay(CalendarDay(folder.day, "none"), None)
    is_doubtful = known.word == CLEAN and current.day.verdict != CLEAN
    size = sum(file.bytes for file in current.day.files)
    return _WholeDay(known._replace(word="unknown") if is_doubtful else known, size)
