"""`read(live=True)`: published days and the segments beside them, each position once, whatever happens meanwhile."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pytest

from minutebook.cut import END, Cut
from minutebook.errors import DayNotPublished, FormatError, ObjectVanished, SafetyRefusal, SettingsError
from minutebook.format.boundaries import CompleteMarker, NamedGap, encode_boundary, marker_key
from minutebook.format.minute import iso_time
from minutebook.format.position import Position
from minutebook.format.record import encode_lines
from minutebook.reader import live, read
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.unit.minutebook.reader.live_scene import (
    ARN,
    DAY,
    NOON,
    S0,
    S1,
    LiveScene,
    during,
    in_folder,
    payloads_of,
    records,
)

Scene = LiveScene[DirectoryStorage]
TOMORROW: Final = DAY.shift(1)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return an archive of one day: two shards, two minutes."""
    made = in_folder(tmp_path)
    made.write(S0, NOON, 10, "ab")
    made.write(S1, NOON, 10, ["x", b"\xff"])
    made.write(S0, NOON + 1, 20, "cd")
    return made


ALL: Final = ["a", "b", "c", "d", "x", b"\xff"]


def test_a_day_without_a_pointer_is_all_raw(scene: Scene) -> None:
    """With the columns of published days, in the order of shards and positions."""
    table = pa.table(scene.read())

    assert payloads_of(scene.read()) == ALL
    assert table["shard_id"].to_pylist() == [S0] * 4 + [S1] * 2
    assert (table["dt"].to_pylist(), table.schema.names[-1]) == ([str(DAY)] * 6, "dt")
    assert table["arrival_time"][0].value == NOON * 60_000_000
    assert table["segment"][0].as_py() == next(iter(scene.store.list_objects(DAY.path("")))).key


def test_raw_rows_are_what_the_published_day_will_have(scene: Scene) -> None:
    """Row by row, so a query gives one answer before the night and after it."""
    before = pa.table(scene.read())
    scene.publish()
    assert pa.table(scene.read()).equals(before)
    assert pa.table(read(scene.uri, DAY.date, DAY.date).to_table()).equals(before)


def test_a_segment_that_the_inventory_names_is_read_from_parquet(scene: Scene) -> None:
    """No segment is opened of a day that is published whole."""
    scene.publish()
    days = scene.read()
    scene.store.delete([row.key for row in scene.store.list_objects(DAY.path(""))])
    assert (days.days[0].hours, payloads_of(days)) == ((), ALL)


def test_a_part_of_a_day_is_continued_by_its_segments(scene: Scene) -> None:
    """The inventory names those up to `until`, and no other."""
    scene.publish(until=NOON + 1)
    scene.write(S1, NOON + 2, 30, "y")

    days = scene.read()
    assert (days.published[0].until, payloads_of(days)) == (
        iso_time((NOON + 1) * 60_000),
        ["a", "b", "x", b"\xff", "c", "d", "y"],
    )


def test_a_segment_that_comes_late_into_a_published_day_is_read_raw(scene: Scene) -> None:
    """And the next publishing takes it over."""
    scene.publish()
    scene.write(S1, NOON - 30, 5, ["late"])
    assert payloads_of(scene.read()) == [*ALL, "late"]
    scene.publish()
    assert payloads_of(scene.read()) == ["a", "b", "c", "d", "late", "x", b"\xff"]


def test_segments_that_were_expired_are_in_the_published_day(scene: Scene) -> None:
    """Nobody misses them."""
    scene.publish()
    scene.expire()
    assert payloads_of(scene.read()) == ALL


def test_an_expired_day_that_is_not_published_is_no_empty_day(scene: Scene) -> None:
    """Its records are nowhere: that is an error, or named among the days left out."""
    scene.expire()
    with pytest.raises(DayNotPublished, match="it was expired, and is not published"):
        scene.read()
    days = scene.read(missing="skip")
    assert (payloads_of(days), [day for day, _ in days.left_out]) == ([], [DAY.date])


def test_a_night_that_publishes_after_the_list_doubles_nothing_and_loses_nothing(scene: Scene) -> None:
    """LIST, publish, pointer: also a segment that was written between the two is in the files."""

    def night() -> None:
        scene.write(S0, NOON + 2, 40, "e")
        scene.publish()

    days = opened_during(scene, night)
    assert (days.days[0].hours, payloads_of(days)) == ((), ["a", "b", "c", "d", "e", "x", b"\xff"])


def test_a_night_that_publishes_before_the_list_doubles_nothing_and_loses_nothing(scene: Scene) -> None:
    """Publish, LIST, pointer; what is deleted before the LIST is in the files that the pointer names."""
    scene.publish()
    scene.expire()
    scene.write(S0, NOON + 2, 40, "e")
    assert payloads_of(scene.read()) == [*ALL, "e"]


def test_a_night_and_an_expiry_after_the_list_lose_nothing(scene: Scene) -> None:
    """LIST, publish, delete, pointer: the names of the deleted segments are left out."""

    def night() -> None:
        scene.publish()
        scene.expire()

    assert payloads_of(opened_during(scene, night)) == ALL


def test_an_expiry_before_the_list_loses_nothing_if_the_pointer_is_read_after_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order that is not taken, pointer before LIST, loses all six rows without a word."""
    taken = live.read_current
    early = taken(scene_output(scene), live.DayFolder("", DAY), scene.uri)
    scene.publish()
    scene.expire()
    monkeypatch.setattr(live, "read_current", lambda *_: early)
    monkeypatch.setattr(live, "is_expired", lambda *_: False)
    assert payloads_of(scene.read()) == []
    monkeypatch.setattr(live, "read_current", taken)
    assert payloads_of(scene.read()) == ALL


def test_a_segment_that_goes_after_the_opening_is_no_shorter_table(scene: Scene) -> None:
    """LIST, pointer, publish, delete: the reader is told to open the days again, and then has them."""
    days = scene.read()
    scene.publish()
    scene.expire()
    with pytest.raises(ObjectVanished, match="is gone or another one") as caught:
        list(days.to_batches())
    assert "open the days again" in caught.value.next_step
    assert payloads_of(scene.read()) == ALL


def test_segments_that_come_after_the_opening_are_of_the_next_one(scene: Scene) -> None:
    """Two queries of one variable see the same."""
    days = scene.read()
    scene.write(S0, NOON + 2, 40, "e")
    assert payloads_of(days) == payloads_of(days) == ALL


def scene_output(scene: Scene) -> live.RetryingStorage:
    """Return the store of the published days."""
    return live.open_output(live.StorePrefix(Address(None, scene.uri), ""))


def opened_during(scene: Scene, act: Callable[[], None]) -> live.LiveDays:
    """Open the day while something happens between its last LIST and its pointer."""
    storage = open_storage(Address(None, str(scene.store.root)))
    during(storage, DAY.path(""), act)  # type: ignore[arg-type]  # a folder
    return scene.read()


def test_overlapping_segments_give_each_position_once(scene: Scene) -> None:
    """Zombies in an archive that was written by hand: across minutes, too, and a hole of one is filled by another."""
    whole = records(NOON + 5, 100, "klmnop")
    scene.scene.segment(S0, NOON + 5, [*whole[:3], *whole[4:]])
    scene.scene.segment(S0, NOON + 5, whole[1:5], after=Position(1))
    copy = scene.scene.segment(S0, NOON + 5, whole[3:], after=Position(2))
    other_minute = scene.store.root / copy.key.replace("/12/05/", "/13/07/")
    other_minute.parent.mkdir(parents=True)
    other_minute.write_bytes((scene.store.root / copy.key).read_bytes())

    assert scene.payloads() == ["a", "b", "c", "d", *"klmnop", "x", b"\xff"]


def test_a_raw_segment_repeats_no_position_of_a_published_part(scene: Scene) -> None:
    """Neither one that overlaps published rows nor one that was stored again under another ETag."""
    scene.publish()
    scene.scene.segment(S0, NOON, [*records(NOON, 11, "b"), *records(NOON, 12, "new")], after=Position(3))
    copied = next(row for row in scene.store.list_objects(DAY.path("")) if f"/{S1}/" in row.key)
    path = scene.store.root / copied.key
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), 1))

    assert scene.read().days[0].hours != ()
    assert scene.payloads() == [*ALL, "n", "e", "w"]


def test_a_segment_that_was_stored_again_gives_what_the_files_lack(scene: Scene) -> None:
    """Somebody wrote it anew, with one record more: the key is the same, and the ETag is not."""
    scene.publish()
    stored = next(row.key for row in scene.store.list_objects(DAY.path("")) if f"/{S1}/" in row.key)
    more = encode_lines(S1, records(NOON, 10, ["x", b"\xff", "more"]))
    (scene.store.root / stored).write_bytes(gzip.compress(more))

    assert scene.payloads() == [*ALL, "more"]


def test_repeated_events_stay_dropped_where_the_day_was_published_so(scene: Scene) -> None:
    """Raw segments know no events: the docs say so."""
    scene.publish(without=["b"])
    assert scene.payloads() == ["a", "c", "d", "x", b"\xff"]


def test_dropped_producer_duplicates_are_no_rows(scene: Scene) -> None:
    """Their lines lie beside the segments, and are not read."""
    whole = records(NOON + 3, 50, "ef")
    scene.scene.segment(S0, NOON + 3, whole, duplicate_of={whole[1].position: "stream/shard/1:0"})
    assert scene.payloads() == ["a", "b", "c", "d", "e", "x", b"\xff"]


@pytest.mark.parametrize("is_published", [False, True])
def test_a_cut_divides_published_and_raw_rows(scene: Scene, *, is_published: bool) -> None:
    """By shard and position, each row on one side."""
    if is_published:
        scene.publish(until=NOON + 1)
    cut = cut_of({S0: "20:0", S1: "10:0"})
    assert sorted(map(str, scene.payloads(before=cut))) == ["a", "b", "c", "x"]
    assert sorted(map(str, scene.payloads(after=cut))) == sorted(["d", str(b"\xff")])
    assert scene.payloads(before=cut_of({S1: END})) == ["x", b"\xff"]


def test_a_cut_of_another_stream_is_refused(scene: Scene) -> None:
    """By the archive's own record, also where no day is published."""
    other = Cut(
        stream_arn=f"{ARN}2", stream_created_ms=1, at="2026-11-20T00:00Z", through="2026-11-20T00:00Z", shards={}
    )
    with pytest.raises(SafetyRefusal, match="the cut is one of the stream"):
        scene.read(after=other)


def cut_of(shards: dict[str, str]) -> Cut:
    """Return a cut of the archive at the end of the day."""
    at = iso_time(DAY.end_ms)
    return Cut(stream_arn=ARN, stream_created_ms=1, at=at, through=at, shards=shards)


def test_raw_rows_have_the_columns_of_typed_days(scene: Scene) -> None:
    """Null in them: the mapping is the nightly job's."""
    scene.publish(
        until=NOON + 1, columns=lambda rows: rows.append_column("n", pa.array(range(rows.num_rows), pa.int32()))
    )
    table = pa.table(scene.read(columns=["n", "data", "dt"]))
    assert table.schema.names == ["n", "data", "dt"]
    assert table["n"].to_pylist() == [0, 1, 2, 3, None, None]
    with pytest.raises(SettingsError, match="there is no column"):
        scene.read(columns=["m"])


def test_columns_that_evolved_are_what_the_dataset_makes_of_them(scene: Scene) -> None:
    """Wider numbers, structs with more fields, lists, and a day without them; by their names, also `dt` alone."""
    old, new = pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64()), ("b", pa.string())])
    scene.publish(
        columns=lambda rows: (
            rows.append_column("n", pa.array([7] * rows.num_rows, pa.int32()))
            .append_column("who", pa.array([{"a": 1}] * rows.num_rows, old))
            .append_column("tags", pa.array([[1]] * rows.num_rows, pa.list_(pa.field("element", pa.int32()))))
        )
    )
    scene.write(S0, TOMORROW.first_minute, 50, "e")
    scene.publish(
        TOMORROW,
        columns=lambda rows: (
            rows.append_column("n", pa.array([2**40] * rows.num_rows, pa.int64()))
            .append_column("who", pa.array([{"a": 2**40, "b": "x"}] * rows.num_rows, new))
            .append_column("tags", pa.array([[2**40]] * rows.num_rows, pa.list_(pa.field("element", pa.int64()))))
        ),
    )
    scene.write(S0, TOMORROW.shift(1).first_minute, 60, "f")
    scene.publish(TOMORROW.shift(1))
    for columns in (None, ["dt"], ["who", "dt"], ["n", "data"]):
        dataset = read(scene.uri, DAY.date, TOMORROW.shift(1).date, columns)
        assert pa.table(scene.read(DAY, TOMORROW.shift(1), columns=columns)).equals(dataset.to_table())


def test_days_come_in_order_and_within_a_shard_positions_ascend(scene: Scene) -> None:
    """As integers, and whatever order minutes and hours are in."""
    rng = random.Random(3)
    sequences = [rng.randrange(10 ** rng.randint(2, 30)) + 1000 for _ in range(40)]
    for number, sequence in enumerate(dict.fromkeys(sequences)):
        scene.write(S0, NOON + 7 * number, sequence * 1000, "z", after=Position(1))
    scene.write(S0, TOMORROW.first_minute, 10**40, "t")

    rows = pa.table(scene.read(DAY, TOMORROW)).to_pylist()
    places = [(row["dt"], row["shard_id"], int(row["sequence_number"])) for row in rows]
    assert places == sorted(places)
    assert len(set(places)) == len(places) >= 40


def test_duckdb_and_pyarrow_read_it_as_often_as_they_like(scene: Scene) -> None:
    """By the name of the variable; a stream that can be read once would be empty the second time."""
    scene.publish(until=NOON + 1)
    days = scene.read()
    for _ in range(2):
        assert duckdb.sql("SELECT count(*), count(DISTINCT sequence_number) FROM days").fetchall() == [(6, 4)]
    assert duckdb.sql("SELECT data FROM days WHERE shard_id LIKE '%1' AND data IS NOT NULL").fetchall() == [("x",)]
    assert sum(batch.num_rows for batch in days.to_reader()) == 6


def test_a_damaged_segment_is_an_error_with_its_name(scene: Scene) -> None:
    """Not a table with fewer rows; by an engine, too."""
    stored = scene.write(S1, NOON + 3, 60, ["q" * 90] * 40)
    path = scene.store.root / stored.key
    path.write_bytes(path.read_bytes()[:-4])
    days = scene.read()

    with pytest.raises(FormatError, match=stored.key):
        list(days.to_batches())
    with pytest.raises(duckdb.Error, match="jsonl"):
        duckdb.sql("SELECT count(*) FROM days").fetchall()


def test_an_object_that_is_no_segment_is_passed_over(scene: Scene) -> None:
    """The audit names it."""
    scene.store.put_if_absent(f"{DAY.path('')}12/00/readme.txt", b"x", {}, "text/plain")
    assert scene.payloads() == ALL


def test_a_published_day_without_inventory_is_told(scene: Scene) -> None:
    """What is in its files nobody can say."""
    scene.publish()
    [path] = Path(scene.uri).rglob("*.inventory.jsonl.gz")
    path.unlink()
    with pytest.raises(FormatError, match=r"inventory.* is missing"):
        scene.read()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"live": True, "verdicts": ("clean",)}, "no verdict"),
        ({"live": False, "archive": "/x"}, "archive="),
        ({"live": True, "to": "2026-11-19"}, "no range"),
    ],
)
def test_what_does_not_go_together_is_refused(scene: Scene, options: dict[str, object], why: str) -> None:
    """With what to do."""
    with pytest.raises(SettingsError, match=why):
        read(scene.uri, DAY.date, **{"to": DAY.date, **options})  # type: ignore[call-overload]


def test_the_archive_is_named_where_the_output_does_not_tell(scene: Scene, tmp_path: Path) -> None:
    """`compact --out` may be anywhere."""
    elsewhere = str(tmp_path / "published")
    with pytest.raises(SettingsError, match="not the default place"):
        read(elsewhere, DAY.date, DAY.date, live=True)
    days = read(elsewhere, DAY.date, DAY.date, live=True, archive=str(scene.store.root))
    assert payloads_of(days) == ALL


def test_live_days_say_until_when_they_are_complete(scene: Scene) -> None:
    """By the newest boundary before the listing, with its gaps; without one nothing is said."""
    assert scene.read().complete_until is None
    until_ms = (NOON + 5) * 60_000
    gap = NamedGap.of(S0, until_ms - 60_000, until_ms - 30_000, ["skipped"])
    marker = CompleteMarker(since=iso_time(0), boundary=iso_time(until_ms), shards={}, gaps=(gap,), writer="w")
    scene.store.put_if_absent(marker_key("", until_ms), encode_boundary(marker), {}, "application/json")

    complete = scene.read().complete_until

    assert complete is not None
    assert complete.until.timestamp() * 1000 == until_ms
    assert [(each.shard, each.reasons) for each in complete.gaps] == [(S0, ("skipped",))]
