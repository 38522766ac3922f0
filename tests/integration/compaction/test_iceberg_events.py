"""Days in a table that is partitioned by the day of events: each row in its event's partition, once."""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from compaction.columns.event_time import with_event_time
from compaction.night.rewrite import Compacted
from compaction.tables.commit import TableCommitter
from compaction.tables.table import IcebergTable
from minutebook.clock import new_id
from minutebook.errors import CatalogRefused, SafetyRefusal
from minutebook.format.day import Day
from minutebook.format.tombstone import Tombstone, encode_tombstone, tombstone_key
from minutebook.published.generation import Manifest
from minutebook.published.schema import SCHEMA
from minutebook.store.places import open_storage
from tests.corpus.desk import Desk
from tests.corpus.model import PREFIX
from tests.corpus.typed_day import payload_day
from tests.fakes.failing_storage import Crash
from tests.integration.lake import DAY, NEXT, Lake

EVENTS: Final = (DAY.shift(-1), DAY, DAY.shift(1))
"""Days that events of both days of arrival are of."""


def payload(number: int) -> bytes:
    """Return an event: of the day before, of both days, without a time, and of 1970, in turn."""
    times = [*(f"{day}T10:00:00.{number:06}Z" for day in EVENTS), None, "1970-01-01T00:00:00Z"]
    return json.dumps({"n": number, "meta": {"ts": times[number % 5]}}).encode()


class Nights:
    """Two days in folders of their own, and one table."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self._lake = lake
        self.desks = {day: Desk(folder / str(day), payload_day(day, 2, payload)) for day in (DAY, NEXT)}
        for desk in self.desks.values():
            desk.clock.advance(2 * 86_400)

    def compact(
        self,
        day: Day,
        asked: str | None = "meta.ts",
        meanwhile: Callable[[], object] | None = None,
        **changes: object,
    ) -> Compacted:
        """Publish a day and commit it, by a client of its own."""
        columns = None if asked is None else with_event_time(None, asked, 30, SCHEMA.names)
        with self._lake.catalog() as catalog:
            catalog.before_commit = meanwhile
            table = IcebergTable(catalog, self._lake.name, by_event=asked is not None)
            return self.desks[day].compact(day=day, columns=columns, table=table, **changes)

    def state(self, day: Day, asked: str | None = "meta.ts", **changes: object) -> str:
        """Do the same; return what became of the table."""
        done = self.compact(day, asked, **changes)
        assert done.table is not None
        return done.table.state

    def rows(self, condition: str | None = None) -> list[tuple[int, str, str]]:
        """Read the table: number of the payload, day of arrival, day of the event."""
        given = {} if condition is None else {"row_filter": condition}
        found = self._lake.table(
            lambda table: (
                table.scan(selected_fields=("arrival_time", "event_time", "data"), **given).to_arrow().to_pylist()
            )
        )
        return sorted(
            (json.loads(row["data"])["n"], str(row["arrival_time"].date()), str(row["event_time"] or "")[:10])
            for row in found
        )

    def files(self) -> dict[str, tuple[object, ...]]:
        """Return the partition of each file of the table."""
        found: dict[str, tuple[object, ...]] = self._lake.table(
            lambda table: {
                task.file.file_path: tuple(task.file.partition[at] for at in range(len(task.file.partition)))
                for task in table.scan().plan_files()
            }
        )
        return found


def expected(day: Day) -> list[tuple[int, str, str]]:
    """Return what the table must hold of a day of arrival."""
    lies = ["", "", "", "", ""]
    lies[:3] = map(str, EVENTS)
    return [(number, str(day), lies[number % 5]) for number in range(36)]


@pytest.fixture
def nights(lake: Lake, tmp_path: Path) -> Nights:
    """Return two days that are not published."""
    return Nights(lake, tmp_path / "nights")


def test_rows_lie_in_the_partition_of_their_event(nights: Nights) -> None:
    """One file for each day of events in a day of arrival, and one for rows without; nothing is lost or doubled."""
    assert nights.state(DAY) == "committed"
    assert nights.rows() == expected(DAY)
    assert set(nights.files().values()) == {(DAY.number, day) for day in (*(each.number for each in EVENTS), None)}
    assert (nights.state(DAY), len(nights.files())) == ("already", 4)


def test_a_filter_by_event_opens_the_files_of_that_day_alone(nights: Nights, lake: Lake) -> None:
    """Of both days of arrival: four files each, one of which holds the events of the day before."""
    nights.compact(DAY)
    nights.compact(NEXT)
    day = EVENTS[0]
    condition = f"event_time >= '{day}T00:00:00+00:00' and event_time < '{DAY}T00:00:00+00:00'"
    planned = lake.table(lambda table: [task.file.partition[1] for task in table.scan(condition).plan_files()])
    assert (planned, len(nights.files())) == ([day.number] * 2, 8)
    both = [row for arrival in (DAY, NEXT) for row in expected(arrival) if row[2] == str(day)]
    assert nights.rows(condition) == sorted(both)


def test_a_late_object_replaces_the_day_of_its_arrival_alone(nights: Nights, lake: Lake) -> None:
    """One snapshot; the other night's files of the same days of events stay as they are, byte for byte."""
    nights.compact(DAY)
    nights.compact(NEXT)
    before = nights.files()
    nights.desks[DAY].archive_more()
    assert nights.state(DAY) == "committed"
    after = nights.files()
    assert {uri for uri in before if uri in after} == {uri for uri, part in before.items() if part[0] == NEXT.number}
    assert len(nights.rows()) == 2 * 36 + 1
    assert lake.snapshots() == 3


def test_two_nights_at_once_both_land(nights: Nights, lake: Lake) -> None:
    """Of two days of arrival that hold events of the same days; the loser looks again, and makes no file twice."""
    assert nights.compact(DAY, meanwhile=lambda: nights.compact(NEXT)).table is not None
    assert nights.rows() == sorted(expected(DAY) + expected(NEXT))
    assert lake.snapshots() == 2
    folder = nights.desks[DAY].publisher().folder
    made = [row.key for row in nights.desks[DAY].storage.list_objects(folder.path) if "/_events/" in row.key]
    assert len(made) == 4 + 1


@pytest.mark.usefixtures("lake")
def test_a_kill_between_parquet_and_table_is_made_up_for(nights: Nights) -> None:
    """Right before the commit: the table holds nothing, and the next run commits the files that are there."""

    def killed() -> None:
        raise Crash

    with pytest.raises(Crash):
        nights.compact(DAY, meanwhile=killed)
    desk = nights.desks[DAY]
    folder = desk.publisher().folder.path
    made = sorted(desk.storage.uri(row.key) for row in desk.storage.list_objects(folder) if "_events" in row.key)
    assert (nights.rows(), len(made)) == ([], 5)
    assert nights.state(DAY) == "committed"
    assert nights.rows() == expected(DAY)
    assert sorted(uri.removeprefix("file://") for uri in nights.files()) == [uri for uri in made if "json" not in uri]


def test_a_table_by_arrival_becomes_one_by_event(nights: Nights, lake: Lake) -> None:
    """With the first day that has the time of events; what was there stays, and is replaced when its day is."""
    nights.compact(NEXT, None)
    nights.compact(DAY, None)
    assert nights.state(DAY) == "committed"
    assert set(nights.files().values()) == {
        (NEXT.number,),
        *((DAY.number, day) for day in (*(each.number for each in EVENTS), None)),
    }
    assert nights.rows() == sorted(expected(DAY) + [(number, str(NEXT), "") for number in range(36)])
    assert nights.state(NEXT) == "committed"
    assert nights.rows() == sorted(expected(DAY) + expected(NEXT))
    assert lake.snapshots() == 4


def test_a_run_without_events_is_refused_by_a_table_that_has_them(nights: Nights) -> None:
    """Its rows would all lie among those without a time; the day is published, the table stays as it was."""
    nights.compact(DAY)
    done = nights.compact(DAY, None)
    assert isinstance(done.table_error, CatalogRefused)
    assert "this run knows no time of events" in str(done.table_error)
    assert nights.rows() == expected(DAY)


def test_another_path_puts_the_rows_elsewhere(nights: Nights) -> None:
    """It is another generation: each row moves, none is doubled. Nothing is found there: all are without a time."""
    nights.compact(DAY)
    assert nights.state(DAY, "meta.nothing", rewrite_columns=True, is_confirmed=True) == "committed"
    assert nights.rows() == [(number, str(DAY), "") for number in range(36)]
    assert nights.state(DAY, rewrite_columns=True) == "committed"
    assert nights.rows() == expected(DAY)


def test_an_expired_day_without_the_time_of_events_is_held(nights: Nights) -> None:
    """What is published is all there is of it; the table says which column it lacks."""
    nights.compact(NEXT)
    nights.desks[DAY].compact(day=DAY)
    expire(nights.desks[DAY])
    done = nights.compact(DAY)
    assert done.table is not None
    assert (done.table.state, [*map(str, done.table.conflicts)]) == (
        "held",
        ["column event_time: the table has a partition by its day, the day no such column"],
    )


def test_an_expired_day_that_is_there_without_the_time_of_events_stays(nights: Nights) -> None:
    """It was committed before the table was one by event."""
    nights.compact(DAY, None)
    nights.compact(NEXT)
    expire(nights.desks[DAY])
    assert nights.state(DAY) == "already"
    assert nights.rows() == sorted(expected(NEXT) + [(number, str(DAY), "") for number in range(36)])


@pytest.mark.parametrize("deleted", ["event_time is null", f"event_time < '{DAY}T00:00:00+00:00'"])
def test_deleted_rows_of_a_day_of_events_never_come_back(nights: Nights, lake: Lake, deleted: str) -> None:
    """They are whole files of ours: a re-run leaves the day alone, a newer generation is refused, others go on."""
    nights.compact(DAY)
    lake.table(lambda table: table.delete(deleted))
    left = nights.rows()
    assert 0 < len(left) < 36
    assert (nights.state(DAY), nights.rows()) == ("already", left)
    nights.desks[DAY].archive_more()
    refused = nights.compact(DAY).table_error
    assert isinstance(refused, SafetyRefusal)
    assert f"it holds {len(left)} rows, and 36 were committed" in str(refused)
    assert nights.state(NEXT) == "committed"
    assert nights.rows() == sorted(left + expected(NEXT))
    lake.table(lambda table: table.delete(f"arrival_time < '{NEXT}T00:00:00+00:00'"))
    assert nights.state(DAY) == "committed"
    assert len(nights.rows()) == 37 + 36


def test_a_file_of_the_table_that_is_gone_is_made_again(nights: Nights) -> None:
    """Its rows are in the published Parquet: the day is committed anew, whole."""
    nights.compact(DAY)
    victim = min(nights.files())
    Path(victim.removeprefix("file://")).unlink()
    assert nights.state(DAY) == "committed"
    assert nights.rows() == expected(DAY)


@pytest.mark.parametrize("mode", ["counts", "none"])
@pytest.mark.parametrize("which", ["default", "column.event_time"])
def test_rows_lie_in_their_partition_whatever_bounds_the_table_keeps(
    nights: Nights, lake: Lake, which: str, mode: str
) -> None:
    """A file's partition is read off its bounds; without any its rows would lie among those without a time."""
    nights.compact(DAY)

    def set_metrics(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
        with table.transaction() as transaction:
            transaction.set_properties({f"write.metadata.metrics.{which}": mode})

    lake.table(set_metrics)
    assert nights.state(NEXT) == "committed"
    condition = f"event_time >= '{EVENTS[0]}T00:00:00+00:00' and event_time < '{DAY}T00:00:00+00:00'"
    both = [row for arrival in (DAY, NEXT) for row in expected(arrival) if row[2] == str(EVENTS[0])]
    assert nights.rows(condition) == sorted(both)


def expire(desk: Desk) -> None:
    """Let the raw objects of the day be expired."""
    published = desk.publisher().current().pointer
    assert published is not None
    tombstone = Tombstone(
        format=1,
        day=str(DAY),
        generation=published.generation,
        segments=0,
        bytes=0,
        shards={},
        writer="w",
        written_at="t",
    )
    store = open_storage(desk.archive)
    store.put_if_absent(tombstone_key(PREFIX, DAY), encode_tombstone(tombstone), {}, "application/json")


def test_rows_with_and_without_a_time_in_one_file_are_refused(lake: Lake, tmp_path: Path) -> None:
    """Bounds do not tell: such a file would lie in the partition of those that have one."""
    times = (f'{{"meta":{{"ts":"{DAY}T10:00:00Z"}}}}', "{}")
    desk = Desk(tmp_path / "desk", payload_day(DAY, 2, lambda number: times[number % 2].encode()))
    desk.compact(columns=with_event_time(None, "meta.ts", 30, SCHEMA.names))

    class Uncut:
        """The published files as they are; implements `FilesByEvent`."""

        def rows(self, manifest: Manifest, held: Collection[str], check: Callable[[], object]) -> Mapping[str, int]:
            """Return them."""
            check()
            assert not held
            return {desk.publisher().address(file.key): file.rows for file in manifest.files}

    with lake.catalog() as catalog:
        table = IcebergTable(catalog, lake.name, by_event=True)
        committer = TableCommitter(table, desk.publisher(), desk.clock, new_id, Uncut())
        with pytest.raises(SafetyRefusal, match="rows with and without event_time"):
            committer.commit()
    assert lake.rows() == []
