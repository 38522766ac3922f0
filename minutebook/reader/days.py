"""Find the files of published days: read each day's pointer and manifest once."""

import datetime as dt
from collections.abc import Collection
from typing import Final, Literal, NamedTuple

from minutebook.aws.clients import aws_session
from minutebook.clock import SystemClock
from minutebook.errors import DayNotPublished, FormatError, SettingsError
from minutebook.format.day import Day, day_range
from minutebook.format.minute import parse_iso_time
from minutebook.published.generation import DayFolder, File, Pointer, audit_key, is_judged_by_these_rules
from minutebook.published.reading import PublishedReader
from minutebook.published.verdict import CLEAN
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix, open_retrying, parse_place
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

Missing = Literal["error", "skip"]
"""How to treat a day that is not published, or has another verdict than those requested."""
VERDICTS: Final = ("clean", "unknown", "defects")
"""All verdicts."""
_BUDGET_SECONDS: Final = 60
COMPACT: Final = "run minutebook compact for the day: it is read and published again"


class PublishedFile(NamedTuple):
    """One Parquet file: its address, its path for pyarrow (`bucket/key`, or a local path), rows and bytes."""

    uri: str
    path: str
    rows: int
    bytes: int


class PublishedDay(NamedTuple):
    """One day as of its pointer.

    `verdict` is that of the latest audit; `unknown` if its rules are older than this version's, if the audit is gone,
    or if it was `clean` longer ago than `max_age`. It is true of the archive as of `judged_from` (ISO 8601; None: the
    time is not known). `until` (ISO 8601) is the end of a day so far; None: the whole day. `stream` is the name of
    the stream whose archive was published; empty where no audit tells.
    """

    day: dt.date
    generation: str
    verdict: str
    rows: int
    until: str | None
    files: tuple[PublishedFile, ...]
    judged_from: str | None = None
    stream: str = ""


class PublishedDays(NamedTuple):
    """The days of a range, by date, and those left out, each with the reason."""

    days: tuple[PublishedDay, ...]
    left_out: tuple[tuple[dt.date, str], ...]
    address: Address


def published(
    uri: str,
    from_: str | dt.date,
    to: str | dt.date,
    *,
    missing: Missing = "error",
    verdicts: Collection[str] = VERDICTS,
    max_age: dt.timedelta | None = None,
    region: str | None = None,
    endpoint: str | None = None,
) -> PublishedDays:
    """Return the files of each day from `from_` to `to`, inclusive, as the pointers name them now.

    `uri` is the argument of `compact --out`, or the default beside the archive, `s3://bucket/prefix/_parquet/`. Days
    without a pointer, or with a verdict that is not in `verdicts`, raise DayNotPublished, or are `left_out` with
    `missing="skip"`. With `max_age` a verdict `clean` that was given longer ago counts as `unknown`. Region and
    endpoint default to the environment's. A pointer, manifest or audit that is damaged or contradicts the others
    raises FormatError.
    """
    _check_choices(missing, verdicts, max_age)
    dates = days_between(from_, to)
    place = output_place(uri, region, endpoint)
    storage = open_output(place)

    def find(day: Day) -> PublishedDay | None:
        current = read_current(storage, DayFolder(place.prefix, day), uri)
        return None if current is None else current.day

    days, left_out = list[PublishedDay](), list[tuple[dt.date, str]]()
    for date, found in zip(dates, in_parallel(find, dates), strict=True):
        day = None if found is None else _aged(found, max_age)
        if day is not None and day.verdict in verdicts:
            days.append(day)
        else:
            reason = "it is not published" if day is None else f"its verdict is {day.verdict}"
            if found is not None and found != day:
                reason = (
                    f"{reason}: {found.verdict} as of {found.judged_from or 'no known time'}, older than {max_age}"
                )
            left_out.append((date.date, reason))
    if left_out and missing == "error":
        raise DayNotPublished(
            f"{uri}: " + "; ".join(f"{day}: {reason}" for day, reason in left_out),
            next_step='run minutebook compact for these days, or leave them out: missing="skip"',
        )
    return PublishedDays(tuple(days), tuple(left_out), place.address)


def _aged(day: PublishedDay, max_age: dt.timedelta | None) -> PublishedDay:
    """Return the day with the verdict `unknown` if it was clean longer ago than `max_age`."""
    if max_age is None or day.verdict != CLEAN:
        return day
    oldest_ms = SystemClock().now_ms() - max_age // dt.timedelta(milliseconds=1)
    is_young = day.judged_from is not None and parse_iso_time(day.judged_from) >= oldest_ms
    return day if is_young else day._replace(verdict="unknown")


def _check_choices(missing: str, verdicts: Collection[str], max_age: dt.timedelta | None) -> None:
    if missing not in {"error", "skip"}:
        raise SettingsError(f"missing={missing!r} is not a choice", next_step='write "error" or "skip"')
    unknown = [verdicts] if isinstance(verdicts, str) else sorted(set(verdicts) - {*VERDICTS})
    if unknown:
        raise SettingsError(f"verdicts={unknown} are none", next_step=f"choose of {VERDICTS}, as a tuple")
    if max_age is not None and not (isinstance(max_age, dt.timedelta) and max_age > dt.timedelta()):
        raise SettingsError(f"max_age={max_age!r} is not an age", next_step="give a datetime.timedelta above zero")


def days_between(from_: str | dt.date, to: str | dt.date) -> list[Day]:
    """Return the days from `from_` to `to`, inclusive; raises SettingsError."""
    return list(day_range(_day(from_), _day(to)))


def _day(day: str | dt.date) -> Day:
    if isinstance(day, dt.datetime):
        raise SettingsError(f"{day!r} is a time", next_step="name a UTC day, such as 2026-11-21")
    return Day.parse(day.isoformat() if isinstance(day, dt.date) else day)


def output_place(uri: str, region: str | None, endpoint: str | None) -> StorePrefix:
    """Parse an address, with region and endpoint of the environment; raises SettingsError."""
    is_local = uri.partition("://")[0] in {uri, "file"}
    region = region or ("" if is_local else aws_session().region_name)
    if region is None:
        raise SettingsError("no region is known", next_step='give region="eu-west-1", or set AWS_REGION')
    return parse_place(uri, region, endpoint)


def open_output(place: StorePrefix) -> RetryingStorage:
    """Return the store of an address."""
    return open_retrying(place.address, _BUDGET_SECONDS)


class CurrentDay(NamedTuple):
    """A published day, with what read it and the pointer that was read."""

    day: PublishedDay
    reader: PublishedReader
    pointer: Pointer


def read_current(storage: RetryingStorage, folder: DayFolder, uri: str) -> CurrentDay | None:
    """Read pointer and manifest once; None if there is no pointer. Files get the scheme of `uri`."""
    reader = PublishedReader(storage, folder, next_step=COMPACT)
    pointer, manifest = reader.published()
    if pointer is None:
        return None
    if manifest is None:
        raise FormatError(
            f"{folder.pointer} names {pointer.manifest}, which is missing",
            next_step=COMPACT,
        )
    files = tuple(published_file(storage, uri, file) for file in manifest.files if file.rows)
    judgement = reader.judgement(audit_key(pointer))
    if judgement is not None and pointer.audit and judgement.verdict != pointer.verdict:
        raise FormatError(
            f"{folder.pointer} says {pointer.verdict}, and its audit {pointer.audit} says {judgement.verdict}",
            next_step=COMPACT,
        )
    is_proven = judgement is not None and is_judged_by_these_rules(pointer, manifest)
    day = PublishedDay(
        folder.day.date,
        manifest.generation,
        pointer.verdict if is_proven else "unknown",
        manifest.rows,
        manifest.until,
        files,
        judged_from=None if judgement is None else judgement.judged_from,
        stream="" if judgement is None else judgement.scope.stream,
    )
    return CurrentDay(day, reader, pointer)


def published_file(storage: RetryingStorage, uri: str, file: File) -> PublishedFile:
    """Return a file with the scheme of the caller's address: Spark without EMRFS reads only `s3a://`."""
    scheme = uri.partition("://")[0] if "://" in uri else ""
    _, separator, path = storage.uri(file.key).rpartition("://")
    return PublishedFile(f"{scheme}://{path}" if separator else path, path, file.rows, file.bytes)
