"""Which files are a day: the pointer and the manifest that it names, each read once."""

import datetime as dt
from collections.abc import Collection
from typing import Final, Literal, NamedTuple

from minutebook.aws.clients import aws_session
from minutebook.errors import DayNotPublished, FormatError, SettingsError
from minutebook.format.day import Day, day_range
from minutebook.published.generation import DayFolder, Manifest, Pointer, is_judged_by_these_rules
from minutebook.published.reading import PublishedReader
from minutebook.reader.hours import day_with_hours
from minutebook.reader.published_day import WORST_FIRST, PublishedDay, PublishedFile
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix, open_retrying, parse_place
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

Missing = Literal["error", "skip"]
"""What becomes of a day that is not published, or whose verdict is not among those asked for."""
VERDICTS: Final = tuple(reversed(WORST_FIRST))
_BUDGET_SECONDS: Final = 60


class PublishedDays(NamedTuple):
    """The days of a range, by date, and those that were left out, each with the reason."""

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
    """Return the files of each day from `from_` to `to`, both included, as the pointers name them now.

    `uri` is what `compact --out` was given, or the default beside the archive, `s3://bucket/prefix/_parquet/`. A day
    without a pointer raises, as does one whose verdict is not in `verdicts`; with `missing="skip"` such days are
    `left_out`. With `intraday` a day that is not published as a whole is what there is of it: its published hours
    (`PublishedDay.hours`), behind what was published so far. Region and endpoint are those of the environment
    unless given.

    Raises:
        DayNotPublished: a day that is to be left out, unless days may be.
        SettingsError: an address, a day or a choice that is none.
        FormatError: a pointer and its manifest contradict each other.
        StoreUnavailable, StoreRefused: the store.
    """
    _check_choices(missing, verdicts)
    wanted = list(day_range(_day(from_), _day(to)))
    place = _place(uri, region, endpoint)
    storage = open_retrying(place.address, _BUDGET_SECONDS)
    scheme = uri.partition("://")[0] if "://" in uri else ""

    def read(folder: DayFolder) -> PublishedDay | None:
        return _read(storage, folder, scheme)

    def find(day: Day) -> PublishedDay | None:
        folder = DayFolder(place.prefix, day)
        return day_with_hours(storage, folder, read) if intraday else read(folder)

    found = in_parallel(find, wanted)
    days, left_out = list[PublishedDay](), list[tuple[dt.date, str]]()
    for day, one in zip(wanted, found, strict=True):
        if one is not None and one.verdict in verdicts:
            days.append(one)
        else:
            reason = "it is not published" if one is None else f"its verdict is {one.verdict}"
            left_out.append((_date(day), reason))
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


def _date(day: Day) -> dt.date:
    return dt.date.fromisoformat(str(day))


def _place(uri: str, region: str | None, endpoint: str | None) -> StorePrefix:
    is_local = uri.partition("://")[0] in {uri, "file"}
    found = region or ("" if is_local else aws_session().region_name)
    if found is None:
        raise SettingsError("no region is known", next_step='give region="eu-west-1", or set AWS_REGION')
    return parse_place(uri, found, endpoint)


def _read(storage: RetryingStorage, folder: DayFolder, scheme: str) -> PublishedDay | None:
    """Read pointer and manifest once; None: there is no pointer."""
    pointer, manifest = PublishedReader(storage, folder).published()
    if pointer is None:
        return None
    if manifest is None:
        raise FormatError(
            f"{folder.pointer} names {pointer.manifest}, which is missing",
            next_step="run minutebook compact for the day: it is read and published again",
        )
    files = tuple(_file(storage, scheme, file.key, file.rows, file.bytes) for file in manifest.files if file.rows)
    return PublishedDay(
        _date(folder.day), manifest.generation, _verdict(pointer, manifest), manifest.rows, manifest.until, files
    )


def _verdict(pointer: Pointer, manifest: Manifest) -> str:
    return pointer.verdict if is_judged_by_these_rules(pointer, manifest) else "unknown"


def _file(storage: RetryingStorage, scheme: str, key: str, rows: int, size: int) -> PublishedFile:
    """Name a file with the scheme that was asked with: Spark without EMRFS reads `s3a://` alone."""
    _, separator, path = storage.uri(key).rpartition("://")
    return PublishedFile(f"{scheme}://{path}" if separator else path, path, rows, size)
