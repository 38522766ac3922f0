"""`minutebook cat`: raw records on stdout, problems on stderr."""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from minutebook.archive_settings import ArchiveSettings, load_archive_settings
from minutebook.cat.following import FollowedSegments, Pace
from minutebook.cat.listing import ListedMinutes, Segments
from minutebook.cat.output import RecordOutput, open_output
from minutebook.cat.request import LATE_MINUTES, CatRequest, checked_request
from minutebook.clock import SystemClock
from minutebook.cut import Cut, check_cut
from minutebook.errors import MinutebookError
from minutebook.format.day import day_of_ms
from minutebook.format.minute import iso_time, minute_of
from minutebook.index.names import ArchiveIndex
from minutebook.logs import configure_logging
from minutebook.owner import disbelief, read_owned
from minutebook.segments.ahead import Upcoming, request_pool
from minutebook.segments.bodies import FETCHES, Body, fetch_bodies, read_body
from minutebook.segments.merging import Problems, SegmentRecord, merge
from minutebook.store.places import StorePrefix, open_retrying
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import list_tombstones
from minutebook.wording import printable

if TYPE_CHECKING:
    from minutebook.cat.options import CatOptions
    from minutebook.segments.listing import SegmentToRead

_BUDGET_SECONDS: Final = 60
_LISTS: Final = 4


def run_cat(options: "CatOptions", environ: Mapping[str, str]) -> int:
    """Print the records that arrived in a span of time; returns the exit code.

    3: an object is damaged or contradicts another one, and was reported; all readable records were shown. 4: records
    may be missing from the output: a day was expired, or an object is gone. Else 0, also when the reader of stdout
    closes it. Raises SettingsError, SafetyRefusal for another stream's archive, and the errors of the store.
    """
    settings = load_archive_settings(options.file, environ)
    configure_logging("error")
    storage = open_retrying(settings.archive.address, _BUDGET_SECONDS)
    request = checked_request(options, SystemClock().now_ms(), partial(archive_begin_ms, storage, settings.prefix))
    problems, output = Problems(_report), open_output(request, sys.stdout.buffer)
    try:
        owned = partial(_check_owned, storage, settings, [cut for cut in (request.before, request.after) if cut])
        with _pace(request) as pace:
            shown = print_records(storage, settings.archive, owned, request, output, problems, pace)
    except BrokenPipeError:
        _discard(sys.stdout.buffer)
        return problems.conclude()
    except OSError as exc:  # of the output: the store raises other errors
        _abort(output)
        raise MinutebookError(f"{request.out or 'stdout'}: {exc}", next_step="make room, or write elsewhere") from exc
    except BaseException:  # an unfinished file must not stay
        _abort(output)
        raise
    if not shown and not request.follow and not problems.defects and not problems.unknown:
        _report(f"no record between {iso_time(request.from_ms)} and {iso_time(request.to_ms)}")
    return problems.conclude()


def print_records(
    storage: RetryingStorage,
    place: StorePrefix,
    check_owner: Callable[[], None],
    request: CatRequest,
    output: RecordOutput,
    problems: Problems,
    pace: Pace | None = None,
) -> int:
    """Write the requested records once `check_owner` has passed; returns their number. Raises as `run_cat`.

    With a pace, also those that are committed until it is over.
    """
    shown = 0
    with ExitStack() as stack:
        lists, fetches = (stack.enter_context(request_pool(workers)) for workers in (_LISTS, FETCHES))
        owned = lists.submit(check_owner)
        report = partial(_report_listing, problems)
        segments: Upcoming[SegmentToRead]
        segments = Segments(lists, storage, place.prefix, request.minutes, request.shard, report)
        if pace is not None:
            owned.result()
            segments = FollowedSegments(storage, place.prefix, request, segments, problems, pace)
        bodies = _flushed(fetch_bodies(fetches, storage, segments), output)
        records = merge(bodies, lambda body: read_body(storage, body), problems)
        for record in _matching(records, request, problems):
            if not shown:
                owned.result()
            output.write(record)
            if not shown:
                output.flush()
            shown += 1
            if shown == request.limit or (pace is not None and pace.is_over):
                break
        owned.result()
    output.close()
    return shown


@contextmanager
def _pace(request: CatRequest) -> Iterator[Pace | None]:
    """Return the pace of a request that follows: the first Ctrl-C or SIGTERM ends it, a second one the process."""
    if not request.follow:
        yield None
        return
    stop, former = threading.Event(), dict[int, Any]()

    def end(*_: object) -> None:
        stop.set()
        restore()

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    former |= {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    _report(f"following; a segment that is committed more than {LATE_MINUTES} minutes after its minute is not shown")
    try:
        yield Pace(SystemClock(), stop, _check_pipe if request.out is None else lambda: None)
    finally:
        restore()


def _check_pipe() -> None:
    """Raise BrokenPipeError if stdout is a pipe that nobody reads: without records no write would tell."""
    watch = select.poll()
    watch.register(sys.stdout, 0)
    if any(event & select.POLLERR for _, event in watch.poll(0)):
        raise BrokenPipeError


def archive_begin_ms(storage: RetryingStorage, prefix: str) -> int:
    """Return the beginning of the first day of an archive, expired ones included, or of today."""
    today = day_of_ms(SystemClock().now_ms())
    oldest = ArchiveIndex(storage, prefix).oldest_day(today) or today
    return min([oldest, *list_tombstones(storage, prefix)]).begin_ms


def _check_owned(storage: RetryingStorage, settings: ArchiveSettings, cuts: Sequence[Cut]) -> None:
    """Check the stream of archive and cuts; say so where another application than the settings' began the archive."""
    record = read_owned(storage, settings.prefix, settings.owner)
    for cut in cuts:
        check_cut(cut, record)
    if record is not None and (why := disbelief(record.application, settings.application_name)):
        _report(why)


def _matching(records: Iterator[SegmentRecord], request: CatRequest, problems: Problems) -> Iterator[SegmentRecord]:
    """Yield the requested records; report those in a segment of another minute."""
    for row in records:
        if minute_of(row.record.arrival_ms) != row.segment.parsed.minute:
            problems.misplaced(row)
        if request.selects(row.segment.parsed.shard_id, row.record):
            yield row


def _flushed(bodies: Iterator[Body], output: RecordOutput) -> Iterator[Body]:
    """Yield the bodies; flush the output before waiting for the next one."""
    for body in bodies:
        yield body
        output.flush()


def _report_listing(problems: Problems, listed: ListedMinutes) -> None:
    for key in listed.foreign:
        problems.foreign(key)
    if listed.expired is not None:
        problems.unproven(f"{listed.expired} was expired: its records are in the published days (minutebook.reader)")


def _report(text: str) -> None:
    sys.stderr.write(f"minutebook: {printable(text)}\n")


def _abort(output: RecordOutput) -> None:
    try:
        output.abort()
    except (OSError, MinutebookError) as exc:
        _report(str(exc))


def _discard(stdout: BinaryIO) -> None:
    """Redirect stdout to /dev/null, so that the flush at exit cannot raise BrokenPipeError."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, stdout.fileno())
    os.close(devnull)
