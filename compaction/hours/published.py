"""The published hours of a day, and their removal once the whole day is published.

    dt=D/_hours/HH/_current.json   the hour's pointer; all else below the hour's folder is as below a day's

A day that is published whole includes its hours, and readers then ignore their pointers. These are deleted after the
day's swap, or by a later run.
"""

from minutebook.format.day import Day
from minutebook.published.generation import DayFolder, Pointer
from minutebook.published.reading import PublishedReader, hour_folders
from minutebook.store.retrying import RetryingStorage


def whole_day(storage: RetryingStorage, root: str, day: Day) -> Pointer | None:
    """Return the pointer of a day that is published whole; None: it is not, or only so far. Raises FormatError."""
    pointer = PublishedReader(storage, DayFolder(root, day)).current().pointer
    return None if pointer is None or pointer.until is not None else pointer


def give_way(storage: RetryingStorage, root: str, day: Day) -> int:
    """Delete the pointers of a day's hours, if the whole day is published; return how many there were.

    Their files stay for running queries, until vacuum deletes them. Raises FormatError.
    """
    folders = hour_folders(storage, root, day)
    if not folders or whole_day(storage, root, day) is None:
        return 0
    left = [folder.pointer for folder in folders if storage.head(folder.pointer) is not None]
    storage.delete(left)
    return len(left)
