"""What a night takes over of the hours that were published: parts and facts, instead of lines.

All of this must hold of an hour, or its objects are read as if it had not been published:

    its pointer and its manifest agree
    its generation's name is the one that its objects have now, with the settings of now: each key, ETag and size,
    the formats, the payloads' columns, the level of compression (its ids may be of any path, or none)
    its list of tasks fits these objects

Then each task is taken over by itself, if its facts and its part are whole (`compaction.tasks.finished`).
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import structlog

from compaction.hours.kept import KeptTasks, kept_tasks
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.inventory import row_of_published
from compaction.parquet.plan import order_of_objects, raw_objects
from compaction.tasks.taken import NOT_TAKEN, Place, TakenHour
from minutebook.errors import FormatError
from minutebook.published.generation import DayFolder
from minutebook.published.inventory import PublishedRow, inventory_digest
from minutebook.published.reading import PublishedReader, hour_folders
from minutebook.store.retrying import RetryingStorage

_CHANGED: Final = "its objects, or the settings, are not those that it was published from"


class HourSource(NamedTuple):
    """Where hours of a day may be published, and how the generation of one is called.

    By the hash of its rows, and the path of the ids that it keeps.
    """

    storage: RetryingStorage
    folder: DayFolder
    generation: Callable[[Callable[..., str], str | None], str]


def take_hours(source: HourSource, objects: DayObjects) -> tuple[TakenHour, ...]:
    """Return the hours of the day that can be taken over; their tasks are numbered from 0.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    if source.folder.hour is not None:
        return ()
    folders = hour_folders(source.storage, source.folder.root, objects.day)
    taken: list[TakenHour] = []
    wanted = {folder.hour.path(objects.prefix): folder for folder in folders if folder.hour is not None}
    number = 0
    for path, rows in _by_hour(objects, wanted):
        log = structlog.get_logger().bind(day=str(objects.day), hour=wanted[path].name)
        try:
            found = _take(source, objects, wanted[path], rows, number)
        except FormatError as exc:
            log.warning(
                "hour_not_trusted",
                reason=str(exc),
                next_step="its objects are read; find out who writes below the output",
            )
            continue
        if isinstance(found, str):
            log.info("hour_read_again", reason=found)
        elif found is not None:
            taken.append(found)
            number += sum(one != NOT_TAKEN for one in found.numbers)
    return tuple(taken)


def _by_hour(objects: DayObjects, wanted: Iterable[str]) -> Iterable[tuple[str, list[PublishedRow]]]:
    """Yield the rows of the hours that are wanted, in order: those of an hour follow each other."""
    known = frozenset(wanted)
    if not known:
        return
    length = len(next(iter(known)))
    for path, rows in itertools.groupby(objects.spool.rows(), key=lambda row: row[0][:length]):
        if path in known:
            yield path, list(rows)


def _take(
    source: HourSource, objects: DayObjects, folder: DayFolder, rows: Sequence[PublishedRow], number: int
) -> TakenHour | str | None:
    """Return the hour, its tasks numbered from `number`; or why it is read again; None: it is not published.

    Raises:
        FormatError: what was published contradicts itself.
    """
    publisher = PublishedReader(source.storage, folder)
    pointer, manifest = publisher.published()
    if pointer is None or manifest is None or folder.hour is None:
        return None

    def digest(*salt: str) -> str:
        return inventory_digest((row[:3] for row in rows), *salt)

    if pointer.generation != source.generation(digest, manifest.event_id) or manifest.inventory != digest():
        return _CHANGED
    kept = kept_tasks(source.storage, pointer.manifest)
    if kept is None or kept.generation != pointer.generation:
        raise FormatError(f"{pointer.manifest}: the list of its tasks is missing, or another generation's")
    firsts = _places(objects, folder, rows, kept)
    numbers = itertools.count(number)
    return TakenHour(
        folder.hour.first_minute,
        folder.generation(pointer.generation),
        firsts,
        tuple(next(numbers) if task.facts else NOT_TAKEN for task in kept.tasks),
        tuple(task.facts for task in kept.tasks),
    )


def _places(
    objects: DayObjects, folder: DayFolder, rows: Sequence[PublishedRow], kept: KeptTasks
) -> tuple[Place, ...]:
    """Return where the tasks begin; each must begin with an object of the hour, so that none is without one.

    Raises:
        FormatError: they do not.
    """
    segments = raw_objects(row_of_published(objects.prefix, row) for row in rows)
    places = {segment.key: order_of_objects(segment) for segment in segments}
    firsts = [task.first for task in kept.tasks]
    if not all(first in places for first in firsts):
        raise FormatError(f"{folder.path}: a task of it begins with an object that the hour does not hold")
    begins = [places[first] for first in firsts]
    if sorted(set(begins)) != begins or (places and begins[:1] != [min(places.values())]):
        raise FormatError(f"{folder.path}: its tasks are not in order")
    return tuple(begins)
