"""Find the files of published days: read each day's pointer and manifest once."""

import datetime as dt
from collections.abc import Callable, Collection
from typing import Final, Literal, NamedTuple

from minutebook.aws.clients import aws_session
from minutebook.errors import DayNotPublished, FormatError, SettingsError, StoreUnavailable
from minutebook.format.day import Day, Hour, day_range
from minutebook.format.minute import iso_time, parse_iso_time
from minutebook.published.generation import DayFolder, File, is_judged_by_these_rules
from minutebook.published.reading import PublishedReader, hour_folders
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix, open_retrying, parse_place
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

Missing = Literal["error", "skip"]
"""How to treat a day that is not published, or has another verdict than those requested."""
WORST_FIRST: Final = ("defects", "unknown", "clean")
"""All verdicts."""
VERDICTS: Final = tuple(reversed(WORST_FIRST))
_ATTEMPTS: Final = 5
_BUDGET_SECONDS: Final = 60


class PublishedFile(NamedTuple):
    """One Parquet file: its address, its path for pyarrow (`bucket/key`, or a local path), rows and bytes."""

    uri: str
    path: str
    rows: int
    bytes: int


class PublishedDay(NamedTuple):
    """One day as of its pointer.

    `verdict` is that of the latest audit; `unknown` if its rules are older than this version's. `until` (ISO 8601) is
    the end of a day so far; None: the whole day. With `intraday`, `hours` lists the hours that were published
    separately and are included; `verdict` is then the worst of all parts, and `until` the end of the last hour. Hours
    before it may be missing.
    """

    day: dt.date
    generation: str
    verdict: str
    rows: int
    until: str | None
    files: tuple[PublishedFile, ...]
    hours: tuple[int, ...] = ()


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
    intraday: bool = False,
    region: str | None = None,
    endpoint: str | None = None,
) -> PublishedDays:
    """Return the files of each day from `from_` to `to`, inclusive, as the pointers name them now.

    `uri` is the argument of `compact --out`, or the default beside the archive, `s3://bucket/prefix/_parquet/`. Days
    without a pointer, or with a verdict that is not in `verdicts`, raise DayNotPublished, or are `left_out` with
    `missing="skip"`. With `intraday` a day that is not published as a whole consists of what was published of it so
    far and the published hours after that (`PublishedDay.hours`). Region and endpoint default to the environment's. A
    pointer and manifest that contradict each other raise FormatError.
    """
    _check_choices(missing, verdicts)
    dates = list(day_range(_day(from_), _day(to)))
    place = _place(uri, region, endpoint)
    storage = open_retrying(place.address, _BUDGET_SECONDS)
    scheme = uri.partition("://")[0] if "://" in uri else ""

    def read(folder: DayFolder) -> PublishedDay | None:
        return _read(storage, folder, scheme)

    def find(day: Day) -> PublishedDay | None:
        folder = DayFolder(place.prefix, day)
        return day_with_hours(storage, folder, read) if intraday else read(folder)

    days, left_out = list[PublishedDay](), list[tuple[dt.date, str]]()
    for date, day in zip(dates, in_parallel(find, dates), strict=True):
        if day is not None and day.verdict in verdicts:
            days.append(day)
        else:
            reason = "it is not published" if day is None else f"its verdict is {day.verdict}"
            left_out.append((date.date, reason))
    if left_out and missing == "error":
        raise DayNotPublished(
            f"{uri}: " + "; ".join(f"{day}: {reason}" for day, reason in left_out),
            next_step='run minutebook compact for these days, or leave them out: missing="skip"',
        )
    return PublishedDays(tuple(days), tuple(left_out), place.address)


def _check_choices(missing: str, verdicts: Collection[str]) -> None:
    if missing not in {"error", "skip"}:
        raise SettingsError(f"missing={missing!r} is not a choice", next_step='write "error" or "skip"')
    unknown = [verdicts] if isinstance(verdicts, str) else sorted(set(verdicts) - {*VERDICTS})
    if unknown:
        raise SettingsError(f"verdicts={unknown} are none", next_step=f"choose of {VERDICTS}, as a tuple")


def _day(day: str | dt.date) -> Day:
    if isinstance(day, dt.datetime):
        raise SettingsError(f"{day!r} is a time", next_step="name a UTC day, such as 2026-11-21")
    return Day.parse(day.isoformat() if isinstance(day, dt.date) else day)


def _place(uri: str, region: str | None, endpoint: str | None) -> StorePrefix:
    is_local = uri.partition("://")[0] in {uri, "file"}
    region = region or ("" if is_local else aws_session().region_name)
    if region is None:
        raise SettingsError("no region is known", next_step='give region="eu-west-1", or set AWS_REGION')
    return parse_place(uri, region, endpoint)


def _read(storage: RetryingStorage, folder: DayFolder, scheme: str) -> PublishedDay | None:
    """Read pointer and manifest once; None if there is no pointer."""
    pointer, manifest = PublishedReader(storage, folder).published()
    if pointer is None:
        return None
    if manifest is None:
        raise FormatError(
            f"{folder.pointer} names {pointer.manifest}, which is missing",
            next_step="run minutebook compact for the day: it is read and published again",
        )
    files = tuple(_published_file(storage, scheme, file) for file in manifest.files if file.rows)
    verdict = pointer.verdict if is_judged_by_these_rules(pointer, manifest) else "unknown"
    return PublishedDay(folder.day.date, manifest.generation, verdict, manifest.rows, manifest.until, files)


def _published_file(storage: RetryingStorage, scheme: str, file: File) -> PublishedFile:
    """Return a file with the scheme of the caller's address: Spark without EMRFS reads only `s3a://`."""
    _, separator, path = storage.uri(file.key).rpartition("://")
    return PublishedFile(f"{scheme}://{path}" if separator else path, path, file.rows, file.bytes)


Read = Callable[[DayFolder], PublishedDay | None]


def day_with_hours(storage: RetryingStorage, folder: DayFolder, read: Read) -> PublishedDay | None:
    """Return the day of the pointer, extended by the published hours after it; None if neither exists.

    The day's pointer is read before and after those of the hours: if the whole day is published meanwhile, which
    removes them, that is returned. Raises StoreUnavailable if the day's pointer changes in every attempt.
    """
    day = read(folder)
    for _ in range(_ATTEMPTS):
        if day is not None and day.until is None:
            return day
        try:
            hours = _hours(storage, folder, read)
        except FormatError:
            later = read(folder)
            if later == day:
                raise
            day = later  # the day was published, and vacuum removed the hours meanwhile
            continue
        later = read(folder)
        if later == day:
            return _merged(day, hours)
        day = later
    raise StoreUnavailable(
        f"{folder.pointer} changes all the time", next_step="look for runs that publish it by turns"
    )


def _hours(storage: RetryingStorage, folder: DayFolder, read: Read) -> list[tuple[Hour, PublishedDay]]:
    hours = []
    for hour_folder in hour_folders(storage, folder.root, folder.day):
        part = read(hour_folder)
        if part is not None and hour_folder.hour is not None:
            hours.append((hour_folder.hour, part))
    return hours


def _merged(day: PublishedDay | None, hours: list[tuple[Hour, PublishedDay]]) -> PublishedDay | None:
    until_ms = 0 if day is None or day.until is None else parse_iso_time(day.until)
    later = [(hour, part) for hour, part in hours if hour.begin_ms >= until_ms]
    if not later:
        return day
    parts = [*([] if day is None else [day]), *(part for _, part in later)]
    return PublishedDay(
        day=parts[0].day,
        generation="" if day is None else day.generation,
        verdict=min((part.verdict for part in parts), key=WORST_FIRST.index),
        rows=sum(part.rows for part in parts),
        until=iso_time(later[-1][0].end_ms),
        files=tuple(file for part in parts for file in part.files),
        hours=tuple(hour.number for hour, _ in later),
    )
