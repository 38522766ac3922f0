"""Finding shards, and the ends of chains, from names: what is found, in spite of what, at what price."""

from collections.abc import Mapping

import pytest

from consumer.archived.chain_ends import ChainEnd, find_ends
from consumer.archived.shard_markers import read_archived_shards
from minutebook.errors import FormatError, StoreUnavailable
from minutebook.format.coverage_markers import first_shards_key, opened_marker_key
from minutebook.format.keys import segment_key
from minutebook.format.position import Position
from tests.fakes.archive_scene import PREFIX, MemoryScene
from tests.fakes.clock import START_MS
from tests.fakes.memory_store import EndlessFault, Fault, PlannedFaults
from tests.fakes.shard import SHARD

A, B = "shardId-000000000000", "shardId-000000000001"
NOW = START_MS // 60_000
HOUR, DAY = 60, 1440


@pytest.fixture
def scene() -> MemoryScene:
    """Return an empty archive."""
    return MemoryScene()


def ends(scene: MemoryScene, shards: Mapping[str, int], newest: int = NOW) -> dict[str, ChainEnd]:
    """Search from `newest` back."""
    return find_ends(scene.retrying, PREFIX, shards, newest)


def test_the_tail_is_the_last_segment(scene: MemoryScene) -> None:
    """Of each shard, in whatever minute."""
    of_a, of_b = scene.chain(A, [NOW - 3, NOW - 2, NOW]), scene.chain(B, [NOW - 90, NOW - 70])
    found = ends(scene, {A: 0, B: 0})
    assert {shard: end.tail.last for shard, end in found.items()} == {A: of_a[-1], B: of_b[-1]}


def test_the_tail_is_the_greatest_position_not_the_newest_minute(scene: MemoryScene) -> None:
    """Arrival times stepped back by an hour and a half: the last segment lies in an older minute."""
    lasts = scene.chain(A, [*range(NOW - 6, NOW), NOW - 90])
    assert ends(scene, {A: 0})[A].tail.last == lasts[-1]


def test_a_tail_further_back_than_the_walk_gives_an_older_end(scene: MemoryScene) -> None:
    """Which is still the end of a segment, so a start there is right and only costs reading."""
    lasts = scene.chain(A, [NOW - 1, NOW, NOW - 2 * DAY])
    assert ends(scene, {A: 0})[A].tail.last == lasts[1]


def test_a_quiet_shard_is_found_across_empty_years(scene: MemoryScene) -> None:
    """Empty years, months, days and hours cost nothing: a request for each level, and one for the hour."""
    lasts = scene.chain(A, [NOW - 4 * 365 * DAY])
    assert ends(scene, {A: 0})[A].tail.last == lasts[-1]
    assert scene.store.requests["LIST"] <= 5


def test_a_busy_hour_is_listed_once_for_all_shards(scene: MemoryScene) -> None:
    """Three probes of year, month and day, and the hours within reach."""
    for number in range(20):
        scene.chain(f"shardId-{number:012d}", range(NOW - 5 * HOUR, NOW))
    assert len(ends(scene, {f"shardId-{number:012d}": 0 for number in range(20)})) == 20
    assert scene.store.requests["LIST"] <= 3 + 4 * 2


def test_a_shard_without_segments_is_left_out(scene: MemoryScene) -> None:
    """And ends the walk at the oldest minute that it could have."""
    scene.chain(A, range(NOW - 30 * HOUR, NOW))
    assert list(ends(scene, {A: 0, B: NOW - 3 * HOUR})) == [A]
    assert scene.store.requests["LIST"] <= 3 + 5


def test_the_end_of_an_older_part_is_found(scene: MemoryScene) -> None:
    """The walk begins where it is told: what is newer does not count."""
    lasts = scene.chain(A, range(NOW - 10, NOW))
    assert ends(scene, {A: 0}, NOW - 6)[A].tail.last == lasts[4]


def test_foreign_names_are_passed_by(scene: MemoryScene) -> None:
    """Notes that somebody left among the minutes."""
    lasts = scene.chain(A, [NOW])
    folder = segment_key(PREFIX, A, NOW, Position(1)).rpartition("/")[0]
    scene.bucket.place(f"{folder}/notes.txt", b"")
    scene.bucket.place(f"{PREFIX}2099/readme", b"")
    assert ends(scene, {A: 0})[A].tail.last == lasts[-1]


def test_a_whole_chain_has_no_holes(scene: MemoryScene) -> None:
    """Each names the one before it."""
    lasts = scene.chain(A, range(NOW - 10, NOW))
    found = ends(scene, {A: 0})[A]
    assert (found.holes, found.before_holes.last) == ((), lasts[-1])


def test_a_missing_segment_is_a_hole(scene: MemoryScene) -> None:
    """Known from the `after` of the next one; the place before it is where to read again from."""
    lasts = scene.chain(A, range(NOW - 10, NOW), missing=[8])
    found = ends(scene, {A: 0})[A]
    assert (found.holes, found.before_holes.last, found.tail.last) == ((lasts[7],), lasts[7], lasts[9])


def test_a_segment_that_names_an_older_one_is_no_hole(scene: MemoryScene) -> None:
    """A worker that KCL gave an older checkpoint, behind what retention had trimmed: found by the simulation.

    Nothing that it names is missing. `restore` went back before it, and `status` told of a missing segment.
    """
    lasts = scene.chain(A, range(NOW - 4, NOW))
    keys = scene.bucket.keys(PREFIX)
    scene.bucket.place(keys[-1], b"", {**scene.bucket.metadata(keys[-1]), "after": str(lasts[0])})
    found = ends(scene, {A: 0})[A]
    assert (found.holes, found.before_holes.last) == ((), lasts[-1])


def test_a_segment_that_contradicts_its_name_is_refused(scene: MemoryScene) -> None:
    """Doubt about a chain's end is not an end."""
    scene.chain(A, [NOW])
    (key,) = scene.bucket.keys(PREFIX)
    scene.bucket.place(key, b"", {**scene.bucket.metadata(key), "first": "999:0"})
    with pytest.raises(FormatError, match="another segment"):
        ends(scene, {A: 0})


@pytest.mark.parametrize("verb", ["LIST", "HEAD"])
def test_a_passing_fault_is_asked_again(scene: MemoryScene, verb: str) -> None:
    """Reads may be repeated."""
    lasts = scene.chain(A, [NOW])
    scene.store.faults = PlannedFaults(Fault.THROTTLED, Fault.ANSWER_LOST, verb=verb)
    assert ends(scene, {A: 0})[A].tail.last == lasts[-1]


def test_an_outage_is_an_error_never_an_empty_archive(scene: MemoryScene) -> None:
    """Else restore would begin every shard anew."""
    scene.chain(A, [NOW])
    scene.store.faults = EndlessFault(Fault.THROTTLED)
    with pytest.raises(StoreUnavailable):
        ends(scene, {A: 0})


def test_what_tells_of_shards_is_no_chain() -> None:
    """The list of first shards, and a shard that was opened and never held a record."""
    scene = MemoryScene(SHARD)
    scene.begin(SHARD)
    for key in (first_shards_key(PREFIX), opened_marker_key(PREFIX, "shardId-000000000007")):
        scene.bucket.place(key, b"{}")
    assert list(read_archived_shards(scene.retrying, PREFIX)) == [SHARD]
