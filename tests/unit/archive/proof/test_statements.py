"""What is stored beside the segments: what of it is not believed is named, and nothing else stops."""

import json

import pytest

from archive.format.aggregate import LAST_HASH_KEY
from archive.proof.stated import read_statements
from tests.fakes.archive_scene import PREFIX, MemoryScene

SHARD = "shardId-000000000000"


@pytest.mark.parametrize("name", ["start.json", "opened.json", "end.json", "first.json"])
def test_a_marker_that_names_its_own_shard_as_kin_is_not_believed(name: str) -> None:
    """It would let the shard's time begin, or end, with its own evidence: the object is named, and left aside."""
    scene = MemoryScene(SHARD)
    scene.first(SHARD)
    scene.begin(SHARD)
    kin = {"parents": [SHARD]} if name != "end.json" else {"children": [SHARD]}
    common = {"format": 1, "shard": SHARD, "writer": "w", "written_at": "", **kin}
    keys = {"starting_hash_key": "0", "ending_hash_key": str(LAST_HASH_KEY)}
    bodies: dict[str, dict[str, object]] = {
        "start.json": {**common, **keys, "sentinel": "TRIM_HORIZON", "first": "1:0"},
        "opened.json": {**common, **keys, "sentinel": "TRIM_HORIZON", "opened_at": ""},
        "end.json": {**common, "last": None, "proof": "read"},
        "first.json": {**common, "shards": [{"shard": SHARD, **keys, **kin}]},
    }
    key = f"{PREFIX}_shards/{name}" if name == "first.json" else f"{PREFIX}_shards/{SHARD}/{name}"
    scene.bucket.place(key, json.dumps(bodies[name]).encode())
    found = read_statements(scene.retrying, PREFIX, [])
    assert [(problem.key, "its own parent or child" in problem.why) for problem in found.problems] == [(key, True)]
    stated = found.of(SHARD)
    assert [stated.opened, stated.end] == [None, None]
    assert (found.first is None, stated.start is None) == (name == "first.json", name == "start.json")
