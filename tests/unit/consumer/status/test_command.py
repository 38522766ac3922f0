"""`status`: what is said of each shard and of leases, in which form, and while a service is away or another's."""

import itertools

import msgspec
import pytest

from consumer.leases.rows import Lease
from consumer.status.command import iter_reports, unasked_services_code
from consumer.status.report import Lag, LeaseWatch, Observation, shard_statuses
from consumer.status.screen import render
from consumer.stream.port import ShardInfo, StreamIdentity
from minutebook.errors import StreamUnavailable
from minutebook.format.metadata import Continuity
from minutebook.format.minute import minute_text
from minutebook.format.position import Position
from minutebook.format.tombstone import FOLDER
from minutebook.terminal import TerminalConsole
from tests.fakes.archive_scene import PREFIX, end_marker
from tests.fakes.clock import START_MS
from tests.fakes.memory_store import EndlessFault, Fault
from tests.fakes.shard import FakeShard
from tests.fakes.status_scene import LEASE, NOW, S0, S1, StatusScene
from tests.fakes.world import settings


def test_a_shard_is_described() -> None:
    """Owner, checkpoint, and the end of its archive."""
    scene = StatusScene(LEASE)
    scene.archive(NOW - 1)
    shard = scene.only()
    assert (shard.shard, shard.state, shard.owner, shard.checkpoint) == (S0, "open", "w1", "1005:2")
    assert (shard.tail, shard.tail_minute) == ("1005:2", "2026-11-21T10:15Z")
    assert (shard.gaps, shard.notes) == ([], [])


def test_nothing_is_written() -> None:
    """A look sends no PUT, and puts no row."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    scene.store.requests.clear()
    scene.report()
    assert scene.store.requests["PUT"] == 0
    assert scene.table.puts == []


def test_a_lease_that_moves_between_the_looks_is_held() -> None:
    """And was renewed after the first of them."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    scene.clock.on_sleep = lambda _: scene.table.seed(LEASE._replace(counter=8))
    shard = scene.only()
    assert (shard.lease, shard.lease_age_seconds) == ("held", 4.0)


def test_a_lease_that_stands_still_for_a_moment_is_unknown() -> None:
    """Two looks closer than a failover prove nothing."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    shard = scene.only()
    assert (shard.lease, shard.lease_age_seconds) == ("unknown", None)


def test_a_lease_that_stands_still_over_the_failover_time_is_expired() -> None:
    """Watching longer tells."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    reports = list(itertools.islice(iter_reports(scene.sources(), 10), 4))
    assert [report.shards[0].lease for report in reports] == ["unknown", "unknown", "expired", "expired"]


@pytest.mark.parametrize(
    ("lease", "state"),
    [(LEASE._replace(owner=None), "free"), (LEASE._replace(checkpoint="SHARD_END"), "done")],
)
def test_a_lease_that_nobody_renews_has_its_own_word(lease: Lease, state: str) -> None:
    """Unowned rows, and rows of shards that have ended."""
    watch = LeaseWatch(10)
    watch.note({S0: lease}, 0)
    assert watch.state(lease, 60) == (state, None)


def test_a_shard_without_a_row_is_missing_one() -> None:
    """The table is there, its row is not."""
    scene = StatusScene(LEASE)
    scene.stream.shards[S1] = FakeShard(S1)
    scene.archive(NOW)
    assert [shard.lease for shard in scene.report().shards] == ["unknown", "missing"]


def test_a_shard_that_the_stream_forgot_is_unlisted() -> None:
    """Its row or its archive still names it."""
    scene = StatusScene(LEASE._replace(shard_id=S1))
    scene.archive(NOW)
    scene.stream.shards.clear()
    assert [(shard.shard, shard.state) for shard in scene.report().shards] == [(S0, "unlisted"), (S1, "unlisted")]


def test_parents_and_children_are_named() -> None:
    """From ListShards."""
    scene = StatusScene()
    scene.stream.shards[S0].close(S1)
    scene.stream.shards[S1] = FakeShard(S1)
    scene.stream.shards[S1].parents = (S0,)
    parent, child = scene.report().shards
    assert (parent.state, parent.children, child.parents) == ("closed", [S1], [S0])


def test_a_proven_end_is_not_behind() -> None:
    """And its tail is known without a search."""
    scene = StatusScene()
    scene.hours = 0
    (last,) = scene.archive(NOW)
    scene.stream.shards[S0].close()
    scene.end(S0, last)
    scene.store.requests.clear()
    shard = scene.only()
    assert (shard.tail, shard.behind_seconds, shard.behind_source) == ("1005:2", 0, "end")
    assert scene.store.requests["HEAD"] == 0


def test_an_end_that_was_not_read_is_named() -> None:
    """Nothing is left to wait for, but not all of it is archived."""
    scene = StatusScene()
    (last,) = scene.archive(NOW)
    scene.stream.shards[S0].close()
    scene.put_end(msgspec.structs.replace(end_marker(S0, last), proof="expired"))
    shard = scene.only()
    assert (shard.behind_seconds, shard.behind_source) == (0, "end")
    assert ["its end is not proven" in note for note in shard.notes] == [True]


def test_a_missing_segment_is_a_gap() -> None:
    """Named by the position before it."""
    scene = StatusScene()
    scene.archive(NOW - 2, NOW - 1, NOW, missing=[1])
    assert scene.only().gaps == ["missing after 1005:2"]


def test_a_doubtful_continuity_is_a_gap() -> None:
    """What the writer could not prove."""
    scene = StatusScene()
    scene.archive(NOW, continuity=Continuity.UNPROVEN)
    assert scene.only().gaps == ["unproven before 1000:0"]


def test_a_checkpoint_beyond_the_archive_is_said() -> None:
    """It never may: objects were deleted, or this is another prefix."""
    scene = StatusScene(LEASE._replace(checkpoint=Position(2000)))
    scene.archive(NOW)
    assert "beyond the archive" in scene.only().notes[0]


def test_an_unproven_shard_end_is_said() -> None:
    """SHARD_END in the table, and no end.json."""
    scene = StatusScene(LEASE._replace(checkpoint="SHARD_END"))
    scene.archive(NOW)
    assert "end.json is missing" in scene.only().notes[0]


def test_a_quiet_shard_says_how_far_was_looked() -> None:
    """The walk back is bounded."""
    scene = StatusScene()
    scene.archive(NOW - 10 * 1440)
    assert "--days" in scene.only().notes[0]
    scene.days = 11
    assert scene.only().notes == []


def test_a_damaged_segment_does_not_hide_the_rest() -> None:
    """It is a note of its shard."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    (key,) = (key for key in scene.bucket.keys(PREFIX) if key.endswith(".gz"))
    scene.bucket.place(key, b"")
    assert "not a segment" in scene.only().notes[0]


def test_the_lag_is_taken_as_read() -> None:
    """Seconds and their source."""
    info = ShardInfo(S0, "0", "1", (), (), closed=False)
    observation = Observation({S0: info}, {}, {}, {}, None, {S0: Lag(12.34, "record")})
    (shard,) = shard_statuses(observation, LeaseWatch(10), 0)
    assert (shard.behind_seconds, shard.behind_source) == (12.3, "record")


def test_json_carries_whole_positions() -> None:
    """Machines get what people are spared."""
    scene = StatusScene(LEASE._replace(checkpoint=Position(10**55)))
    decoded = msgspec.json.decode(msgspec.json.encode(scene.report()))
    assert decoded["shards"][0]["checkpoint"] == f"{10**55}:0"
    assert decoded["format"] == 1


def test_the_screen_shows_problems_and_rows() -> None:
    """With the next step."""
    scene = StatusScene(LEASE)
    console = TerminalConsole(width=160)
    with console.capture() as capture:
        console.print(render(scene.report()))
    text = capture.get()
    assert all(word in text for word in (S0, "w1", "1005:2", "nothing is archived", "→ start with"))


@pytest.mark.parametrize("damage", [b"", b"gone", b'{"format": 9}'])
def test_a_tombstone_that_cannot_be_read_is_said(damage: bytes) -> None:
    """Beside the shard whose chain may need it, and as a problem of its own."""
    scene = StatusScene(LEASE)
    ends = scene.archive(NOW - 9, NOW - 8, NOW - 7, missing=[1])
    key = f"{PREFIX}{FOLDER}2026-11-21.json"
    scene.bucket.place(key, damage)
    report = scene.report()
    assert report.shards[0].tail == str(ends[2])
    assert [key in gap for gap in report.shards[0].gaps] == [True]
    assert any(key in problem.sentence for problem in report.problems)
    assert report.coverage is not None
    assert report.coverage.until == minute_text(NOW - 10).replace("Z", ":00.000Z")


def test_a_missing_table_is_said_and_no_failure() -> None:
    """With what to do."""
    scene = StatusScene()
    scene.archive(NOW)
    report = scene.report()
    assert ("there is none" in report.problems[0].sentence, unasked_services_code(report)) == (True, 0)
    assert report.shards[0].lease == "unknown"


def test_an_archive_that_was_never_begun_is_said() -> None:
    """The stream's shards and the leases are shown all the same."""
    report = StatusScene(LEASE).report()
    assert ("nothing is archived" in report.problems[0].sentence, unasked_services_code(report)) == (True, 0)
    assert report.shards[0].checkpoint == "1005:2"


def test_another_streams_archive_is_refused_by_its_code() -> None:
    """Exit code 6, and no tail of the other stream is shown."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    scene.stream.recreate(START_MS)
    report = scene.report()
    assert (unasked_services_code(report), report.shards[0].tail) == (6, None)


def test_another_applications_leases_are_not_compared_with_the_archive() -> None:
    """Exit code 6, the leases alone, and what to correct."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    report = scene.report(settings=settings(application_name="another"))
    assert (unasked_services_code(report), report.shards[0].tail) == (6, None)
    assert "begun by the application app" in report.problems[0].sentence


def test_an_unavailable_store_leaves_the_leases() -> None:
    """Exit code 5."""
    scene = StatusScene(LEASE)
    scene.store.faults = EndlessFault(Fault.THROTTLED)
    report = scene.report()
    assert (unasked_services_code(report), report.shards[0].owner) == (5, "w1")


def test_an_unavailable_stream_leaves_the_archive() -> None:
    """Exit code 5, and the archive's end is shown."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    scene.stream.unavailable = True
    report = scene.report()
    assert (unasked_services_code(report), report.shards[0].tail) == (5, "1005:2")


def test_an_unavailable_table_leaves_the_archive() -> None:
    """Exit code 5; it is not called missing."""
    scene = StatusScene()
    scene.archive(NOW)
    scene.table.unavailable = True
    report = scene.report()
    assert (unasked_services_code(report), len(report.problems), report.shards[0].tail) == (5, 1, "1005:2")


def test_an_unreadable_row_is_a_problem() -> None:
    """KCL ignores it silently, so it must be seen here."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    assert scene.table.items is not None
    del scene.table.items[S0]["leaseCounter"]
    report = scene.report()
    assert ("leaseCounter" in report.problems[0].sentence, report.shards[0].lease) == (True, "missing")


def refuse() -> StreamIdentity:
    """Fail as Kinesis does."""
    raise StreamUnavailable("Kinesis stayed unavailable", next_step="wait")


def test_everything_down_is_no_crash() -> None:
    """The report names each of them."""
    scene = StatusScene()
    scene.table.unavailable = True
    scene.store.faults = EndlessFault(Fault.THROTTLED)
    report = scene.report(describe=refuse)
    assert len(report.problems) == 3
