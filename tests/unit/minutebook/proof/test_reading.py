"""Coverage as it is read from a store: what is looked for, how far, in which order, and what is not believed."""

import json

import pytest

from consumer.stream.port import StreamIdentity
from minutebook.coverage.chain import Reason
from minutebook.coverage.evidence import EvidenceLink
from minutebook.coverage.intervals import Interval
from minutebook.coverage.topology import ShardRow
from minutebook.coverage.verdict import State
from minutebook.format.aggregate import LAST_HASH_KEY, HashRange
from minutebook.format.coverage_markers import first_shards_key
from minutebook.format.day import Day
from minutebook.format.document import FORMAT
from minutebook.format.keys import start_marker_key
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.read_mark import MarkKind
from minutebook.format.tombstone import ExpiredRun, ExpiredShard, Tombstone, encode_tombstone
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import judge_archive, read_links
from minutebook.proof.sources import Stream
from minutebook.proof.statements import read_statements
from tests.fakes.archive_scene import MemoryScene
from tests.fakes.memory_store import EndlessFault, Fault, FaultOnEachKey
from tests.fakes.stream import DAY_MS
from tests.unit.minutebook.proof.scene import DAY, PREFIX, SHARD, Bucket


def test_a_segment_behind_midnight_covers_the_day() -> None:
    """The first one whose `until` reaches the day's end, however late it comes."""
    bucket = Bucket()
    for hour in (-3, 5, 17, 30):
        bucket.segment(hour)
    assert bucket.judge().verdict.state is State.COVERED
    assert bucket.judge(now=29).verdict.state is State.COVERED  # it is there, whatever the clock says


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.MISSED])
def test_a_listed_document_that_is_read_short_or_missed_once_is_no_damage(fault: Fault) -> None:
    """Markers and tombstones: a second GET finds them whole, and the day is what it was."""
    bucket = Bucket()
    for hour in (-3, 5, 17, 30):
        bucket.segment(hour)
    faults = FaultOnEachKey(fault)
    bucket.store.faults = faults
    assert bucket.judge().verdict.state is State.COVERED
    assert first_shards_key(PREFIX) in faults.struck
    bucket.store.faults = EndlessFault(fault, ["GET"])
    assert bucket.judge().verdict.state is State.UNKNOWN


def test_an_archive_that_merely_stops_is_unknown() -> None:
    """Nothing tells what came behind its last segment."""
    bucket = Bucket()
    for hour in (-3, 5, 10):
        bucket.segment(hour)
    (shard,) = bucket.judge().verdict.shards
    assert (shard.state, shard.gaps[0].interval) == (
        State.UNKNOWN,
        Interval(bucket.at(10) - MINUTE_MS, DAY.end_ms),
    )


def test_a_shard_that_was_quiet_for_weeks_is_found_by_its_marks() -> None:
    """Its last segment lies further back than anybody would search, and each mark names what it stands on."""
    bucket = Bucket(begin_hour=-24 * 60)
    bucket.segment(-24 * 50)
    since = -24 * 50 - 1 / 60
    for hour in range(-24 * 50 + 1, 27, 20):
        bucket.mark(since, hour)
        since = hour
    bucket.mark(since, 27)
    for day in range(1, 50):  # others were busy
        bucket.put(f"{PREFIX}2026/10/{day:02d}/00/00/other", b"")
    bucket.store.log.clear()
    assert bucket.judge().verdict.state is State.COVERED
    assert sum(verb == "LIST" for verb, _ in bucket.store.log) < 120


def test_a_foreign_object_among_earlier_marks_stops_nobody() -> None:
    """It lies on the way back to the last segment, under a day of its own, which reports it."""
    bucket = Bucket(begin_hour=-24 * 60)
    bucket.segment(-24 * 9)
    since = -24 * 9 - 1 / 60
    for hour in range(-24 * 9 + 1, 27, 20):
        bucket.mark(since, hour)
        bucket.put(f"{PREFIX}_read/{DAY.shift(hour // 24)}/{SHARD}/notes-{hour}.txt", b"")
        since = hour
    bucket.mark(since, 27)
    assert bucket.judge().verdict.state is State.COVERED


def test_a_shard_without_a_record_is_covered_by_marks_and_by_what_came_first() -> None:
    """Marks that name no position hold until the first segment, wherever that is."""
    bucket = Bucket()
    bucket.mark(-240, -1, None)
    bucket.mark(-1, 26, None)
    assert bucket.judge().verdict.state is State.COVERED
    bucket.segment(80)
    assert bucket.judge(now=100).verdict.state is State.COVERED


def test_a_missing_segment_is_looked_for_again_before_it_is_missing() -> None:
    """One that is committed, with the next, while the archive is read is no defect."""
    bucket = Bucket()
    for hour in (-3, 5):
        bucket.segment(hour)
    late = bucket.segment(23.9, put=False)
    is_read = False

    def commit(verb: str, key: str) -> None:
        nonlocal is_read
        if verb == "LIST" and key == f"{PREFIX}2026/11/21/00/" and not is_read:
            is_read = True
            bucket.number -= 1
            assert bucket.segment(23.9) == late
            bucket.segment(24.05)

    bucket.store.before = commit
    assert bucket.judge().verdict.state is State.COVERED
    bucket.store.before = None
    bucket.bucket.delete(late)
    judged = bucket.judge()
    assert (judged.verdict.state, judged.verdict.reasons) == (State.DEFECT, (Reason.BROKEN_CHAIN,))


@pytest.mark.parametrize(("until", "writer", "state"), [(-2, "run-1", "covered"), (0, "", "unknown")])
def test_an_expired_day_stands_for_its_segments(until: int, writer: str, state: str) -> None:
    """Unless its tombstone is of a version that did not say by whom and how far."""
    bucket = Bucket()
    gone = [bucket.segment(hour) for hour in (-5, -2)]
    for hour in (3, 20, 25):
        bucket.segment(hour)
    for key in gone:
        bucket.bucket.delete(key)
    until_ms = bucket.at(until) - MINUTE_MS if writer else 0
    run = ExpiredRun(after="AT_TIMESTAMP", first="1:0", last="2:0", segments=2, until_ms=until_ms, writer=writer)
    proven = [(bucket.begin_ms, DAY.begin_ms)] if writer else []
    tombstone = Tombstone(
        format=FORMAT,
        day=str(DAY.shift(-1)),
        generation="g",
        segments=2,
        bytes=2,
        shards={SHARD: ExpiredShard(runs=[run], kept=[], proven=proven)},
        writer="w",
        written_at="",
    )
    bucket.put(f"{PREFIX}_expired/{DAY.shift(-1)}.json", encode_tombstone(tombstone))
    assert bucket.judge().verdict.state == state


def test_a_day_so_far_is_judged_up_to_its_time() -> None:
    """What lies behind it within the day covers it."""
    bucket = Bucket()
    for hour in (-3, 5, 10):
        bucket.segment(hour)
    so_far = Interval(DAY.begin_ms, bucket.at(9))
    assert bucket.judge(now=11, scope=so_far).verdict.state is State.COVERED
    late = Interval(DAY.begin_ms, bucket.at(10.5))
    assert bucket.judge(now=11, scope=late).verdict.state is State.UNKNOWN


def test_what_cannot_be_believed_is_named() -> None:
    """A foreign object, a marker that does not parse, one of another shard; the rest is read all the same."""
    bucket = Bucket()
    bucket.segment(3)
    bucket.put(f"{PREFIX}_shards/{SHARD}/notes.txt", b"")
    bucket.put(f"{PREFIX}_shards/{SHARD}/end.json", b"{")
    bucket.put(f"{PREFIX}_shards/shardId-9/start.json", bucket.bucket.body(start_marker_key(PREFIX, SHARD)))
    bucket.put(f"{PREFIX}_read/{DAY}/{SHARD}/x", b"")
    found = read_statements(bucket.retrying, PREFIX, [DAY])
    assert {(problem.name, problem.is_foreign) for problem in found.problems} == {
        ("notes.txt", True),
        ("end.json", False),
        ("start.json", False),
        ("x", True),
    }
    assert found.of(SHARD).start is not None
    links = read_links(bucket.retrying, PREFIX, Interval(DAY.begin_ms, DAY.end_ms))
    assert [type(link) for link in links[SHARD]] == [EvidenceLink]


def test_what_others_put_before_the_segments_hides_none() -> None:
    """Fifty objects whose names come first, and a segment that no hint leads to."""
    bucket = Bucket()
    for number in range(50):
        bucket.put(f"{PREFIX}.tmp/{number:03d}", b"")
    bucket.segment(-9)
    bucket.segment(5)
    bucket.segment(30, since=4.9)
    assert Reason.BROKEN_CHAIN not in bucket.judge().verdict.reasons


def test_an_expired_day_says_nothing_against_marks_of_the_day_before() -> None:
    """Its records arrived on it, however late on the day before a quiet shard was read."""
    bucket = Bucket()
    bucket.segment(-3)
    for since, until in ((-3.02, 12), (12, 23.9), (23.9, 25)):
        bucket.mark(since, until)
    run = ExpiredRun(after="1:0", first="2:0", last="3:0", segments=2, until_ms=bucket.at(44), writer="run-3")
    shard = ExpiredShard(runs=[run], kept=[], proven=[(bucket.at(23.9), bucket.at(49))])
    day = str(DAY.shift(1))
    tombstone = Tombstone(
        format=1, day=day, generation="g", segments=2, bytes=1, shards={SHARD: shard}, writer="w", written_at=""
    )
    bucket.put(f"{PREFIX}_expired/{day}.json", encode_tombstone(tombstone))
    assert bucket.judge(now=80).verdict.state is State.COVERED


@pytest.mark.parametrize(
    ("gone", "from_hour", "state"),
    [(None, 17 - 1 / 60, "covered"), (17, 17 - 1 / 60, "unknown"), (None, None, "unknown")],
)
def test_an_expired_day_proves_the_end_of_the_day_before_it(
    gone: float | None, from_hour: float | None, state: str
) -> None:
    """Where the last segment is there that its first one followed; its tombstone says since when."""
    bucket = Bucket()
    keys = {hour: bucket.segment(hour) for hour in (-3, 5, 17)}
    run = ExpiredRun(
        after="3:0",
        first="4:0",
        last="5:0",
        segments=2,
        until_ms=bucket.at(44),
        writer="run-5",
        from_ms=None if from_hour is None else bucket.at(from_hour),
        arrival_min_ms=bucket.at(30),
    )
    shard = ExpiredShard(runs=[run], kept=[], proven=[(bucket.at(17 + 1 / 30), bucket.at(49))])
    day = str(DAY.shift(1))
    tombstone = Tombstone(
        format=1, day=day, generation="g", segments=2, bytes=1, shards={SHARD: shard}, writer="w", written_at=""
    )
    bucket.put(f"{PREFIX}_expired/{day}.json", encode_tombstone(tombstone))
    bucket.number = 5
    bucket.segment(50)
    if gone is not None:
        bucket.bucket.delete(keys[17])
    assert bucket.judge(now=80).verdict.state == state


def test_the_digest_of_what_was_read_stays_what_it_was() -> None:
    """It names published audits: another text for the same evidence would publish every day anew.

    It is made of the names of classes, too: of links, marks, positions, intervals and rows of ListShards.
    """
    bucket = Bucket()
    for hour in (-27, -24, -24 - 1 / 60, 5, 17, 30):
        bucket.segment(hour)
    bucket.mark(-24 - 1 / 60, 24, number=1)
    rows = (ShardRow(SHARD, HashRange(0, 9), frozenset({"parent"}), frozenset()),)
    query = ProofQuery(Interval(DAY.begin_ms, DAY.end_ms), bucket.begin_ms, bucket.at(48), Stream(rows, leased=rows))
    digest = judge_archive(bucket.retrying, PREFIX, query).facts.digest
    assert digest == "8f528f9ab76769b919132049c7b6f903ed462d47dbd29c779e3bf795c67bc2b6"


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


def test_what_the_first_segment_behind_an_outage_stands_on_may_carry_the_next_day() -> None:
    """Stamps step back over midnight: nothing is missing."""
    bucket = Bucket()
    for hour in (-3, 5, 48, 48 - 1 / 60):
        bucket.segment(hour)
    judged = bucket.judge(now=72)
    assert judged.verdict.reasons == (Reason.UNDECIDED,)
    assert len(judged.facts.shards[SHARD].chain.links) == 4


def test_what_a_quiet_day_stands_on_may_carry_the_day_before_its_neighbour() -> None:
    """The same on the other side: the nearest segment by its number is not the last of the chain."""
    bucket = Bucket()
    for hour in (-27, -24, -24 - 1 / 60, 5, 17, 30):
        bucket.segment(hour)
    judged = bucket.judge()
    assert (judged.verdict.state, judged.verdict.reasons) == (State.UNKNOWN, (Reason.UNDECIDED,))


def test_a_mark_at_a_stale_checkpoint_finds_the_segment_that_was_read_again_from_before_it() -> None:
    """Two readers went on from two old checkpoints, and the chain goes on from the older one."""
    bucket = Bucket()
    bucket.segment(-40)
    bucket.segment(-30)
    bucket.segment(5, doubts=1)
    bucket.mark(-200, 30, number=2, continuity=Continuity.UNPROVEN)
    assert Reason.BROKEN_CHAIN not in bucket.judge().verdict.reasons


@pytest.mark.parametrize("until_seconds", [-90, -31, -1, 0, 30])
def test_a_shard_that_closed_at_midnight_covers_the_day_behind_it(until_seconds: int) -> None:
    """It was read to its end a minute before, and its proof names no time of the day."""
    bucket = Bucket()
    for hour in (-24, -5):
        bucket.segment(hour)
    bucket.mark(-5.1, until_seconds / 3600, kind=MarkKind.END)
    assert bucket.judge().coverages[SHARD].is_covered(DAY.begin_ms, DAY.end_ms)


def test_a_stale_mark_names_a_segment_far_before_those_beside_midnight() -> None:
    """What it names is found by its time; the segments between it and the last minute are looked for all the same."""
    bucket = Bucket()
    for hour in (-24, -2, -1, -1 / 60):
        bucket.segment(hour)
    bucket.mark(-24 - 1 / 60, 24, number=1, continuity=Continuity.UNPROVEN)
    judged = bucket.judge()
    assert Reason.BROKEN_CHAIN not in judged.verdict.reasons
    assert len(judged.facts.shards[SHARD].chain.links) == 3


def test_a_lost_segment_beside_midnight_is_a_broken_chain_whatever_a_stale_mark_names() -> None:
    """The other side of it: nothing is excused."""
    bucket = Bucket()
    for hour in (-24, -2):
        bucket.segment(hour)
    bucket.segment(-2 / 60, put=False)
    for hour in (-1 / 60, 3):
        bucket.segment(hour)
    bucket.mark(-24 - 1 / 60, 24, number=1, continuity=Continuity.UNPROVEN)
    assert Reason.BROKEN_CHAIN in bucket.judge().verdict.reasons


def test_each_segment_that_a_mark_names_is_looked_for() -> None:
    """Two stale readers named two segments: the one that its mark finds at once is not the chain's beginning."""
    bucket = Bucket()
    for hour in (-60, -40, -30):
        bucket.segment(hour)
    bucket.segment(5, doubts=1)
    for until, number in ((1, 1), (2, 3)):
        bucket.mark(-60 - 1 / 60, until, number=number, continuity=Continuity.UNPROVEN)
    judged = bucket.judge()
    assert Reason.BROKEN_CHAIN not in judged.verdict.reasons
    assert {link.last.sequence for link in judged.facts.shards[SHARD].chain.links} >= {1, 3, 4}
