"""`minutebook columns --since`, `--iceberg`: how a file differs from published days and from a table.

No segment is read.

the day has            the file has             is
a column               none of the name         changed
a path, or a type      another one              changed
steps that decode      others                   changed
no such column         a column                 new: no published value changes its meaning
(the table)            a type it does not take  changed: the next night is held back from the table
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from compaction.columns.columns import EVENT_TIME, Column, Columns
from compaction.columns.steps import written
from compaction.night.mapping import mapping_of
from compaction.publish.publisher import Publisher
from compaction.tables.plan import Conflict
from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder
from minutebook.published.reading import published_days
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage

CHANGED: Final = 4
"""The exit code where something changed."""


class Difference(NamedTuple):
    """How a file differs from what is there, in words; `is_new`: it only adds a column."""

    text: str
    is_new: bool = False


class TableConflicts(NamedTuple):
    """A table, and what of a file does not fit it."""

    name: str
    conflicts: Sequence[Conflict]


NO_TABLE: Final = TableConflicts("", ())


class Comparison(NamedTuple):
    """The lines to print, and whether something changed."""

    lines: tuple[str, ...]
    is_changed: bool


def compare(
    storage: RetryingStorage, root: str, since: Day | None, columns: Columns, table: TableConflicts
) -> Comparison:
    """Compare a file with the days that are published since a day (None: with none), and with a table."""
    lines, is_changed = [], False
    days = [] if since is None else [day for day in published_days(storage, root) if day.number >= since.number]
    found: dict[Difference, list[Day]] = {}
    for day, differences in zip(
        days, in_parallel(lambda day: _of_day(storage, root, day, columns), days), strict=True
    ):
        for difference in differences:
            found.setdefault(difference, []).append(day)
    for difference, of in found.items():
        is_changed |= not difference.is_new
        span = str(of[0]) if len(of) == 1 else f"{of[0]} .. {of[-1]}, {len(of)} days"
        lines.append(f"{difference.text} ({span})")
    for conflict in table.conflicts:
        is_changed = True
        lines.append(f"table {table.name}: {conflict}")
    if not lines:
        where = [] if since is None else [f"{len(days)} published day(s) since {since}"]
        where += [f"table {table.name}"] if table.name else []
        lines.append(f"nothing changed: {' and '.join(where)}")
    return Comparison(tuple(lines), is_changed)


def _of_day(storage: RetryingStorage, root: str, day: Day, columns: Columns) -> list[Difference]:
    """Return how the file differs from what a day was published with; a day without columns differs in nothing."""
    publisher = Publisher(storage, DayFolder(root, day))
    try:
        pointer, manifest = publisher.published()
    except FormatError as exc:
        return [Difference(f"what is published cannot be read: {exc}")]
    if pointer is None or manifest is None or manifest.columns is None:
        return []
    published = mapping_of(publisher, pointer, None).published or mapping_of(publisher, pointer, columns).published
    if published is not None:
        return list(differences(published, columns))
    return list(_of_types(manifest.columns, columns))


def differences(published: Columns, given: Columns) -> Iterator[Difference]:
    """Yield how given columns differ from published ones, in their order. Pure.

    An event time that this run does not know of is no difference: it is no column of a file.
    """
    after, known = {column.name: column for column in given.columns}, {column.name for column in published.columns}
    if published.decode != given.decode:
        yield Difference(
            f"{written(published.decode).rstrip()} -> {written(given.decode).partition(' = ')[2].rstrip()}"
        )
    for column in published.columns:
        if column.name == EVENT_TIME and given.event is None:
            continue
        now = after.get(column.name)
        if now is None:
            yield Difference(f"{column.name}: gone")
        else:
            yield from _of_column(column, now)
    if published.event is not None and given.event not in {None, published.event}:
        yield Difference(f"{EVENT_TIME}: another window of days")
    yield from (_new(column) for column in given.columns if column.name not in known)


def _of_column(before: Column, now: Column) -> Iterator[Difference]:
    if before.path != now.path:
        yield Difference(f"{before.name}: path {before.path} -> {now.path}")
    if before.type != now.type:
        yield Difference(f"{before.name}: type {before.type.text} -> {now.type.text}")
    if before.required != now.required:
        yield Difference(f"{before.name}: {'required now' if now.required else 'not required any more'}")


def _of_types(published: dict[str, str], given: Columns) -> Iterator[Difference]:
    """Yield the same for a day whose types alone are known: of an earlier release, or a part of a day."""
    after = given.types
    for name, kind in published.items():
        if name == EVENT_TIME and given.event is None:
            continue
        if name not in after:
            yield Difference(f"{name}: gone")
        elif after[name] != kind:
            yield Difference(f"{name}: type {kind} -> {after[name]}")
    yield Difference("paths cannot be compared: they are not stored with the day")
    yield from (_new(column) for column in given.columns if column.name not in published)


def _new(column: Column) -> Difference:
    return Difference(f"{column.name}: new, {column.type.text}", is_new=True)
