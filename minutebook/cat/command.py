"""`minutebook cat`: raw records on stdout, whatever is wrong on stderr."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, Final

from minutebook.archive_settings import ArchiveSettings, load_archive_settings
from minutebook.cat.bodies import FETCHES, Body, fetch_bodies, read_body
from minutebook.cat.listing import ListedMinutes, Segments
from minutebook.cat.merging import FoundRecord, Troubles, merge
from minutebook.cat.output import RecordOutput, open_output, printable
from minutebook.cat.request import CatRequest, checked_request
from minutebook.clock import SystemClock
from minutebook.errors import MinutebookError
from minutebook.format.minute import iso_time, minute_of
from minutebook.logs import configure_logging
from minutebook.owner import StreamOwner, read_owned
from minutebook.store.places import StorePrefix, open_retrying
from minutebook.store.retrying import RetryingStorage

if TYPE_CHECKING:
    from minutebook.cat.options import CatOptions

_BUDGET_SECONDS: Final = 60
_LISTS: Final = 4


def run_cat(options: "CatOptions", environ: Mapping[str, str]) -> int:
    """Print the records that arrived in a span of time; returns the exit code.

    3: something in the archive is damaged or contradicts itself, and was named; all that can be read was shown.
    4: something could not be shown that may be right: a day that was expired, an object that is gone. Else 0, also
    when whoever reads our output has had enough.

    Raises:
        SettingsError: the file or an option.
        SafetyRefusal: the archive of another stream.
        StoreUnavailable, StoreRefused: the archive.
    """
    request = checked_request(options, SystemClock().now_ms())
    settings = load_archive_settings(options.file, environ)
    configure_logging("error")
    storage = open_retrying(settings.archive.address, _BUDGET_SECONDS)
    return _print(storage, settings, request)


def _print(storage: RetryingStorage, settings: ArchiveSettings, request: CatRequest) -> int:
    """Write the records where they go, whatever ends that; returns the exit code."""
    troubles, output = Troubles(_tell), open_output(request, sys.stdout.buffer)
    try:
        shown = print_records(storage, settings.archive, settings.owner, request, output, troubles)
    except BrokenPipeError:
        _let_go(sys.stdout.buffer)
        return troubles.conclude()
    except OSError as exc:  # the store's are others
        _close(output.abort)
        raise MinutebookError(f"{request.out or 'stdout'}: {exc}", next_step="make room, or write elsewhere") from exc
    except BaseException:  # the file that is half written must not stay, whatever ended this
        _close(output.abort)
        raise
    if not shown and not troubles.defects and not troubles.unknown:
        _tell(f"no record between {iso_time(request.from_ms)} and {iso_time(request.to_ms)}")
    return troubles.conclude()


def print_records(
    storage: RetryingStorage,
    place: StorePrefix,
    owner: StreamOwner,
    request: CatRequest,
    output: RecordOutput,
    troubles: Troubles,
) -> int:
    """Write the records that are asked for; returns how many. For the errors see `run_cat`."""
    shown = 0
    with ExitStack() as stack:
        lists = _pool(stack, _LISTS)
        is_ours = lists.submit(read_owned, storage, place.prefix, owner)
        segments = Segments(lists, storage, place.prefix, request.minutes, request.shard, _teller(troubles))
        bodies = fetch_bodies(_pool(stack, FETCHES), storage, segments)
        for found in wanted(
            merge(_flushed(bodies, output), lambda body: read_body(storage, body), troubles), request, troubles
        ):
            if not shown:
                is_ours.result()
            output.write(found)
            if not shown:
                output.flush()
            shown += 1
            if shown == request.limit:
                break
        is_ours.result()
    output.close()
    return shown


def wanted(records: Iterator[FoundRecord], request: CatRequest, troubles: Troubles) -> Iterator[FoundRecord]:
    """Yield those records that are asked for; one under another minute than its own may lie in its own, too."""
    for found in records:
        record = found.record
        if minute_of(record.arrival_ms) != found.segment.parsed.minute:
            troubles.misplaced(found)
        if request.from_ms <= record.arrival_ms < request.to_ms and (
            request.partition_key is None or record.partition_key == request.partition_key
        ):
            yield found


def _flushed(bodies: Iterator[Body], output: RecordOutput) -> Iterator[Body]:
    """Yield the bodies; what was written is let out before the next one is waited for."""
    for body in bodies:
        yield body
        output.flush()


def _pool(stack: ExitStack, workers: int) -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(workers, thread_name_prefix="cat")
    stack.callback(pool.shutdown, wait=False, cancel_futures=True)
    return pool


def _teller(troubles: Troubles) -> Callable[[ListedMinutes], None]:
    def tell(listed: ListedMinutes) -> None:
        for key in listed.foreign:
            troubles.defect(key, "among the segments, and none by its name")
        if listed.expired is not None:
            troubles.unproven(
                f"{listed.expired} was expired: its records are in the published days (minutebook.reader)"
            )

    return tell


def _tell(text: str) -> None:
    sys.stderr.write(f"minutebook: {printable(text)}\n")


def _close(close: Callable[[], None]) -> None:
    try:
        close()
    except (OSError, MinutebookError) as exc:
        _tell(str(exc))


def _let_go(stdout: BinaryIO) -> None:
    """Let Python flush what nobody reads into nothing, when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stdout.fileno())
    os.close(nowhere)
