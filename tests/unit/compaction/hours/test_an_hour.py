"""An hour is read, audited and published by itself; a reader of days never sees it."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from compaction.job.scope import SETTLED_MS
from compaction.tasks.task import Order, TaskResult
from minutebook.errors import SafetyRefusal, SettingsError
from minutebook.format.day import Hour
from tests.corpus.auditing import in_process
from tests.corpus.desk import DAY, expire
from tests.corpus.model import Corpus, Shape
from tests.fakes.clock import ManualClock
from tests.unit.compaction.hours.scene import HELD, Hours


@pytest.fixture
def desk(tmp_path: Path) -> Hours:
    """Return a day of which nothing is published; not even an hour."""
    return Hours(tmp_path)


@pytest.mark.parametrize("hour", [*HELD, 5])
def test_an_hour_holds_its_own_records_and_is_judged_by_itself(desk: Hours, hour: int) -> None:
    """Its chains go on over its borders, and an hour without a record is proven as well."""
    done = desk.publish(hour)
    assert (done.state, done.verdict) == ("published", "clean")
    assert set(desk.read) == desk.keys_of(hour) == {segment for _, segment in desk.rows_of_hour(hour)}
    assert done.result is not None
    scope = done.result.audit.scope
    assert scope.begins == f"2026-11-20T{hour:02d}:00:00.000Z"
    assert scope.until[:13] == ("2026-11-21T00" if hour == 23 else f"2026-11-20T{hour + 1:02d}")


def test_an_hour_is_published_once(desk: Hours) -> None:
    """The same objects: nothing to do, and nothing is read."""
    desk.publish(10)
    assert desk.publish(10).state == "already"
    assert desk.read == []


def test_a_broken_link_into_an_hour_is_its_defect(desk: Hours) -> None:
    """The segment before its first one is gone: the hour that it joins says so, and is held."""
    shard = desk.corpus.shards[0]
    gone = [segment for segment in shard.segments if segment.metadata.minute == DAY.first_minute + 59]
    (desk.raw / gone[0].key).unlink()
    done = desk.publish(1)
    assert (done.state, done.verdict) == ("held", "defects")
    assert desk.publish(10).verdict == "clean"


@pytest.mark.parametrize("hour", [10, 13])
def test_times_that_step_back_over_a_full_hour_break_no_chain_of_a_quiet_one(tmp_path: Path, hour: int) -> None:
    """The segment that an hour stands on lies behind the one whose folder is nearer, and so does what comes next."""
    minutes = (-700, 0, 720, 719, 1439, 1441)
    desk = Hours(tmp_path, Corpus(DAY, shape=Shape(shards=1, records=2, minutes=minutes)))
    assert desk.publish(hour).verdict == "clean"


def test_times_that_step_back_over_midnight_break_no_chain_of_a_later_day(tmp_path: Path) -> None:
    """As they do over a full hour: the day before holds the chain's last segment but one."""
    minutes = (-3000, -1440, -1441, 600, 1441)
    desk = Hours(tmp_path, Corpus(DAY, shape=Shape(shards=1, records=2, minutes=minutes)))
    assert desk.publish().verdict == "clean"


def test_an_hour_that_is_not_settled_is_held(desk: Hours) -> None:
    """As a day is; and one that has not begun is none."""
    end_ms = Hour(DAY, 10).end_ms
    desk.clock = ManualClock(end_ms + SETTLED_MS - 1)
    done = desk.publish(10)
    assert (done.state, done.verdict) == ("held", "unknown")
    assert not list(desk.storage.list_objects(""))
    with pytest.raises(SettingsError, match="in the future"):
        desk.publish(12)


def test_a_reader_of_days_sees_no_hour(desk: Hours) -> None:
    """Neither as files of the day, nor as a day that is published."""
    desk.publish_hours()
    assert ds.dataset(desk.storage.uri(""), format="parquet", partitioning="hive").count_rows() == 0
    assert desk.published_rows() == []
    folders = [path for path in Path(desk.storage.uri(f"dt={DAY}/")).iterdir() if path.is_dir()]
    assert all(path.name.startswith("_") and "=" not in path.name for path in folders)


def test_an_hour_of_a_published_day_is_published_already(desk: Hours) -> None:
    """Whatever has come since: it is the day that is to be published anew."""
    desk.publish()
    desk.archive_more()
    done = desk.publish(23)
    assert (done.state, done.verdict, desk.read) == ("already", "clean", [])
    assert desk.hour(23).current().pointer is None


def test_an_hour_that_is_published_while_the_day_is_gives_way(desk: Hours) -> None:
    """Its run began before the day was there, and ends after it."""

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        if desk.publisher().current().pointer is None:
            desk.compact()
        return in_process(orders)

    assert desk.publish(10, engine=engine).state == "published"
    desk.check_whole()


def test_an_hour_of_an_expired_day_is_refused(desk: Hours) -> None:
    """What is left of its segments is not the hour."""
    desk.publish()
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    expire(desk, pointer.generation, days=0)  # type: ignore[arg-type]
    desk.storage.delete([desk.publisher().folder.pointer])
    with pytest.raises(SafetyRefusal, match="expired"):
        desk.publish(10)
