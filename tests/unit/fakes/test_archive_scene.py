"""The archive scene: what it writes reads back as an archive, and it breaks exactly what it is asked to break."""

import pytest

from demo.readback import broken_links, read_archive
from minutebook.format.position import Position
from minutebook.format.record import Record
from tests.fakes.archive_scene import PREFIX, MemoryScene

SHARD = "shardId-000000000000"


@pytest.fixture
def scene() -> MemoryScene:
    """Return an empty archive."""
    return MemoryScene()


def test_a_chain_reads_back_whole(scene: MemoryScene) -> None:
    """Keys, metadata and bodies agree, and each segment names the one before it."""
    lasts = scene.chain(SHARD, [3, 1, 2])
    found = sorted(read_archive(scene.store, PREFIX), key=lambda segment: segment.metadata.first)
    assert [segment.metadata.minute for segment in found] == [3, 1, 2]
    assert [segment.metadata.last for segment in found] == lasts
    assert broken_links(segment.metadata for segment in found) == []


def test_a_missing_segment_leaves_a_broken_link(scene: MemoryScene) -> None:
    """The one after it still names it."""
    lasts = scene.chain(SHARD, [1, 2, 3], missing=[1])
    (wrong,) = broken_links(segment.metadata for segment in read_archive(scene.store, PREFIX))
    assert f"follows {lasts[1]}" in wrong


def test_dropped_lines_lie_beside_their_segment(scene: MemoryScene) -> None:
    """The reader finds them, and the span counts them."""
    records = [Record(str(number), 0, "p", 60_000 + number, b"x") for number in (1, 2)]
    scene.segment(SHARD, 1, records, duplicate_of={Position(2): "the first"})
    (found,) = read_archive(scene.store, PREFIX)
    assert [record.duplicate_of for record in found.dropped] == ["the first"]
    assert found.metadata.last == Position(2)


def test_another_object_at_a_key_is_never_passed_over(scene: MemoryScene) -> None:
    """A scene that is written twice must say the same, or a test would look at the wrong one."""
    scene.begin(SHARD)
    scene.begin(SHARD)
    with pytest.raises(AssertionError, match="something else"):
        scene.begin(SHARD, first="7:0")
