"""Which published days a night judges again, beside those that it was asked for.

    its verdict is not clean, or of older rules ................ always: evidence may have come
    it was published so far, and is over ....................... always
    evidence that touches it is newer than its audit ........... within the last days that were asked for

Evidence that touches a day: read marks under it, segments in it, batches that KCL skipped on it or the day behind it.
Nothing of a day that is whole, clean and untouched is read but its pointer and names.
"""

from compaction.job.context import JobContext
from compaction.job.scope import is_settled
from minutebook.errors import SettingsError
from minutebook.format.coverage_markers import SKIPPED
from minutebook.format.day import Day, day_of_ms
from minutebook.format.read_mark import read_mark_folder
from minutebook.published.generation import DayFolder, Pointer, audit_key, is_judged_today
from minutebook.published.reading import PublishedReader
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import is_expired

_BEGIN = "dt="


def days_to_recheck(context: JobContext, out: StorePrefix, days: int) -> list[Day]:
    """Return the days, in order; evidence newer than an audit is looked for on the last `days` days.

    Raises:
        FormatError: a pointer does not parse.
        StoreUnavailable, StoreRefused: the store.
    """
    storage, now_ms = context.open(out.address), context.clock.now_ms()
    today = day_of_ms(now_ms)
    published = [day for day in published_days(storage, out.prefix) if is_settled(day, now_ms)]

    def is_due(day: Day) -> bool:
        publisher = PublishedReader(storage, DayFolder(out.prefix, day))
        pointer = publisher.current().pointer
        if pointer is None or is_expired(context.archive, context.place.prefix, day):
            return False
        if pointer.verdict != "clean" or pointer.until is not None or not is_judged_today(pointer):
            return True
        return day.number >= today.number - days and _is_touched(context, publisher, day, pointer)

    due = in_parallel(is_due, published)
    return [day for day, is_one in zip(published, due, strict=True) if is_one]


def published_days(storage: RetryingStorage, root: str) -> list[Day]:
    """Return the days that have a folder below the output's root, in order; raises StoreUnavailable, StoreRefused."""
    names = (folder.removeprefix(root).rstrip("/") for folder in storage.list_level(root).folders)
    found = (_day_of(name.removeprefix(_BEGIN)) for name in names if name.startswith(_BEGIN))
    return sorted(day for day in found if day is not None)


def _day_of(name: str) -> Day | None:
    """Return the day of a folder's name; None for a folder that somebody else made, such as `dt=latest`."""
    try:
        return Day.parse(name)
    except SettingsError:
        return None


def _is_touched(context: JobContext, publisher: PublishedReader, day: Day, pointer: Pointer) -> bool:
    """Tell whether anything that lies under the day is newer than the audit that gave its verdict."""
    head = publisher.storage.head(audit_key(pointer))
    if head is None:
        return True
    prefix = context.place.prefix
    folders = [
        read_mark_folder(prefix, day),
        f"{prefix}{SKIPPED}{day}/",
        f"{prefix}{SKIPPED}{day.shift(1)}/",
        *day.hour_paths(prefix),
    ]
    return any(
        row.last_modified_ms > head.last_modified_ms
        for folder in folders
        for row in context.archive.list_objects(folder)
    )
