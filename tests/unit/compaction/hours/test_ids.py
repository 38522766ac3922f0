"""The night looks for copies in the ids that hours have kept: the day is that of a night that reads every line."""

import hashlib
import io
import itertools
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from compaction.job.context import AuditOptions
from compaction.night.rewrite import Compacted
from compaction.tasks.task import Order, run_collecting
from tests.corpus.auditing import InProcess
from tests.corpus.desk import DAY
from tests.corpus.event_defects import (
    repeated_after_midnight,
    repeated_event,
    repeated_in_another_shard,
    repeated_later,
)
from tests.corpus.model import Corpus, Shape
from tests.fakes.failing_s3 import IS_DEEP
from tests.fakes.failing_storage import Crash, FailingStorage
from tests.unit.compaction.hours.scene import Hours, same_day
from tests.unit.compaction.night.test_resumed_runs import cut, empty, scribble, stretch

MINUTES = (-700, 3, 50, 61, 62, 130, 600, 1300, 1441)
HELD = (0, 1, 2, 10, 21)


def copied(folder: Path, seed: int = 1, minutes: tuple[int, ...] = MINUTES) -> Hours:
    """Return a day with copies within a segment, in another hour, of the day before, and in another shard."""
    corpus = Corpus(DAY, seed=seed, shape=Shape(shards=5, minutes=minutes))
    defects = (repeated_event, repeated_later, repeated_after_midnight, repeated_in_another_shard)
    for number, defect in enumerate(defects):
        defect(corpus, corpus.shards[number], 3)
    return Hours(folder, corpus)


def asked(desk: Hours, path: str | None = "n", *, drop: bool = False) -> AuditOptions:
    """Return what is asked of a run."""
    return AuditOptions(event_id=path, published=desk.out, drop_producer_duplicates=drop)


def compare(desk: Hours, folder: Path, *, drop: bool = False) -> Compacted:
    """Compact the day, and in another folder without hours: assert that both are the same."""
    night = Hours(folder / "night", desk.corpus)
    night.archive = desk.archive
    expected, done = (one.publish(audit=asked(one, drop=drop)) for one in (night, desk))
    assert done.state == expected.state == "published"
    same_day(done, expected)
    assert done.manifest is not None
    assert expected.manifest is not None
    assert sorted(desk.published_rows()) == sorted(night.published_rows())
    assert done.manifest.removed == expected.manifest.removed
    assert (done.manifest.removed > 0) == drop
    assert len(desk.published_rows()) + done.manifest.removed == desk.corpus.records
    return done


def of_day(desk: Hours) -> set[str]:
    """Return the segments of the day that the last run has read."""
    return set(desk.read) & desk.keys_of(*range(24))


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_copies_are_found_as_by_a_night_without_hours(tmp_path: Path, seed: int, *, drop: bool) -> None:
    """Of hours with the night's path, others, none; and hours that are not published. Copies cross all of them."""
    rng = random.Random(seed)
    minutes = (-700, *sorted(rng.sample(range(1440), 7)), 1441)
    desk = copied(tmp_path / "hours", seed, minutes)
    for hour in sorted({minute // 60 for minute in minutes if 0 <= minute < 1440}):
        if rng.random() < 0.8:
            assert desk.publish(hour, audit=asked(desk, rng.choice(["n", "n", "m", None]))).state == "published"
    compare(desk, tmp_path, drop=drop)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish all hours of a day, with their ids, once; tests take a copy of the folder."""
    folder = tmp_path_factory.mktemp("made") / "hours"
    desk = copied(folder)
    for hour in HELD:
        desk.publish(hour, audit=asked(desk))
    return folder


@pytest.fixture
def kept(made: Path, tmp_path: Path) -> Hours:
    """Return a day all of whose hours have kept their ids."""
    folder = tmp_path / "hours"
    shutil.copytree(made, folder)
    return copied(folder)


def test_no_line_of_the_day_is_read_again(kept: Hours, tmp_path: Path) -> None:
    """Those of the day before are, for their ids."""
    compare(kept, tmp_path)
    assert of_day(kept) == set()
    assert kept.read


def test_only_parts_that_hold_copies_are_written_again(kept: Hours, tmp_path: Path) -> None:
    """The others are copied, by one request of the store."""
    done = compare(kept, tmp_path, drop=True)
    assert done.manifest is not None
    copies = {segment.key for shard in kept.corpus.shards for segment in shard.segments} & of_day(kept)
    assert 0 < len(copies) < len(kept.keys_of(*HELD))
    parts = [result for result in kept.results if result.part is not None]
    written = [result for result in parts if not result.is_taken]
    assert 0 < len(written) < len(parts)
    assert {result.part.rows for result in written if result.part is not None}


def test_an_hour_that_kept_no_ids_has_its_lines_read_and_its_files_copied(kept: Hours, tmp_path: Path) -> None:
    """Nothing is written again; so it is with another path."""
    kept.publish(10, audit=asked(kept, None))
    kept.publish(2, audit=asked(kept, "m"))
    compare(kept, tmp_path)
    assert of_day(kept) == kept.keys_of(2, 10)
    assert all(result.is_taken for result in kept.results if result.part is not None)


def test_an_hour_is_published_anew_when_its_ids_are_asked_for(tmp_path: Path) -> None:
    """And not again then; its verdict says that nothing was looked for."""
    desk = copied(tmp_path)
    assert desk.publish(10).state == "published"
    done = desk.publish(10, audit=asked(desk))
    assert (done.state, done.verdict) == ("published", "clean")
    assert done.result is not None
    assert [check.status for check in done.result.audit.checks if check.id == "event_ids"] == ["not_asked"]
    assert desk.publish(10, audit=asked(desk)).state == "already"
    assert desk.files(10, "_ids")


@pytest.mark.parametrize("damage", [cut, empty, stretch, scribble, Path.unlink])
@pytest.mark.parametrize("drop", [False, True])
def test_damaged_ids_are_not_believed(
    kept: Hours, tmp_path: Path, damage: Callable[[Path], None], *, drop: bool
) -> None:
    """The lines of that task are read; the night finds what it would have found."""
    damage(kept.files(10, "_ids")[0])
    compare(kept, tmp_path, drop=drop)
    assert drop or set() < of_day(kept) < kept.keys_of(10)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"ids-1"', b'"ids-0"'), (b'"expression":"n"', b'"expression":"m"'), (b'"without":[', b'"without":[0,')],
)
def test_ids_of_another_kind_are_not_believed(
    kept: Hours, tmp_path: Path, old: bytes, new: bytes, *, drop: bool
) -> None:
    """Another version, another path, other objects: said by facts, and so known before a row is looked at."""
    path = kept.files(10, "_facts")[0]
    table = pq.read_table(path)
    said = table.schema.metadata[b"minutebook"]
    assert old in said
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({b"minutebook": said.replace(old, new)}), sink)
    renamed = f"{path.name.partition('-')[0]}-{hashlib.sha256(sink.getvalue()).hexdigest()[:32]}.parquet"
    path.with_name(renamed).write_bytes(sink.getvalue())
    pointer = kept.hour(10).current().pointer
    assert pointer is not None
    listed = Path(kept.storage.uri(pointer.manifest.removesuffix(".json") + ".tasks.json"))
    listed.write_text(listed.read_text().replace(path.name, renamed))
    compare(kept, tmp_path, drop=drop)
    assert drop or set() < of_day(kept) < kept.keys_of(10)


@pytest.mark.parametrize("drop", [False, True])
def test_an_hour_whose_object_was_written_again_is_read(kept: Hours, tmp_path: Path, *, drop: bool) -> None:
    """It holds a copy now that it did not hold; the ids of the other hours count."""
    key = min(kept.keys_of(10))
    number = next(
        number for number, shard in enumerate(kept.corpus.shards) for one in shard.segments if one.key == key
    )
    shard = kept.corpus.shards[number]
    repeated_event(kept.corpus, shard, next(at for at, one in enumerate(shard.segments) if one.key == key))
    (kept.raw / key).unlink()
    kept.put()
    compare(kept, tmp_path, drop=drop)
    assert drop or of_day(kept) == kept.keys_of(10)


@pytest.mark.parametrize("drop", [False, True])
def test_a_crash_at_any_request_of_the_night_is_made_up_for(made: Path, tmp_path: Path, *, drop: bool) -> None:
    """The night that follows finds the same copies, and reads no line that it need not."""
    whole, rows = None, list[tuple[str, str, int]]()
    for at in itertools.count(1, 1 if IS_DEEP else 15):
        shutil.copytree(made, tmp_path / str(at))
        desk = copied(tmp_path / str(at))
        if whole is None:
            whole, rows = compare(desk, tmp_path, drop=drop), sorted(desk.published_rows())
            continue
        failing = FailingStorage(desk.storage, at, applied=at % 2 == 0)
        try:
            desk.publish(None, failing, audit=asked(desk, drop=drop))
        except Crash:
            done = desk.publish(audit=asked(desk, drop=drop))
        else:
            return
        if done.result is not None:
            same_day(done, whole)
        assert sorted(desk.published_rows()) == rows
        assert drop or of_day(desk) == set()


@pytest.mark.parametrize("after", [1, 5, 11])
def test_a_night_that_was_killed_between_its_tasks_goes_on(kept: Hours, tmp_path: Path, after: int) -> None:
    """What it had copied is its own, and names the ids of the hours: not a line is read for them."""

    def shuffle(orders: Sequence[Order]) -> InProcess:
        for order in orders[:after]:
            run_collecting(order)
        raise Crash

    with pytest.raises(Crash):
        kept.publish(audit=asked(kept), shuffle=shuffle)
    compare(kept, tmp_path)
    assert sum(result.is_earlier for result in kept.results) == after
    assert of_day(kept) == set()


def test_the_hours_may_be_gone_when_a_killed_night_goes_on(kept: Hours, tmp_path: Path) -> None:
    """Their ids are then, too: the lines are read for them, and no part is written again."""

    def shuffle(orders: Sequence[Order]) -> InProcess:
        for order in orders:
            run_collecting(order)
        raise Crash

    with pytest.raises(Crash):
        kept.publish(audit=asked(kept), shuffle=shuffle)
    for hour in HELD:
        for path in kept.files(hour, "_ids"):
            path.unlink()
    compare(kept, tmp_path)
    assert of_day(kept) == kept.keys_of(*HELD)
    assert all(result.is_earlier for result in kept.results if result.part is not None)
