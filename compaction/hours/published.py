"""The hours that are published of a day, and how they give way to it.

    dt=D/_hours/HH/_current.json   the hour's pointer; all else below the hour's folder is as below a day's

A day that is published as a whole holds what its hours held. Readers go by the day's pointer alone then, whether or
not pointers of hours are left; these are deleted behind the day's swap, and by whoever finds them later.
"""

from minutebook.format.day import Day
from minutebook.published.generation import DayFolder, Pointer
from minutebook.published.reading import PublishedReader, hour_folders
from minutebook.store.retrying import RetryingStorage


def whole_day(storage: RetryingStorage, root: str, day: Day) -> Pointer | None:
    """Return the pointer of a day that is published as a whole; None: it is not, or so far only.

    Raises:
        FormatError: it does not parse.
        StoreUnavailable, StoreRefused: the store.
    """
    pointer = PublishedReader(storage, DayFolder(root, day)).current().pointer
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
