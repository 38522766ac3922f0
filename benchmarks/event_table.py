"""A table by the day of events that several nights made, and every reader's answer: counts, pruning, time travel.

The first night commits its day by arrival alone; with the second one the table is partitioned by the day of events,
too; the third brings late events of both, and a late object makes the second day anew. Each reader counts the rows of
every event day, finds those of one by a filter, says how many files it opened for that, and looks at the snapshot
before the last night. What must come out is told from the payloads; rows by event day and those without are all rows.
Readers are those of `benchmarks.readers` (`make readers`).
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.readers import Reader, duckdb_itself, duckdb_of_scan, spark_itself
from compaction.columns.event_time import with_event_time
from compaction.tables.table import IcebergTable
from compaction.verdict.audit_document import Events
from minutebook.format.day import Day
from minutebook.published.schema import SCHEMA
from tests.corpus.desk import Desk
from tests.corpus.typed_day import payload_day
from tests.integration.lake import DAY, NEXT, Lake, local_lake

_OLD: Final = DAY.shift(-1)
_EVENTS: Final = (DAY.shift(-7), _OLD, DAY)
_ONE: Final = _EVENTS[0]
_LAST_US: Final = "T23:59:59.999999Z"
_COUNTS: Final = (
    "select cast(cast(event_time as date) as varchar(10)), count(*) from day where event_time is not null "
    "group by 1 order by 1"
)
_WITHOUT: Final = "select count(*) from day where event_time is null"
_ALL: Final = "select count(*) from day"
_LATEST: Final = "select substr(cast(max(event_time) as varchar(40)), 1, 26) from day"


class Answers(NamedTuple):
    """What a reader said: rows by event day and without, all rows; of one day by a filter; the files of that."""

    by_day: dict[str, int]
    without: int
    rows: int
    one: int
    opened: int | None
    before: dict[str, int]
    latest: str


def main(arguments: list[str]) -> int:
    """Run it. Exit code 1 when two readers differ, or one is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks event_table", description=__doc__)
    parser.add_argument("--jar", type=Path, help="iceberg-spark-runtime of the PySpark that is on the path")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="minutebook-events-") as folder, ExitStack() as stack:
        lake = local_lake(Path(folder, "lake"))
        made = make(lake, Path(folder))
        readers = [duckdb_of_scan(lake), stack.enter_context(duckdb_itself(lake))]
        if options.jar is not None:
            readers.append(stack.enter_context(spark_itself(lake, options.jar, Path(folder))))
        wrong = 0
        sys.stdout.write(f"{made.files} files; expected of each: {made.expected}\n")
        for reader in readers:
            if reader is not None:
                answers = _ask(reader, made.before)
                is_right = answers._replace(opened=None) == made.expected and answers.opened in {None, made.opened}
                wrong += not is_right
                said = "not told" if answers.opened is None else f"{answers.opened} of {made.files}"
                sys.stdout.write(f"{'right' if is_right else 'WRONG'}: {reader.name}; opened for one day: {said}\n")
                if not is_right:
                    sys.stdout.write(f"  {answers}\n")
    return min(wrong, 1)


class Made(NamedTuple):
    """The table: its files, and those that may hold rows of the one event day; the snapshot before the last night."""

    files: int
    opened: int
    before: int
    expected: Answers


def make(lake: Lake, folder: Path) -> Made:
    """Let the nights pass."""
    desks = {day: Desk(folder / str(day), payload_day(day, 4, _payload)) for day in (_OLD, DAY, NEXT)}
    for desk in desks.values():
        desk.clock.advance(3 * 86_400)
    _night(lake, desks, _OLD, by_event=False)
    _night(lake, desks, DAY)
    desks[DAY].archive_more()
    _night(lake, desks, DAY)
    before = lake.table(lambda table: table.current_snapshot().snapshot_id)
    _night(lake, desks, NEXT)
    partitions = lake.table(
        lambda table: [[*task.file.partition] for task in table.scan().plan_files()]  # of both specs
    )
    nights = [_counts(desks[DAY]), _counts(desks[NEXT])]
    days = [sum(nights, Counter[str]()), nights[0]]
    nowhere = desks[_OLD].corpus.records
    expected = Answers(
        {day: count for day, count in sorted(days[0].items()) if day},
        days[0][""] + nowhere,
        sum(days[0].values()) + nowhere,
        days[0][str(_ONE)],
        None,
        {day: count for day, count in sorted(days[1].items()) if day},
        f"{_EVENTS[-1]} 23:59:59.999999",
    )
    may_hold = sum(part[1:] in ([], [_ONE.number]) for part in partitions)  # what came by arrival tells no event day
    return Made(len(partitions), may_hold, before, expected)


def _payload(number: int) -> bytes:
    """Return an event of one of the days, to the microsecond; one in four has no time."""
    ts = None if number % 4 == 3 else f"{_EVENTS[number % 4]}{_LAST_US}"  # noqa: PLR2004 - one in four
    return json.dumps({"n": number, "ts": ts}).encode()


def _counts(desk: Desk) -> Counter[str]:
    """Count the rows of a day of arrival by the day of their events, told from the payloads."""
    lines = (
        json.loads(record.data)["ts"] or ""
        for shard in desk.corpus.shards
        for segment in shard.segments
        for record in segment.records
        if record.data[:1] == b"{" and b'"ts"' in record.data
    )
    return Counter(text[:10] for text in lines)


def _night(lake: Lake, desks: dict[Day, Desk], day: Day, *, by_event: bool = True) -> None:
    """Publish a day and commit it; the audit's equation must hold."""
    columns = with_event_time(None, "ts", 30, SCHEMA.names) if by_event else None
    with lake.catalog() as catalog:
        done = desks[day].compact(day=day, columns=columns, table=IcebergTable(catalog, lake.name, by_event=by_event))
    if done.table is None or done.table.state != "committed" or done.result is None:
        raise RuntimeError(done)
    typed = done.result.audit.typed
    if typed is not None and typed.events is not None and not _balances(typed.events, typed.rows):
        raise RuntimeError(typed)


def _balances(events: Events, rows: int) -> bool:
    return events.balanced and events.on_time + events.late + events.early + events.without == rows


def _one_day(day: Day) -> str:
    return f"event_time >= '{day}T00:00:00+00:00' and event_time < '{day.shift(1)}T00:00:00+00:00'"


def _ask(reader: Reader, before: int) -> Answers:
    [[without]], [[rows]] = reader.ask(_WITHOUT, None), reader.ask(_ALL, None)
    [[one]], [[latest]] = reader.ask(f"{_ALL} where {_one_day(_ONE)}", None), reader.ask(_LATEST, None)
    return Answers(
        dict(reader.ask(_COUNTS, None)),
        without,
        rows,
        one,
        reader.opened(_one_day(_ONE)),
        dict(reader.ask(_COUNTS, before)),
        latest,
    )
