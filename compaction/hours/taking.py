"""Reuse of published hours by the night: parts and facts, instead of lines.

All of this must hold of an hour, or its objects are read as if it had not been published:

    its pointer and its manifest agree
    its generation's name is that of its present objects and settings: each key, ETag and size, the formats, the
    payloads' columns, the level of compression (the path of its ids does not matter)
    its list of tasks fits these objects

Then each task is reused by itself, if its facts and its part are whole (`compaction.tasks.finished`).
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

import structlog

from compaction.hours.kept import KeptTasks, kept_tasks
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.segments import row_of_published
from compaction.parquet.plan import order_of_objects, raw_objects
from compaction.tasks.taken import NOT_TAKEN, Place, TakenHour
from minutebook.errors import FormatError
from minutebook.published.generation import DayFolder
from minutebook.published.inventory import PublishedRow, inventory_digest
from minutebook.published.reading import PublishedReader, hour_folders
from minutebook.store.retrying import RetryingStorage

_CHANGED: Final = "its objects, or the settings, are not those that it was published from"


class HourSource(NamedTuple):
    """Where a day's hours are published; `generation` names one by a hash of its rows and the path of its ids."""

    storage: RetryingStorage
    folder: DayFolder
    generation: Callable[[Callable[..., str], str | None], str]


def take_hours(source: HourSource, objects: DayObjects) -> tuple[TakenHour, ...]:
    """Return the hours of the day that can be reused; their tasks are numbered from 0."""
    if source.folder.hour is not None:
        return ()
    folders = hour_folders(source.storage, source.folder.root, objects.day)
    taken: list[TakenHour] = []
    by_path = {folder.hour.path(objects.prefix): folder for folder in folders if folder.hour is not None}
    number = 0
    for path, rows in _by_hour(objects, by_path):
        log = structlog.get_logger().bind(day=str(objects.day), hour=by_path[path].name)
        try:
            hour = _take(source, objects, by_path[path], rows, number)
        except FormatError as exc:
            log.warning(
                "hour_not_trusted",
                reason=str(exc),
                next_step="its objects are read; find out who writes below the output",
            )
            continue
        if isinstance(hour, str):
            log.info("hour_read_again", reason=hour)
        elif hour is not None:
            taken.append(hour)
            number += sum(task != NOT_TAKEN for task in hour.numbers)
    return tuple(taken)


def _by_hour(objects: DayObjects, paths: Collection[str]) -> Iterable[tuple[str, list[PublishedRow]]]:
    """Yield the rows of the hours with these paths, in order."""
    if not paths:
        return
    length = len(next(iter(paths)))
    for path, rows in itertools.groupby(objects.spool.rows(), key=lambda row: row[0][:length]):
        if path in paths:
            yield path, list(rows)


def _take(
    source: HourSource, objects: DayObjects, folder: DayFolder, rows: Sequence[PublishedRow], number: int
) -> TakenHour | str | None:
    """Return the hour, its tasks numbered from `number`; or why it is read again; None: it is not published.

    Raises:
        FormatError: the published documents contradict each other.
    """
    publisher = PublishedReader(source.storage, folder)
    pointer, manifest = publisher.published()
    if pointer is None or manifest is None or folder.hour is None:
        return None

    def digest(*salt: str) -> str:
        return inventory_digest((row[:3] for row in rows), *salt)

    if pointer.generation != source.generation(digest, manifest.event_id) or manifest.inventory != digest():
        return _CHANGED
    tasks = kept_tasks(source.storage, pointer.manifest)
    if tasks is None or tasks.generation != pointer.generation:
        raise FormatError(f"{pointer.manifest}: the list of its tasks is missing, or another generation's")
    firsts = _places(objects, folder, rows, tasks)
    numbers = itertools.count(number)
    return TakenHour(
        folder.hour.first_minute,
        folder.generation(pointer.generation),
        firsts,
        tuple(next(numbers) if task.facts else NOT_TAKEN for task in tasks.tasks),
        tuple(task.facts for task in tasks.tasks),
    )


def _places(
    objects: DayObjects, folder: DayFolder, rows: Sequence[PublishedRow], kept: KeptTasks
) -> tuple[Place, ...]:
    """Return where the tasks begin; raises FormatError unless each begins with an object of the hour, in order."""
    segments = raw_objects(row_of_published(objects.prefix, row) for row in rows)
    places = {segment.key: order_of_objects(segment) for segment in segments}
    firsts = [task.first for task in kept.tasks]
    if not all(first in places for first in firsts):
        raise FormatError(f"{folder.path}: a task of it begins with an object that the hour does not hold")
    begins = [places[first] for first in firsts]
    if sorted(set(begins)) != begins or (places and begins[:1] != [min(places.values())]):
        raise FormatError(f"{folder.path}: its tasks are not in order")
    return tuple(begins)
