"""The hours that are published of a day, and how they give way to it.

    dt=D/_hours/HH/_current.json   the hour's pointer; all else below the hour's folder is as below a day's

A day that is published as a whole holds what its hours held. Readers go by the day's pointer alone then, whether or
not pointers of hours are left; these are deleted behind the day's swap, and by whoever finds them later.
"""

from archive.format.day import HOURS_A_DAY, Day, Hour
from archive.store.retrying import RetryingStorage
from compaction.publish.generation import DayFolder, Pointer
from compaction.publish.publisher import Publisher


def hour_folders(storage: RetryingStorage, root: str, day: Day) -> list[DayFolder]:
    """Return the folders of a day's hours that hold something, in order.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    known = {f"{number:02d}": Hour(day, number) for number in range(HOURS_A_DAY)}
    folder = DayFolder(root, day).hours
    names = (found.removeprefix(folder).rstrip("/") for found in storage.list_level(folder).folders)
    return [DayFolder(root, day, known[name]) for name in sorted(names) if name in known]


def whole_day(storage: RetryingStorage, root: str, day: Day) -> Pointer | None:
    """Return the pointer of a day that is published as a whole; None: it is not, or so far only.

    Raises:
        FormatError: it does not parse.
        StoreUnavailable, StoreRefused: the store.
    """
    pointer = Publisher(storage, DayFolder(root, day)).current().pointer
    return None if pointer is None or pointer.until is not None else pointer


def give_way(storage: RetryingStorage, root: str, day: Day) -> int:
    """Delete the pointers of the hours of a day that is published as a whole; returns how many there were.

    Of a day that is not, nothing: its hours are all there is. Their files stay for who reads them, and are vacuumed.

    Raises:
        FormatError: the day's pointer does not parse.
        StoreUnavailable, StoreRefused: the store.
    """
    folders = hour_folders(storage, root, day)
    if not folders or whole_day(storage, root, day) is None:
        return 0
    left = [folder.pointer for folder in folders if storage.head(folder.pointer) is not None]
    storage.delete(left)
    return len(left)
