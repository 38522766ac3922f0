"""What is stored beside the segments: what of it is not believed is named, and nothing else stops."""

import json

import pytest

from consumer.stream.port import StreamIdentity
from minutebook.coverage.chain import Reason
from minutebook.coverage.intervals import Interval
from minutebook.coverage.verdict import State
from minutebook.format.aggregate import LAST_HASH_KEY
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import judge_archive
from minutebook.proof.statements import read_statements
from tests.fakes.archive_scene import PREFIX, MemoryScene
from tests.fakes.stream import DAY_MS

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
    markers = found.of(SHARD)
    assert [markers.opened, markers.end] == [None, None]
    assert (found.first is None, markers.start is None) == (name == "first.json", name == "start.json")


@pytest.mark.parametrize(
    ("damaged_day", "reason"), [("2026-11-20", Reason.NOT_SEEN), ("2026-11-10", Reason.BROKEN_CHAIN)]
)
def test_what_a_tombstone_that_cannot_be_read_may_name_is_not_lost(damaged_day: str, reason: Reason) -> None:
    """A segment of that day is not there: it may have been expired. Elsewhere what is not there is gone."""
    day = Day.parse("2026-11-20")
    scene = MemoryScene(SHARD)
    scene.settle(StreamIdentity("a", day.shift(-3).begin_ms, DAY_MS))
    scene.first(SHARD)
    scene.begin(SHARD)
    minutes = [day.first_minute + minute for minute in (-9, 5, 1443)]
    scene.chain(SHARD, minutes, missing=[1])
    scene.bucket.place(f"{PREFIX}_expired/{damaged_day}.json", b"")
    scope = Interval(day.shift(1).begin_ms, day.shift(1).begin_ms + 60 * MINUTE_MS)
    found = judge_archive(scene.retrying, PREFIX, ProofQuery(scope, scene.begin_ms, scope.until_ms))
    assert reason in found.verdict.reasons
    assert (found.verdict.state is State.DEFECT) == (reason is Reason.BROKEN_CHAIN)
