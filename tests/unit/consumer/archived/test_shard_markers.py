"""The markers that the archive holds of each shard's chain."""

from consumer.archived.shard_markers import read_archived_shards
from minutebook.format.coverage_markers import first_shards_key, opened_marker_key
from tests.fakes.archive_scene import PREFIX, MemoryScene
from tests.fakes.shard import SHARD


def test_what_tells_of_shards_is_no_chain() -> None:
    """The list of first shards, and a shard that was opened and never held a record."""
    scene = MemoryScene(SHARD)
    scene.begin(SHARD)
    for key in (first_shards_key(PREFIX), opened_marker_key(PREFIX, "shardId-000000000007")):
        scene.bucket.place(key, b"{}")
    assert list(read_archived_shards(scene.retrying, PREFIX)) == [SHARD]
