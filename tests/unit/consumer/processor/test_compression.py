"""The compression is the archive's: settled by whoever comes first, and taken by all, whatever they are told."""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from minutebook.compression import Compression, compression_of
from minutebook.errors import FormatError, SafetyRefusal
from minutebook.format.keys import application_key, segment_key
from minutebook.format.markers import ApplicationRecord, decode_marker, encode_marker
from minutebook.format.position import Position
from tests.fakes.archive_scene import PREFIX
from tests.fakes.dedupe_world import CLAIMS, WATERMARK, DedupeWorld
from tests.fakes.world import Worker, World

GZIP, ZSTD = Compression
_SEARCHED = 6
RECORD = application_key(PREFIX)


@pytest.fixture
def world() -> World:
    """Return a shard with six records in one minute."""
    world = World()
    world.put(6)
    return world


def holding(world: World, count: int, compression: Compression | None) -> Worker:
    """Start a worker with a setting of its own; it holds so many records, and has listed their minute."""
    worker = world.started(compression=compression)
    worker.daemon.deliver(count)
    return worker


def extensions(world: World) -> set[str]:
    """Return how the names of all segments and dropped lines end."""
    return {key.rpartition(".")[2] for key in world.bucket.keys(PREFIX) if ".jsonl" in key}


def test_a_new_archive_is_of_gzip_unless_told(world: World) -> None:
    """And says so in the words of versions that know no other: format 1, and no field that is new."""
    world.archive_all()
    stored = json.loads(world.bucket.body(RECORD))
    assert (extensions(world), stored["format"], "compression" in stored) == ({"gz"}, 1, False)


def test_a_new_archive_of_zstd_is_refused_by_older_versions(world: World) -> None:
    """They read format 1 alone, and stop at another number before they write a name of their own."""
    world.archive_all(compression=ZSTD)
    stored = json.loads(world.bucket.body(RECORD))
    assert (extensions(world), stored["format"], stored["compression"]) == ({"zst"}, 2, "zstd")
    world.check_everything_archived()


@pytest.mark.parametrize("begun", Compression)
@pytest.mark.parametrize("setting", [*Compression, None])
def test_a_later_writer_takes_what_is_stored(world: World, begun: Compression, setting: Compression | None) -> None:
    """A changed setting changes nothing, and is reported once; without a setting there is nothing to report."""
    world.archive_all(compression=begun)
    world.put(3)
    with capture_logs() as logs:
        world.archive_all(compression=setting)
    assert extensions(world) == {begun.extension[1:]}
    world.check_everything_archived()
    told = [line for line in logs if line["event"] == "compression_settled_earlier"]
    expected = [] if setting in {None, begun} else [(setting, begun, True)]
    assert [(line["setting"], line["stored"], "new prefix" in line["next_step"]) for line in told] == expected


@pytest.mark.parametrize(("first", "second"), [(GZIP, ZSTD), (ZSTD, GZIP)])
@pytest.mark.parametrize(("held", "kept"), [(6, 2), (2, 6)])
def test_writers_with_two_settings_contend_for_one_slot(
    world: World, first: Compression, second: Compression, held: int, kept: int
) -> None:
    """A zombie with the old setting and the owner with the new one: the slot is lost, and the rest goes on behind."""
    zombie = holding(world, held, first)
    owner = holding(world, kept, second)
    owner.daemon.request_shutdown()
    zombie.daemon.request_shutdown()
    assert extensions(world) == {first.extension[1:]}
    world.archive_all(compression=second)
    world.check_everything_archived()


@pytest.mark.parametrize("begun", Compression)
def test_a_record_that_is_gone_is_not_made_again(world: World, begun: Compression) -> None:
    """A zombie still writes with the lost one, and another setting would give its records slots of their own."""
    world.archive_all(compression=begun)
    world.clock.advance(300)
    world.put(3)
    zombie = holding(world, 3, begun)
    world.bucket.delete(RECORD)
    with pytest.raises(SafetyRefusal, match=r"_application\.json is gone") as refused:
        world.worker(compression=None).daemon.start()
    assert "a version" in str(refused.value.next_step)
    assert RECORD not in world.bucket.keys(PREFIX)
    zombie.daemon.request_shutdown()
    world.check_everything_archived()
    assert extensions(world) == {begun.extension[1:]}


def test_who_begins_at_the_same_moment_takes_the_others_record(world: World) -> None:
    """The record was not there yet, and the markers behind it are: it is looked for once more."""
    world.archive_all(compression=ZSTD)
    world.put(3)
    world.bucket.hide(RECORD)
    late = world.worker(compression=GZIP)
    late.store.before = lambda verb, _key: world.bucket.show(RECORD) if verb == "LIST" else None
    late.daemon.start()
    assert late.store.log[:3] == [("GET", RECORD), ("LIST", f"{PREFIX}_shards/"), ("GET", RECORD)]
    late.daemon.deliver()
    late.daemon.request_shutdown()
    assert extensions(world) == {"zst"}
    world.check_everything_archived()


@pytest.mark.parametrize("mode", [CLAIMS, WATERMARK], ids=["claims", "watermark"])
def test_dropped_lines_are_compressed_as_the_segments_are(mode: dict[str, Any]) -> None:
    """They are read back by a writer that lost the slot, too: what it dropped is judged again."""
    world = DedupeWorld(mode)
    world.send(1, 2, 1, 3, 2)
    zombie = holding(world, 5, ZSTD)
    holding(world, 2, GZIP).daemon.request_shutdown()
    zombie.daemon.request_shutdown()
    world.archive_all(compression=GZIP)
    assert (extensions(world), world.kept(), world.dropped()) == ({"zst"}, [1, 2, 3], [1, 2])


def test_watermarks_are_found_beside_the_segment_that_a_tail_row_names() -> None:
    """The row says minute and position, and the archive how the name ends."""
    world = DedupeWorld(WATERMARK)
    world.send(1, 2, 3)
    world.archive_all(compression=ZSTD)
    for row in world.table.tails.values():
        del row["watermarks"]
    world.send(2, 4)
    worker = world.worker()
    worker.daemon.start()
    listed = [key for verb, key in worker.store.log if verb == "LIST" and key.count("/") < _SEARCHED]
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert (world.kept(), world.dropped(), listed) == ([1, 2, 3, 4], [2], [])


@pytest.mark.parametrize("begun", Compression)
def test_a_segment_of_the_other_compression_stops_the_shard(world: World, begun: Compression) -> None:
    """Somebody wrote into slots of his own: more of them may be there, and no conditional write would meet them."""
    world.archive_all(compression=begun)
    world.put(2)
    (other,) = set(Compression) - {begun}
    for key in [key for key in world.bucket.keys(PREFIX) if ".jsonl" in key]:
        body, fields = world.bucket.body(key), world.bucket.metadata(key)
        world.bucket.delete(key)
        world.bucket.place(key.replace(begun.extension, other.extension), body, fields)
    worker = world.started()
    with pytest.raises(SafetyRefusal, match=f"not of the archive's compression, {begun}"):
        worker.daemon.deliver()


@pytest.mark.parametrize(
    ("number", "compression"), [(1, "zstd"), (2, "gzip"), (2, None), (2, "brotli"), (1, "brotli"), (2, 1)]
)
def test_a_record_whose_format_and_compression_disagree_is_refused(
    world: World, number: int, compression: object
) -> None:
    """Versions that know format 1 alone would pass over the field: it is never believed there."""
    world.archive_all()
    stored = json.loads(world.bucket.body(RECORD)) | {"format": number, "compression": compression}
    if compression is None:
        del stored["compression"]
    with pytest.raises(FormatError, match=r"_application\.json does not parse"):
        decode_marker(json.dumps(stored).encode(), ApplicationRecord, RECORD)


def test_a_record_of_a_later_format_is_refused_whatever_it_says(world: World) -> None:
    """A compression that nobody knows yet: the next step is to upgrade, not to restore the object."""
    world.archive_all()
    stored = json.loads(world.bucket.body(RECORD)) | {"format": 3, "compression": "brotli"}
    with pytest.raises(FormatError, match="format 3") as caught:
        decode_marker(json.dumps(stored).encode(), ApplicationRecord, RECORD)
    assert caught.value.next_step == "upgrade Minutebook"


@pytest.mark.parametrize("compression", Compression)
def test_the_record_comes_back_as_it_was_stored(world: World, compression: Compression) -> None:
    """In either format."""
    world.archive_all(compression=compression)
    found = decode_marker(world.bucket.body(RECORD), ApplicationRecord, RECORD)
    assert (found.compression, decode_marker(encode_marker(found), ApplicationRecord, RECORD)) == (compression, found)


@pytest.mark.parametrize("compression", Compression)
def test_a_name_says_how_it_is_compressed(compression: Compression) -> None:
    """As Athena and other tools take it: by its end."""
    assert compression_of(segment_key("raw/", "s", 1, Position(1), compression)) is compression


@pytest.mark.parametrize("key", ["", "a.jsonl", "a.gz.json", "a.zstd", "a.GZ"])
def test_a_name_that_does_not_say_it_is_refused(key: str) -> None:
    """Rather than guessed at."""
    with pytest.raises(FormatError):
        compression_of(key)
