"""`minutebook wait`: return once everything that arrived before a time is archived.

0  complete
4  a gap lies in it that waiting does not heal: said at once, with the command that may
5  no worker has said anything for a quarter of an hour, so waiting is of no use
7  not yet: the time-out is over, and the shards that hold it are named
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

import msgspec

from minutebook.archive_settings import ArchiveSettings, read_archive_settings, read_texts
from minutebook.clock import Clock, SystemClock
from minutebook.completeness.objects import BoundaryObjects
from minutebook.completeness.publisher import HoldReport, what_holds
from minutebook.completeness.query import (
    Answer,
    Completeness,
    JudgedTime,
    judge,
    read_completeness,
)
from minutebook.errors import SettingsError
from minutebook.format.boundaries import NamedGap
from minutebook.format.day import day_of_ms
from minutebook.format.minute import HOUR_MS, MINUTE_MS, iso_time, parse_iso_time
from minutebook.logs import configure_logging
from minutebook.owner import read_owned
from minutebook.remote_properties import fetch_properties
from minutebook.spans import SLOT_SECONDS, parse_span
from minutebook.store.places import open_retrying
from minutebook.store.retrying import RetryingStorage
from minutebook.wording import printable, printable_json, some_of

if TYPE_CHECKING:
    from minutebook.completeness.options import WaitOptions

COMPLETE_EVERY: Final = "completeSlotSeconds"
_BUDGET_SECONDS: Final = 60
_POLL_SECONDS: Final = 10.0
_SILENT_MS: Final = 15 * MINUTE_MS
_SHOWN: Final = 5


class Waited(NamedTuple):
    """The result of a wait."""

    exit_code: int
    judged: JudgedTime
    known: Completeness | None
    holds: Sequence[HoldReport] = ()


class WaitReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints. Times are ISO 8601; None: not known."""

    state: str
    begin: str | None = msgspec.field(name="from")
    until: str
    since: str | None
    complete_until: str | None
    gaps: list[NamedGap]
    holds: list[HoldReport]
    next_step: str
    format: int = 1


def run_wait(options: "WaitOptions", environ: Mapping[str, str]) -> int:
    """Wait and print one answer; return its exit code. Raises SettingsError, SafetyRefusal, and as the store."""
    until_ms = parse_iso_time(options.until)
    from_ms = None if options.from_ is None else parse_iso_time(options.from_)
    if from_ms is not None and from_ms >= until_ms:
        raise SettingsError("--from must lie before --until", next_step="give times such as 2026-11-21T10:00:00Z")
    timeout = 0.0 if options.once else parse_span(options.timeout, "--timeout")
    texts = read_texts(options.file, environ, fetch_properties)
    settings = read_archive_settings(texts, environ)
    every_seconds = texts.parsed(COMPLETE_EVERY, SLOT_SECONDS)
    texts.check()
    if not every_seconds:
        raise SettingsError(
            f"minutebook.{COMPLETE_EVERY} is 0: nobody says until when this archive is complete",
            next_step="leave it out, or set 300, and start the workers again",
        )
    configure_logging("error")
    waiting = _Waiting(open_retrying(settings.archive.address, _BUDGET_SECONDS), settings, every_seconds * 1000)
    waited = waiting.wait(from_ms, until_ms, timeout, accept_gaps=options.accept_gaps)
    tell(waited, from_ms, until_ms, str(options.file or "FILE.properties"), as_json=options.as_json)
    return waited.exit_code


class _Waiting:
    def __init__(self, storage: RetryingStorage, settings: ArchiveSettings, every_ms: int) -> None:
        self._storage = storage
        self._prefix = settings.prefix
        self._every_ms = every_ms
        self._record = read_owned(storage, settings.prefix, settings.owner)
        self._objects = BoundaryObjects(storage, settings.prefix)
        self._clock: Clock = SystemClock()

    def wait(self, from_ms: int | None, until_ms: int, timeout: float, *, accept_gaps: bool) -> Waited:
        """Ask until the time is complete, has a gap, or `timeout` seconds are over."""
        begun = self._clock.monotonic()
        while True:
            now_ms = self._storage.now_ms(self._prefix)
            known = read_completeness(self._objects, now_ms)
            judged = judged_time(known, from_ms, until_ms, accept_gaps=accept_gaps)
            if judged.answer is not Answer.NOT_YET:
                return Waited(0 if judged.answer is Answer.COMPLETE else 4, judged, known)
            if self._nobody_publishes(now_ms):
                return Waited(5, judged, known, self._holds(now_ms))
            left = begun + timeout - self._clock.monotonic()
            if left <= 0:
                return Waited(7, judged, known, self._holds(now_ms))
            self._clock.sleep(min(left, _POLL_SECONDS))

    def _nobody_publishes(self, now_ms: int) -> bool:
        """Return whether no worker has stored a row for a quarter of an hour more than a boundary's distance."""
        silent_ms = _SILENT_MS + (self._every_ms if self._every_ms >= _SILENT_MS else 0)
        newest_ms = self._objects.newest_rows_ms(now_ms - silent_ms - HOUR_MS, now_ms + HOUR_MS)
        return newest_ms is None or newest_ms < now_ms - silent_ms

    def _holds(self, now_ms: int) -> list[HoldReport]:
        if self._record is None:
            return []
        return what_holds(self._storage, self._prefix, self._record, self._every_ms, now_ms)


def judged_time(known: Completeness | None, from_ms: int | None, until_ms: int, *, accept_gaps: bool) -> JudgedTime:
    """Return the answer about a time by what is known; without `from_ms` about all since the first boundary."""
    if known is None:
        return JudgedTime(Answer.NOT_YET)
    judged = judge(known, known.since_ms if from_ms is None else from_ms, until_ms)
    if judged.answer is Answer.GAPS and accept_gaps and not judged.is_before_since:
        answer = Answer.COMPLETE if until_ms <= known.until_ms else Answer.NOT_YET
        return judged._replace(answer=answer)
    return judged


def tell(
    waited: Waited,
    from_ms: int | None,
    until_ms: int,
    file: str,
    *,
    as_json: bool,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> None:
    """Print the answer on stdout, and on stderr the gaps, the shards that hold it, and what to do."""
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    report = _report(waited, from_ms, until_ms, file)
    if as_json:
        stdout.write(printable_json(msgspec.json.encode(report).decode()) + "\n")
        return
    begin = "" if report.begin is None else f" since {report.begin}"
    known = (
        "nobody has published a boundary" if report.complete_until is None else f"boundary {report.complete_until}"
    )
    stdout.write(f"{report.state}: what arrived{begin} until {report.until} ({known})\n")
    for gap in report.gaps:
        why = ", ".join(gap.reasons) or "not proven"
        begins, ends = map(iso_time, gap.times_ms)
        stderr.write(f"gap: {printable(gap.shard)} from {begins} to {ends}: {printable(why)}\n")
    for hold in report.holds[:_SHOWN]:
        reached = f", reached {hold.reached}" if hold.reached else ""
        stderr.write(f"held by {printable(hold.shard or 'the stream')}{reached}: {printable(hold.why)}\n")
    if len(report.holds) > _SHOWN:
        stderr.write(f"and by {len(report.holds) - _SHOWN} more\n")
    if report.next_step:
        stderr.write(f"next step: {report.next_step}\n")


def _report(waited: Waited, from_ms: int | None, until_ms: int, file: str) -> WaitReport:
    known = waited.known
    since_ms = None if known is None else known.since_ms
    begin_ms = since_ms if from_ms is None else from_ms
    state = {0: "complete", 4: "gaps", 5: "nobody publishes", 7: "not yet"}[waited.exit_code]
    return WaitReport(
        state=state,
        begin=None if begin_ms is None else iso_time(begin_ms),
        until=iso_time(until_ms),
        since=None if since_ms is None else iso_time(since_ms),
        complete_until=None if known is None else iso_time(known.until_ms),
        gaps=list(waited.judged.gaps),
        holds=list(waited.holds),
        next_step=_next_step(waited, file),
    )


def _next_step(waited: Waited, file: str) -> str:
    known, judged = waited.known, waited.judged
    match waited.exit_code:
        case 4 if judged.gaps:
            days = some_of(_days(judged.gaps), _SHOWN)
            return (
                f"while the stream still holds that time, minutebook audit {file} --date DAY --level stream proves "
                f"or refutes it ({days}); or --accept-gaps, or another --from"
            )
        case 4 if known is not None:
            return f"boundaries begin at {iso_time(known.since_ms)}: of earlier days minutebook audit answers"
        case 5:
            return "see whether minutebook consume runs, and is of this version: minutebook status"
        case 7:
            return "wait again; if the same shard holds it for long, see minutebook docs runbook boundary_held"
    return ""


def _days(gaps: Iterable[NamedGap]) -> list[str]:
    return sorted({str(day_of_ms(time_ms)) for gap in gaps for time_ms in gap.times_ms})
