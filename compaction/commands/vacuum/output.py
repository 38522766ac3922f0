"""What nothing names any more of all days of an output, and of their hours.

the day is published as a whole     it holds what its hours held: all of an hour that is old goes
it is not                           an hour is looked at as a day is: what its pointer names stays
"""

from collections.abc import Callable, Sequence

from compaction.commands.vacuum.day import DayLeftovers, find_leftovers, old_uploads
from compaction.hours.published import whole_day
from compaction.publish.sweep import Retained, leftovers
from minutebook.errors import FormatError, SafetyRefusal
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder, is_manifest
from minutebook.published.reading import hour_folders
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage

Found = tuple[DayFolder, DayLeftovers | FormatError | SafetyRefusal]


def find_all(
    storage: RetryingStorage, root: str, days: Sequence[Day], before_ms: int, has_raw: Callable[[Day], bool]
) -> list[Found]:
    """Return what of each day and of each of its hours goes, or why nothing does."""

    def find(folder: DayFolder) -> DayLeftovers | FormatError | SafetyRefusal:
        try:
            if folder.hour is not None and whole_day(storage, root, folder.day) is not None:
                return _of_former_hour(storage, folder, before_ms)
            return find_leftovers(storage, folder, before_ms, has_raw)
        except (FormatError, SafetyRefusal) as exc:
            return exc

    hours = in_parallel(lambda day: hour_folders(storage, root, day), list(days))
    folders = [folder for day, of_day in zip(days, hours, strict=True) for folder in (DayFolder(root, day), *of_day)]
    return list(zip(folders, in_parallel(find, folders), strict=True))


def _of_former_hour(storage: RetryingStorage, folder: DayFolder, before_ms: int) -> DayLeftovers:
    """Return what is old of an hour whose day is published: nobody follows its pointer, if that is still there."""
    found = leftovers(storage, folder, Retained((), (), before_ms))
    pointers = [row for row in storage.list_objects(folder.pointer) if row.key == folder.pointer]
    return DayLeftovers(
        folder,
        (*pointers, *(row for row in found.beside if is_manifest(row.key))),
        found.files,
        tuple(row for row in found.beside if not is_manifest(row.key)),
        old_uploads(storage, folder, before_ms),
    )
