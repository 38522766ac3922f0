"""The files of a day by its events: made once, whatever crashes, races or is lost."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq
import pytest

from compaction.columns.event_time import with_event_time
from compaction.job.context import in_turn
from compaction.publish.publisher import GRACE_MS
from compaction.shard_groups.port import Spread
from compaction.tables.events.files import EventFiles, EventWork
from minutebook.clock import SystemClock
from minutebook.errors import FormatError, SafetyRefusal
from minutebook.published.schema import SCHEMA
from minutebook.store.storage import Storage
from tests.corpus.desk import DAY, Desk
from tests.corpus.typed_day import payload_day
from tests.fakes.failing_storage import Crash, FailingStorage, crash_points

if TYPE_CHECKING:
    from minutebook.published.generation import Manifest


def payload(number: int) -> bytes:
    """Return an event of one of four days."""
    return json.dumps({"n": number, "ts": f"{DAY.shift(-(number % 4))}T10:00:00Z"}).encode()


class Cut:
    """A published day, and runs that cut it by its events."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desk(folder, payload_day(DAY, 2, payload))
        done = self.desk.compact(columns=with_event_time(None, "ts", 30, SCHEMA.names))
        assert done.manifest is not None
        self.manifest: Manifest = done.manifest
        self.folder = self.desk.publisher().folder.events(self.manifest.generation)
        self.desk.clock.advance((SystemClock().now_ms() - self.desk.clock.now_ms()) / 1000)
        self.spreads = 0

    def rows(
        self,
        storage: Storage | None = None,
        held: Sequence[str] = (),
        spread: Spread = in_turn,
        check: Callable[[], object] = dict,
    ) -> dict[str, int]:
        """Ask for the files in a run of its own."""

        def counted(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            self.spreads += len(items)
            return spread(work, items)

        publisher = self.desk.publisher(storage)
        work = EventWork(self.desk.out.address, counted, self.desk.clock)
        return dict(EventFiles(publisher, work, 30).rows(self.manifest, held, check))

    def names(self) -> list[str]:
        """Return what lies in the folder."""
        return sorted(row.key for row in self.desk.storage.list_objects(self.folder))

    def numbers(self, rows: dict[str, int]) -> list[int]:
        """Read the files; returns the numbers of the payloads."""
        found = [
            json.loads(text)["n"]
            for uri in rows
            for text in pq.read_table(uri.removeprefix("file://"), partitioning=None)["data"].to_pylist()
        ]
        assert len(found) == sum(rows.values())
        return sorted(found)

    def age(self, days: float) -> None:
        """Let time pass."""
        self.desk.clock.advance(days * 86_400)


@pytest.fixture
def cut(tmp_path: Path) -> Cut:
    """Return a day that is published and not cut."""
    return Cut(tmp_path)


def test_files_are_made_once(cut: Cut) -> None:
    """The second run finds the record; one file for each day of events."""
    first = cut.rows()
    assert cut.numbers(first) == list(range(36))
    assert (len(first), cut.rows() == first, cut.spreads) == (4, True, 1)


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_crash_at_any_request_is_made_up_for(cut: Cut, *, applied: bool) -> None:
    """The next run returns files that hold each row once; what the crash left is deleted when it is old."""
    for at in crash_points():
        cut.desk.storage.delete(cut.names())
        failing = FailingStorage(cut.desk.storage, at, applied=applied)
        try:
            cut.rows(failing)
        except Crash:
            assert cut.numbers(cut.rows()) == list(range(36))
        if not failing.reached:
            break
    assert at > 2


def test_of_two_runs_at_once_one_has_its_files(cut: Cut) -> None:
    """The other one takes them, and deletes its own."""
    theirs: list[dict[str, int]] = []

    def meanwhile(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        if not theirs:
            theirs.append({})
            theirs.append(cut.rows())
        return in_turn(work, items)

    assert cut.rows(spread=meanwhile) == theirs[1]
    assert len(cut.names()) == 4 + 1


@pytest.mark.parametrize("spoil", ["a file is gone", "a file has another size", "no JSON", "other rows"])
def test_a_record_that_is_not_whole_is_not_believed(cut: Cut, spoil: str) -> None:
    """The files are made anew, and named by the next record."""
    first = cut.rows()
    *_, victim = sorted(first)
    path = Path(victim.removeprefix("file://"))
    record = Path(cut.desk.storage.uri(next(key for key in cut.names() if key.endswith(".json"))))
    if spoil == "a file is gone":
        path.unlink()
    elif spoil == "a file has another size":
        path.write_bytes(path.read_bytes() + b"x")
    elif spoil == "no JSON":
        record.write_bytes(b"{")
    else:
        record.write_bytes(record.read_bytes().replace(b'"rows": 36', b'"rows": 35'))
    again = cut.rows()
    assert cut.numbers(again) == list(range(36))
    assert not set(again) & set(first)
    assert cut.rows() == again


def test_an_old_record_counts_while_the_table_holds_its_files(cut: Cut) -> None:
    """A sweep may be about to delete what no table holds."""
    first = cut.rows()
    cut.age(1.5)
    assert cut.rows(held=list(first)) == first
    assert not set(cut.rows()) & set(first)


def test_no_files_are_made_for_a_day_that_the_table_refuses(cut: Cut) -> None:
    """A person has to act first, and each night until then would write the day once more."""

    def refuse() -> None:
        raise SafetyRefusal("its rows are not those that were committed")

    with pytest.raises(SafetyRefusal):
        cut.rows(check=refuse)
    assert (cut.spreads, cut.names()) == (0, [])
    first = cut.rows()
    assert cut.rows(check=refuse) == first  # they are there


def test_what_a_killed_run_left_is_deleted_when_it_is_old(cut: Cut) -> None:
    """Files that a record names stay, whatever their age."""

    def killed(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        in_turn(work, items)
        raise Crash

    with pytest.raises(Crash):
        cut.rows(spread=killed)
    left = cut.names()
    first = cut.rows()
    assert set(left) < set(cut.names())
    cut.age(GRACE_MS / 86_400_000 + 1)
    cut.rows()
    assert not set(left) & set(cut.names())
    assert cut.numbers(first) == list(range(36))


def test_rows_that_are_not_the_manifests_are_never_recorded(cut: Cut) -> None:
    """A file that lost a row since it was published ends the run."""
    cut.manifest = msgspec.structs.replace(cut.manifest, rows=37)
    with pytest.raises(FormatError, match="hold 36 rows, the manifest 37"):
        cut.rows()
    assert not any(key.endswith(".json") for key in cut.names())
