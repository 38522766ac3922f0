"""What earlier runs have read of a day's objects, joined to its listing; objects that differ are read again.

    files of facts, published inventory -> groups of the shards
    rows of a group, with these         -> each row with what is known of it
    rows that are not known             -> read whole, and their facts stored

A first digest is that of a content which had nothing wrong of its own: repair is no alteration. Of several, that of
the earliest LastModified is the first, unless a reading names another one that was before it. Of an object that came
to a published day and that no reader has seen yet, a reading of a generation that was held is the first. All
functions are the work of a task.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import structlog

from compaction.audit.rules.lines import check_lines
from compaction.audit.shards.objects import NO_TASK, ObjectFacts, rows_before
from compaction.inventory.day_objects import check_mark
from compaction.inventory.segments import (
    Alteration,
    History,
    Known,
    ListedSegment,
    SegmentFacts,
    classify,
    make_row,
    parse,
    with_history,
)
from compaction.parquet.plan import Task, raw_objects, single_groups
from compaction.shard_groups.grouping import ShardGrouping
from compaction.shard_groups.opened import open_in_task
from compaction.shard_groups.port import DRIVER_GROUP, GroupValue, Values
from compaction.tasks.finished import FinishedTask, Reading, keep_facts, read_facts
from compaction.tasks.task import read_objects_whole
from minutebook.compression import Compression
from minutebook.errors import FormatError
from minutebook.published.inventory import PublishedRow, decode_inventory
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

_NEXT_STEP = "nothing: what it held is read from the archive again; find out who writes below the output"


class KnownPiece(NamedTuple):
    """What one task reads: files of facts of a generation, or a published inventory.

    `is_published`: readers saw the generation once; `is_current`: the pointer names it.
    """

    files: tuple[str, ...] = ()
    is_published: bool = False
    is_current: bool = False
    inventory: str = ""


class PieceArgument(NamedTuple):
    """Where pieces lie, and the groups that their rows go to."""

    out: Address
    prefix: str
    grouping: ShardGrouping


class EarlierReading(NamedTuple):
    """A reading; `is_published`: of a generation that readers saw; `is_written`: what they see now is made of it."""

    reading: Reading
    is_published: bool
    is_written: bool


class EarlierRows(NamedTuple):
    """What a piece holds for one group."""

    readings: tuple[EarlierReading, ...] = ()
    published: tuple[PublishedRow, ...] = ()


class JoinArgument(NamedTuple):
    """What a group's rows are joined by. `is_published`: readers saw the day, so that its contents are compared.

    `folder` at `out` is that of the present generation, where what is held of objects that went is stored: they may
    come back. Empty: it holds all that there is, or the output is only read.
    """

    group: int
    prefix: str
    compression: Compression | None
    is_published: bool
    out: Address
    folder: str


class ReadArgument(NamedTuple):
    """How a group reads what is not known, and where it stores the facts. `storage` is given in this process."""

    group: int
    archive: Address
    storage: RetryingStorage | None
    end: int | None
    mark: int
    out: Address
    folder: str


def read_piece(values: Values, argument: PieceArgument) -> Iterator[GroupValue]:
    """Read files of facts, or a published inventory, and give their rows to the groups of the shards."""
    out = open_in_task(argument.out)
    for piece in values:
        readings: dict[int, list[EarlierReading]] = defaultdict(list)
        published: dict[int, list[PublishedRow]] = defaultdict(list)
        for key in piece.files:
            stored = read_facts(out, key)
            is_written = piece.is_current and stored is not None and not stored.is_later
            for reading in () if stored is None else stored.readings:
                group = _group_of(argument, reading.facts.key)
                readings[group].append(EarlierReading(reading, piece.is_published, is_written))
        for row in _inventory(out, piece.inventory):
            published[_group_of(argument, row[0])].append(row)
        for group in readings.keys() | published.keys():
            yield group, EarlierRows(tuple(readings[group]), tuple(published[group]))


def join_known(values: Values, argument: JoinArgument) -> Iterator[GroupValue]:
    """Give each of a group's rows what is known of it."""
    rows: list[ListedSegment] = []
    readings: dict[str, list[EarlierReading]] = defaultdict(list)
    published: dict[str, PublishedRow] = {}
    for value in values:
        if isinstance(value, EarlierRows):
            for each in value.readings:
                readings[each.reading.facts.key].append(each)
            published |= {row[0]: row for row in value.published}
        else:
            rows += value
    gone = readings.keys() - {row.key for row in rows}
    if gone and argument.is_published and argument.folder:
        _keep_gone(argument, [readings[key] for key in sorted(gone)])
    yield (
        argument.group,
        [row._replace(known=known_of(row, readings[row.key], published.get(row.key), argument)) for row in rows],
    )


def read_unknown(values: Values, argument: ReadArgument) -> Iterator[GroupValue]:
    """Give a group's objects their facts; those that are not known are read, and counted for the driver."""
    rows = rows_before(values, argument.end)
    check_mark(rows, argument.mark)
    unknown = [row for row in rows if row.known is None or row.known.facts is None]
    objects = raw_objects(unknown)
    read = dict[str, SegmentFacts]()
    if objects:
        storage = argument.storage or open_in_task(argument.archive)
        facts = read_objects_whole(storage, objects)
        read = {each.key: each for each in facts}
        task = Task(argument.group, tuple(single_groups(objects)))
        finished = FinishedTask(None, tuple(facts), is_later=True)
        keep_facts(open_in_task(argument.out), argument.folder, task, finished)
    yield argument.group, [_object_facts(row, read) for row in rows]
    yield DRIVER_GROUP, len(objects)


def is_sound(prefix: str, compression: Compression | None, reading: Reading) -> bool:
    """Return whether nothing is wrong with the object that was read by itself."""
    facts = reading.facts
    row = make_row(prefix, ListedObject(facts.key, reading.size, reading.etag, reading.modified_ms))
    classified = classify(prefix, parse([(row, facts.metadata)]), {}, compression)
    return not classified.findings and not check_lines(classified.segments, {facts.key: facts})


def _keep_gone(argument: JoinArgument, gone: Sequence[Sequence[EarlierReading]]) -> None:
    """Store the last reading of each object that went, with what is held of its key."""
    last = [last_reading(earlier, argument) for earlier in gone]
    objects = [one for row, _ in last for one in raw_objects([row])]
    task = Task(argument.group, tuple(single_groups(objects)))
    finished = FinishedTask(None, tuple(facts for _, facts in last), is_later=True)
    keep_facts(open_in_task(argument.out), argument.folder, task, finished)


def last_reading(earlier: Sequence[EarlierReading], argument: JoinArgument) -> tuple[ListedSegment, SegmentFacts]:
    """Return the last object that was read under a key, and its facts with what is held of the key. Pure."""
    last = max(earlier, key=_age).reading
    published = [each for each in earlier if each.is_published]
    history = History(
        _first_digest(earlier, published or earlier, argument),
        max(each.reading.facts.altered for each in earlier),
    )
    row = make_row(argument.prefix, ListedObject(last.facts.key, last.size, last.etag, last.modified_ms))
    return row, with_history(last.facts, history)


def known_of(
    row: ListedSegment, earlier: Sequence[EarlierReading], published: PublishedRow | None, argument: JoinArgument
) -> Known | None:
    """Return what is known of a row, by the readings of its key and its line in the published inventory. Pure."""
    here = (row.etag, row.size, row.last_modified_ms)
    same = [each for each in earlier if each.reading[:3] == here]
    whole = next((each.reading.facts for each in same if not each.reading.facts.problem), None)
    if not argument.is_published:
        return None if whole is None else Known(whole)
    as_published = None if published is None else published[1:]
    first_ones = [each for each in earlier if each.is_published or each.reading[:3] == as_published]
    is_unseen = not first_ones and as_published is None
    altered = max((each.reading.facts.altered for each in earlier), default=Alteration.NONE)
    if not first_ones and as_published not in {None, here}:
        altered = max(altered, Alteration.NO_FIRST_DIGEST)
    elif not earlier:
        return None
    first = _first_digest(earlier, earlier if is_unseen else first_ones, argument)
    if is_unseen and whole is not None and whole.digest == first:
        first = whole.first_digest  # it is its own first content, as a task that reads it anew would say
    history = History(first, altered, is_replaced=not same)
    written = {each.reading.facts.digest for each in earlier if each.is_written}
    return Known(None if whole is None else with_history(whole, history), history, tuple(sorted(written)))


def _first_digest(
    earlier: Sequence[EarlierReading], first_ones: Sequence[EarlierReading], argument: JoinArgument
) -> str:
    """Return the digest of a key's first content, which one of `first_ones` may be; empty where none is held."""
    named = (each.reading.facts.first_digest for each in sorted(earlier, key=_age))
    sound = (
        each.reading.facts.digest
        for each in sorted(first_ones, key=_age)
        if is_sound(argument.prefix, argument.compression, each.reading)
    )
    return next(filter(None, named), "") or next(sound, "")


def _age(each: EarlierReading) -> tuple[int, str]:
    return each.reading.modified_ms, each.reading.facts.digest


def _object_facts(row: ListedSegment, read: dict[str, SegmentFacts]) -> ObjectFacts:
    facts = read.get(row.key) if row.known is None or row.known.facts is None else row.known.facts
    return ObjectFacts(row, None if facts is None else facts.metadata, facts, NO_TASK)


def _group_of(argument: PieceArgument, key: str) -> int:
    parsed = make_row(argument.prefix, ListedObject(key, 0, "", 0)).parsed
    return DRIVER_GROUP if parsed is None else argument.grouping.of(parsed.shard_id)


def _inventory(out: RetryingStorage, key: str) -> list[PublishedRow]:
    """Return the lines of a published inventory; none if it is gone or damaged."""
    stored = out.get(key) if key else None
    try:
        return [] if stored is None else list(decode_inventory(stored.body, key, _NEXT_STEP))
    except FormatError as exc:
        structlog.get_logger().warning("published_day_not_trusted", reason=str(exc), next_step=_NEXT_STEP)
        return []
