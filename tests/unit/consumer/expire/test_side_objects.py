"""`expire` and what lies beside segments: it goes with its segment, and stays where somebody may need it."""

import gzip

import pytest

from consumer.dedupe.watermarks import WATERMARKS_BESIDE, Watermarks, load_watermarks
from minutebook.compression import Compression
from minutebook.errors import FormatError
from minutebook.format.keys import (
    DUPLICATES,
    WATERMARKS,
    duplicates_key,
    parse_segment_key,
    segment_key,
    slot_beside,
    slot_of,
    watermarks_key,
)
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.record import Record, encode_dropped_line
from tests.fakes.archive_scene import PREFIX
from tests.fakes.expire_scene import S0, ExpireScene

CLAIMED = f"stream/{S0}/4:0"
NUMBERED = "producer p number 4"


def add_dropped(scene: ExpireScene, key: str, *originals: str, writer: str = "w") -> str:
    """Put a duplicates object beside a segment; returns its key."""
    parsed = parse_segment_key(PREFIX, key)
    lines = b"".join(
        encode_dropped_line(parsed.shard_id, Record(str(number), 0, "k", 0, b"{}"), original)
        for number, original in enumerate(originals, start=1)
    )
    beside = duplicates_key(PREFIX, parsed.shard_id, parsed.minute, parsed.first, writer)
    scene.bucket.place(beside, gzip.compress(lines))
    return beside


def add_watermarks(scene: ExpireScene, key: str) -> str:
    """Put a watermarks object beside a segment, which then names it; returns its key."""
    parsed = parse_segment_key(PREFIX, key)
    beside = watermarks_key(PREFIX, parsed.shard_id, parsed.minute, parsed.first, "w-1")
    state = Watermarks()
    state.take("p", 7, ordered=False)
    scene.bucket.place(beside, state.encode().encode())
    scene.bucket.place(key, key.encode(), {**scene.bucket.metadata(key), "watermarks": WATERMARKS_BESIDE})
    return beside


def test_what_lies_beside_expired_segments_goes() -> None:
    """Dropped lines whose originals the verdict vouches for, and watermarks that no segment names."""
    scene = ExpireScene()
    old = [scene.add(40, minute) for minute in range(3)]
    beside = [add_dropped(scene, old[0], CLAIMED, CLAIMED), add_watermarks(scene, old[1])]
    new = scene.add(30)
    scene.publish(40)
    code, text = scene.expire()
    assert (code, "2 object(s) beside" in text) == (0, True)
    assert not set(beside) & set(scene.bucket.keys(PREFIX))
    assert scene.raw() == [new]


def test_watermarks_of_a_segment_that_stays_can_be_read() -> None:
    """A start after the expiry finds the state at the chain's end."""
    scene = ExpireScene()
    gone, kept = scene.add(40), scene.add(40, 1)
    lost, needed = add_watermarks(scene, gone), add_watermarks(scene, kept)
    dropped = add_dropped(scene, kept, CLAIMED)
    scene.publish(40)
    scene.expire()
    left = scene.bucket.keys(PREFIX)
    assert (lost in left, needed in left, dropped in left) == (False, True, True)
    tail = SegmentMetadata.decode(scene.bucket.metadata(kept))
    state = load_watermarks(scene.retrying, PREFIX, tail)
    assert state is not None
    assert state.encode() == '[["p",[[7,7]]]]'


def test_lines_that_name_a_producers_number_stay() -> None:
    """Nobody can say whether that number is archived: the line may be the only one."""
    scene = ExpireScene()
    old = [scene.add(40, minute) for minute in range(2)]
    kept = [add_dropped(scene, old[0], NUMBERED), add_dropped(scene, old[1], CLAIMED, NUMBERED)]
    scene.add(30)
    scene.publish(40)
    scene.expire()
    assert set(kept) <= set(scene.bucket.keys(PREFIX))


def test_a_duplicates_object_that_cannot_be_read_stays() -> None:
    """What it holds is not known."""
    scene = ExpireScene()
    damaged = add_dropped(scene, scene.add(40), CLAIMED)
    scene.bucket.place(damaged, b"no gzip")
    scene.add(30)
    scene.publish(40)
    assert scene.expire()[0] == 0
    assert damaged in scene.bucket.keys(PREFIX)


def test_nothing_goes_beside_a_day_that_is_not_expired() -> None:
    """A refused day keeps all: compaction brings lines back from there."""
    scene = ExpireScene()
    beside = add_dropped(scene, scene.add(40), CLAIMED)
    scene.add(30)
    scene.publish(40, "defects")
    assert scene.expire()[0] == 6
    assert beside in scene.bucket.keys(PREFIX)


def test_nothing_goes_beside_a_day_without_tombstone() -> None:
    """A day whose segments somebody else deleted is not an expired day."""
    scene = ExpireScene()
    key = scene.add(40)
    beside = add_dropped(scene, key, CLAIMED)
    scene.add(30)
    scene.bucket.delete(key)
    scene.expire()
    assert beside in scene.bucket.keys(PREFIX)


def test_what_a_losing_writer_left_goes_too() -> None:
    """It lost the slot to a segment that is gone now."""
    scene = ExpireScene()
    key = scene.add(40)
    beside = add_dropped(scene, key, CLAIMED, writer="zombie")
    scene.add(30)
    scene.publish(40)
    scene.expire()
    assert beside not in scene.bucket.keys(PREFIX)


def test_a_foreign_object_beside_stays() -> None:
    """It is somebody's."""
    scene = ExpireScene()
    key = add_dropped(scene, scene.add(40), CLAIMED)
    foreign = f"{key.rpartition('/')[0]}/notes.txt"
    scene.bucket.place(foreign, b"")
    scene.add(30)
    scene.publish(40)
    scene.expire()
    assert (key in scene.bucket.keys(PREFIX), foreign in scene.bucket.keys(PREFIX)) == (False, True)


def test_segments_go_before_what_lies_beside_them() -> None:
    """A crash in between leaves no segment whose watermarks are missing, and the next run ends the work."""
    scene = ExpireScene()
    beside = add_watermarks(scene, scene.add(40))
    scene.add(30)
    scene.publish(40)

    def crash(keys: object) -> None:
        if beside in list(keys):  # type: ignore[call-overload]
            raise FormatError("crash")

    scene.deleter.before = crash
    with pytest.raises(FormatError, match="crash"):
        scene.expire()
    assert len(scene.raw()) == 1
    assert beside in scene.bucket.keys(PREFIX)
    scene.deleter.before = None
    assert scene.expire()[0] == 0
    assert beside not in scene.bucket.keys(PREFIX)


def test_without_apply_nothing_beside_is_deleted() -> None:
    """What an earlier run left is shown."""
    scene = ExpireScene()
    key = scene.add(40)
    scene.add(30)
    scene.publish(40)
    scene.expire()
    beside = add_dropped(scene, key, CLAIMED)
    code, text = scene.expire(rate=None)
    assert (code, "1 object(s) beside segments that are gone would be deleted" in text) == (0, True)
    assert beside in scene.bucket.keys(PREFIX)


def test_the_key_of_what_lies_beside_names_its_slot() -> None:
    """Both kinds, whatever the compression, and nothing else."""
    key = ExpireScene().add(40)
    parsed = parse_segment_key(PREFIX, key)
    place = (PREFIX, parsed.shard_id, parsed.minute, parsed.first, "w-1")
    slot = slot_of(key)
    assert slot == slot_of(segment_key(PREFIX, parsed.shard_id, parsed.minute, parsed.first, Compression.ZSTD))
    assert slot_beside(PREFIX, DUPLICATES, duplicates_key(*place)) == slot
    assert slot_beside(PREFIX, DUPLICATES, duplicates_key(*place, Compression.ZSTD)) == slot
    assert slot_beside(PREFIX, WATERMARKS, watermarks_key(*place)) == slot
    assert slot_beside(PREFIX, DUPLICATES, watermarks_key(*place)) is None
    assert slot_beside(PREFIX, DUPLICATES, f"{PREFIX}{DUPLICATES}x") is None
