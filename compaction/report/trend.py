"""Read the verdicts of the last published days, for comparison: a pointer and an audit, two small objects, a day.

Of the report's own day the manifest is read, too, which knows how large its files are.

A day that cannot be read gets a note; errors never stop a report.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from compaction.verdict.audit_document import Audit
from minutebook.errors import MinutebookError
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder, File, Pointer, proven_verdict
from minutebook.published.reading import PublishedReader
from minutebook.published.verdict import Verdict
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage

DAYS: Final = 14


class TrendDay(NamedTuple):
    """One day: verdict and rows of its pointer, and findings of its audit.

    A clean verdict counts as unknown, as it does for readers, by older rules and without the audit that it is of.
    `verdict` None: not published, or not readable, as `note` says. `findings`: defects, unknowns and warnings; None:
    the audit is gone. `until` is the end of a day so far. `files_bytes` and `files`: size and keys of the
    published files, of the report's own day alone; None: not known.
    """

    day: str
    verdict: Verdict | None = None
    rows: int = 0
    findings: tuple[int, int, int] | None = None
    generation: str = ""
    note: str = ""
    until: str | None = None
    files_bytes: int | None = None
    files: tuple[str, ...] | None = None


class Trend(NamedTuple):
    """The days up to the one of the report, in order, and the address of the output, which ends in a slash."""

    where: str
    days: tuple[TrendDay, ...]

    @property
    def today(self) -> TrendDay:
        """The day of the report, as it is published."""
        return self.days[-1]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of any day."""
        return all(day.verdict is None and not day.note for day in self.days)


class _Severity(msgspec.Struct):
    severity: str


class _Counted(msgspec.Struct):
    """The part of an audit that a trend reads."""

    findings: tuple[_Severity, ...] = ()
    verdict: str = ""


def read_trend(storage: RetryingStorage, out: StorePrefix, day: Day, days: int = DAYS) -> Trend:
    """Read the last days, including `day`; errors of the store become notes."""

    def read(number: int) -> TrendDay:
        shifted = day.shift(number)
        try:
            return _read_day(storage, out, shifted, is_own=number == 0)
        except MinutebookError as exc:
            return TrendDay(str(shifted), note=str(exc))

    where = storage.uri(out.prefix).rstrip("/") + "/"
    return Trend(where, tuple(in_parallel(read, list(range(1 - days, 1)))))


def _read_day(storage: RetryingStorage, out: StorePrefix, day: Day, *, is_own: bool) -> TrendDay:
    reader = PublishedReader(storage, DayFolder(out.prefix, day))
    pointer = reader.current().pointer
    if pointer is None:
        return TrendDay(str(day))
    published = TrendDay(
        str(day), proven_verdict(pointer), pointer.rows, None, pointer.generation, until=pointer.until
    )
    if is_own:
        files = _files(reader, pointer)
        published = published._replace(
            files_bytes=None if files is None else sum(file.bytes for file in files),
            files=None if files is None else tuple(file.key for file in files if file.rows),
        )
    body = reader.audit(pointer)
    doubtful = published._replace(verdict=proven_verdict(pointer, has_audit=False))
    if body is None:
        return doubtful._replace(note="its audit is gone")
    try:
        audit = msgspec.json.decode(body, type=_Counted)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return doubtful._replace(note=f"its audit does not parse: {exc}")
    if audit.verdict not in {"", pointer.verdict}:
        return doubtful._replace(note=f"its pointer says {pointer.verdict}, and its audit {audit.verdict}")
    return published._replace(findings=by_severity([finding.severity for finding in audit.findings]))


def _files(reader: PublishedReader, pointer: Pointer) -> Sequence[File] | None:
    try:
        manifest = reader.manifest(pointer)
    except MinutebookError:  # the night says what is damaged
        return None
    return None if manifest is None else manifest.files


def by_severity(severities: Sequence[str]) -> tuple[int, int, int]:
    """Count defects, unknowns and warnings."""
    return severities.count("defect"), severities.count("unknown"), severities.count("warning")


def of_audit(audit: Audit) -> TrendDay:
    """Return the day of a report from its own audit."""
    rows = audit.equation.unique if audit.equation.compacted is None else audit.equation.compacted
    findings = by_severity([finding.severity for finding in audit.findings])
    return TrendDay(audit.scope.day, audit.verdict, rows, findings)
