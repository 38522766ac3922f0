"""The night takes over what hours were published from: no line of theirs is read, and the day is the same."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from compaction.columns.files.columns_file import read_columns
from compaction.job.context import AuditOptions
from compaction.night.dry_run import plan_dry_run
from compaction.night.rewrite import CompactOptions
from minutebook.format.day import Hour
from minutebook.published.generation import tasks_beside
from minutebook.published.schema import SCHEMA
from tests.corpus.desk import DAY
from tests.corpus.model import Corpus, Shape
from tests.unit.compaction.hours.scene import HELD, Hours, same_day, small
from tests.unit.compaction.night.test_resumed_runs import cut, empty, scribble, stretch


def test_the_day_is_that_of_a_night_without_hours(desk: Hours, tmp_path: Path) -> None:
    """Row for row, and finding for finding; not a line is read again."""
    night = Hours(tmp_path / "night")
    night.archive = desk.archive
    expected, done = night.publish(), desk.publish()
    assert done.state == "published"
    same_day(done, expected)
    assert desk.read == []
    assert sorted(night.read) == sorted(desk.keys_of(*range(24)))
    assert sorted(desk.published_rows()) == sorted(night.published_rows())
    desk.check_whole()


def test_hours_that_are_not_published_are_read(tmp_path: Path) -> None:
    """They alone."""
    desk = Hours(tmp_path)
    desk.publish_hours(1, 10)
    assert desk.publish().verdict == "clean"
    assert set(desk.read) == desk.keys_of(0, 11, 23)
    desk.check_whole()


def test_an_hour_that_changed_is_read_again(desk: Hours) -> None:
    """A segment came late: that hour's lines are read, and no others."""
    desk.archive_more()
    desk.publish()
    assert set(desk.read) == desk.keys_of(23)
    desk.check_whole()


def test_the_part_of_a_day_so_far_takes_whole_hours_over(desk: Hours) -> None:
    """The hour in which it ends is read up to there; and hours stay while the day is not whole."""
    until_ms = Hour(DAY, 10).begin_ms + 60_000
    done = desk.publish(audit=AuditOptions(so_far_ms=until_ms))
    assert done.verdict == "clean"
    assert {key for key in desk.read if "/2026/11/20/10/00/" not in f"/{key}"} == set()
    assert desk.read
    assert desk.hour(10).current().pointer is not None


def test_a_part_of_a_day_that_is_whole_is_published_already(desk: Hours) -> None:
    """Readers would see less than they did, and the hours have given way."""
    desk.publish()
    so_far = AuditOptions(so_far_ms=Hour(DAY, 10).begin_ms + 60_000)
    done = desk.publish(audit=so_far)
    assert (done.state, done.verdict) == ("already", "clean")
    desk.check_whole()
    assert plan_dry_run(desk.context(), DAY, CompactOptions(so_far, desk.out)).action == "nothing to do"


def test_other_settings_take_nothing_over(desk: Hours) -> None:
    """Another level of compression: whoever asks for it wants it."""
    desk.publish(zstd_level=3)
    assert set(desk.read) == desk.keys_of(*HELD)
    desk.check_whole()


def test_typed_columns_are_taken_over_with_what_does_not_fit(tmp_path: Path) -> None:
    """The same columns: the numbers are those of a night that reads every payload. Others: all is read."""
    path = tmp_path / "columns.json"
    path.write_text('{"columns": {"n": {"path": "n", "type": "int64"}}}')
    columns = read_columns(path, SCHEMA.names)
    desk, night = small(tmp_path / "hours"), small(tmp_path / "night")
    desk.publish(0, columns=columns)
    desk.publish(1, columns=columns)
    expected, done = night.publish(columns=columns), desk.publish(columns=columns)
    assert desk.read == []
    assert done.result is not None
    assert expected.result is not None
    assert done.result.audit.typed == expected.result.audit.typed is not None
    desk = small(tmp_path / "others")
    desk.publish(0, columns=columns)
    desk.publish()
    assert set(desk.read) == desk.keys_of(0, 1)


def test_payloads_that_do_not_fit_are_told_in_the_order_of_a_night_without_hours(tmp_path: Path) -> None:
    """By shard and position, the first ones of the day: hours come one after the other, and hold all shards."""
    path = tmp_path / "columns.json"
    path.write_text('{"columns": {"n": {"path": "name", "type": "int64"}}}')
    columns = read_columns(path, SCHEMA.names)
    shape = Shape(shards=2, records=12, minutes=(-700, 59, 60, 1441))
    desk, night = (Hours(tmp_path / name, Corpus(DAY, shape=shape)) for name in ("hours", "night"))
    night.archive = desk.archive
    for hour in (0, 1):
        desk.publish(hour, columns=columns)
    expected, done = night.publish(columns=columns), desk.publish(columns=columns)
    assert desk.read == []
    same_day(done, expected)


@pytest.mark.parametrize("what", ["_facts", "part"])
@pytest.mark.parametrize("damage", [cut, empty, stretch, scribble, Path.unlink])
def test_what_is_damaged_is_read_again(desk: Hours, damage: Callable[[Path], None], what: str) -> None:
    """One part or one of the facts: that task alone, and the day is whole."""
    damage(desk.files(10, what)[0])
    desk.publish()
    assert set(desk.read) < desk.keys_of(10)
    assert desk.read
    desk.check_whole()


def test_a_part_that_was_written_again_is_not_taken_over(desk: Hours) -> None:
    """Of the same size and with a good footer, under another ETag: somebody else's rows."""
    path = desk.files(10, "part")[0]
    body = bytearray(path.read_bytes())
    body[6] ^= 1
    path.write_bytes(body)
    desk.publish()
    assert desk.read
    desk.check_whole()


def test_an_object_that_was_written_again_is_read_again(desk: Hours) -> None:
    """A copy onto itself keeps key, ETag and size, and may change what the metadata says."""
    path = desk.raw / min(desk.keys_of(10))
    later = path.stat().st_mtime_ns + 10_000_000_000
    os.utime(path, ns=(later, later))
    desk.publish()
    assert set(desk.read) < desk.keys_of(10)
    assert desk.read
    desk.check_whole()


@pytest.mark.parametrize("lie", ["first", "order", "none", "generation", "not json"])
def test_a_list_of_tasks_that_does_not_fit_is_passed_over(desk: Hours, lie: str) -> None:
    """The hour is read as if it had not been published."""
    pointer = desk.hour(10).current().pointer
    assert pointer is not None
    path = Path(desk.storage.uri(tasks_beside(pointer.manifest)))
    said = msgspec.json.decode(path.read_bytes())
    tasks = said["tasks"]
    changed = {
        "first": {"tasks": [{"first": min(desk.keys_of(11)), "facts": tasks[0]["facts"]}, *tasks[1:]]},
        "order": {"tasks": tasks[::-1]},
        "none": {"tasks": []},
        "generation": {"generation": "0" * 16},
    }
    body = b"{" if lie == "not json" else msgspec.json.encode({**said, **changed.get(lie, {})})
    path.write_bytes(body)
    desk.publish()
    assert set(desk.read) == desk.keys_of(10)
    desk.check_whole()


def test_facts_of_another_task_are_not_believed(desk: Hours) -> None:
    """A list that names them by turns: they name their own objects."""
    pointer = desk.hour(10).current().pointer
    assert pointer is not None
    path = Path(desk.storage.uri(tasks_beside(pointer.manifest)))
    said = msgspec.json.decode(path.read_bytes())
    facts = [task["facts"] for task in said["tasks"]][::-1]
    said["tasks"] = [{**task, "facts": other} for task, other in zip(said["tasks"], facts, strict=True)]
    path.write_bytes(msgspec.json.encode(said))
    desk.publish()
    assert desk.read
    desk.check_whole()
