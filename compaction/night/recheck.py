"""`--recheck`: the published days that a night visits again: judged, or rewritten where objects came late.

    its verdict is not clean, or of older rules ................ always: there may be new evidence
    it was published so far, and is over ....................... always
    evidence that concerns it is newer than its audit .......... within the last days of the option

Evidence that concerns a day: late segments, its read marks, and batches that KCL skipped on it or on the next day. Of
other days only the pointer and names are read.
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

_DAY_FOLDER = "dt="


def days_to_recheck(context: JobContext, out: StorePrefix, days: int) -> list[Day]:
    """Return the days, in order; the last `days` days are searched for evidence that is newer than their audits."""
    storage, now_ms = context.open(out.address), context.clock.now_ms()
    today = day_of_ms(now_ms)
    published = [day for day in published_days(storage, out.prefix) if is_settled(day, now_ms)]

    def is_due(day: Day) -> bool:
        pointer = PublishedReader(storage, DayFolder(out.prefix, day)).current().pointer
        if pointer is None or is_expired(context.archive, context.place.prefix, day):
            return False
        if pointer.verdict != "clean" or pointer.until is not None or not is_judged_today(pointer):
            return True
        return day.number >= today.number - days and _has_new_evidence(context, storage, day, pointer)

    return [day for day, due in zip(published, in_parallel(is_due, published), strict=True) if due]


def published_days(storage: RetryingStorage, root: str) -> list[Day]:
    """Return the days that have a folder below the output's root, in order."""
    names = (folder.removeprefix(root).rstrip("/") for folder in storage.list_level(root).folders)
    days = (_day_of(name.removeprefix(_DAY_FOLDER)) for name in names if name.startswith(_DAY_FOLDER))
    return sorted(day for day in days if day is not None)


def _day_of(name: str) -> Day | None:
    """Return the day of a folder's name; None for a user's own folder, such as `dt=latest`."""
    try:
        return Day.parse(name)
    except SettingsError:
        return None


def _has_new_evidence(context: JobContext, output: RetryingStorage, day: Day, pointer: Pointer) -> bool:
    """Return whether evidence of the day is newer than the audit of its verdict."""
    head = output.head(audit_key(pointer))
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
