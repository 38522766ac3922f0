"""Boundaries from workers' rows: what is published, what holds, what is named as a gap, and what is withdrawn."""

import pytest

from minutebook.completeness.objects import LOOK_BACK_MS
from minutebook.completeness.query import Answer, judge, read_completeness
from minutebook.errors import FormatError
from minutebook.format.boundaries import (
    COMPLETE,
    UNTIL,
    CompleteMarker,
    NamedGap,
    RowsObject,
    ShardRow,
    Since,
    Withdrawal,
    encode_boundary,
    marker_key,
    since_key,
    success_key,
)
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.read_mark import BIRTH, MarkKind, ReadMark
from tests.fakes.boundary_scene import FIVE_MS, HALF, PREFIX, S0, S1, S2, S3, T0, BoundaryScene, row

HOUR_MS = 60 * MINUTE_MS


def begun() -> BoundaryScene:
    """Return an archive whose boundaries 10:15 and 10:20 are published; it is 10:21."""
    scene = BoundaryScene()
    scene.say(s0=row(-5, 5), s1=row(-5, 5))
    scene.clock.advance(360)
    assert scene.publish().published == 2
    return scene


def test_a_boundary_is_published_once_every_shard_has_reached_it() -> None:
    """And the next one is held by the shard whose rows do not reach it."""
    scene = begun()
    scene.say(s0=row(5, 11), s1=row(5, 9))
    scene.clock.advance(360)

    attempt = scene.publish()

    assert attempt.published == 0
    assert [(hold.shard, hold.reached_ms) for hold in attempt.holds] == [(S1, T0 + 9 * MINUTE_MS)]
    scene.say(s1=row(9, 10))
    assert scene.publish().published == 1
    assert scene.boundaries() == ["2026-11-21T1015Z", "2026-11-21T1020Z", "2026-11-21T1025Z"]
    assert scene.marker(T0 + 2 * FIVE_MS).gaps == ()


def test_a_shard_without_a_row_holds_the_first_boundary() -> None:
    """Its worker is of an older version, or has stopped; it is named."""
    scene = BoundaryScene()
    scene.say(s0=row(-5, 5))
    scene.clock.advance(360)

    attempt = scene.publish()

    assert (attempt.newest, [hold.shard for hold in attempt.holds]) == (None, [S1])
    assert scene.bucket.keys(f"{PREFIX}{COMPLETE}") == []


def test_the_first_boundary_is_the_first_one_behind_all_first_rows() -> None:
    """Nothing is said of what arrived before."""
    scene = BoundaryScene()
    scene.say(s0=row(-50, 5), s1=row(-11, 5))
    scene.clock.advance(360)
    scene.publish()

    assert scene.boundaries()[0] == "2026-11-21T1010Z"
    assert scene.marker(T0).since_ms == T0 - 2 * FIVE_MS


def test_a_publisher_that_died_between_two_markers_leaves_a_beginning() -> None:
    """The next one, whoever it is, goes on in order."""
    scene = begun()
    scene.clock.advance(900)
    scene.say(s0=row(5, 20), s1=row(5, 20))
    dying = scene.publisher()
    publish = dying.objects.publish

    def die(marker: object) -> bool:
        publish(marker)  # type: ignore[arg-type]  # passed on
        raise KeyboardInterrupt

    dying.objects.publish = die  # type: ignore[method-assign]  # the process ends behind the request
    with pytest.raises(KeyboardInterrupt):
        dying.attempt(scene.clock.now_ms())

    assert scene.publish().published == 2
    assert scene.boundaries() == [f"2026-11-21T10{minute}Z" for minute in (15, 20, 25, 30, 35)]


def test_of_two_publishers_one_stores_the_marker() -> None:
    """The other one finds it, and both go on from it."""
    scene = begun()
    one, other = scene.publisher(), scene.publisher()
    scene.say(s0=row(5, 10), s1=row(5, 10))
    scene.clock.advance(360)

    published = [one.attempt(scene.clock.now_ms()).published, other.attempt(scene.clock.now_ms()).published]

    assert sorted(published) == [0, 1]


def test_an_unproven_row_is_a_gap_once_it_is_two_minutes_old() -> None:
    """By then a batch that KCL skipped has its marker; the gap goes up to where the row begins."""
    scene = begun()
    scene.clock.advance(300)
    scene.say(s0=row(5, 11), s1=[row(8, 8), row(8, 11)])
    assert scene.publish().published == 0
    scene.clock.advance(125)

    assert scene.publish().published == 1
    [gap] = scene.marker(T0 + 2 * FIVE_MS).gaps
    assert (gap.shard, gap.times_ms) == (S1, (T0 + FIVE_MS, T0 + 8 * MINUTE_MS))


def test_what_no_row_says_is_proven_by_the_archive() -> None:
    """A worker was killed before it stored its rows: its read mark tells what they would have said."""
    scene = begun()
    scene.clock.advance(300)
    continuity = Continuity.PROVEN
    scene.mark(ReadMark(S1, MarkKind.READ, continuity, T0 + 2 * MINUTE_MS, T0 + 9 * MINUTE_MS, None, "w"))
    scene.say(s0=row(5, 11), s1=row(9, 11))
    scene.clock.advance(125)

    assert scene.publish().published == 1
    assert scene.marker(T0 + 2 * FIVE_MS).gaps == ()


def test_a_row_that_begins_later_is_no_proof_of_what_lies_before() -> None:
    """Nothing in the archive says what arrived in between: a gap."""
    scene = begun()
    scene.clock.advance(300)
    scene.say(s0=row(5, 11), s1=row(7, 11))
    scene.clock.advance(125)
    scene.publish()

    [gap] = scene.marker(T0 + 2 * FIVE_MS).gaps
    assert gap.times_ms == (T0 + 5 * MINUTE_MS, T0 + 7 * MINUTE_MS)


def split(scene: BoundaryScene, **rows: ShardRow) -> None:
    """Let S1 be split into S2 and S3."""
    scene.ended(S1, [S2, S3])
    middle = HALF + HALF // 2
    scene.opened(S2, (HALF + 1, middle), [S1])
    scene.opened(S3, (middle + 1, 2 * HALF + 1), [S1])
    scene.say(**rows)


def birth(until_minute: float) -> ShardRow:
    """Return a child's row that covers it since its birth."""
    return ShardRow(BIRTH, *(T0 + round(until_minute * MINUTE_MS),) * 2, None)


def test_an_ended_shard_hands_over_to_its_children() -> None:
    """When the proof of its end covers the rest of it; the children hold what they have not reached."""
    scene = begun()
    scene.clock.advance(300)
    split(scene, s0=row(5, 11), s1=row(5, 7, end="proven"), s2=birth(11))
    attempt = scene.publish()
    assert [hold.shard for hold in attempt.holds] == [S3]
    scene.say(s3=birth(10.5))

    assert scene.publish().published == 1
    states = {name: state.state for name, state in scene.marker(T0 + 2 * FIVE_MS).shards.items()}
    assert states == {S0: "open", S1: "ended", S2: "open", S3: "open"}


def test_an_end_that_is_not_proven_leaves_a_gap() -> None:
    """What arrived before it may have been trimmed unread."""
    scene = begun()
    scene.clock.advance(300)
    split(scene, s0=row(5, 11), s1=row(8, 8, end="unproven"), s2=birth(11), s3=birth(11))
    scene.clock.advance(125)
    scene.publish()

    [gap] = scene.marker(T0 + 2 * FIVE_MS).gaps
    assert (gap.shard, gap.times_ms) == (S1, (T0 + 5 * MINUTE_MS, T0 + 8 * MINUTE_MS))


def test_a_child_is_judged_since_its_parent_was_surely_open() -> None:
    """Not since its parent's proof, which comes long after the end: its first record may be trimmed by then."""
    scene = begun()
    scene.clock.advance(300)
    end = row(5, 11, end="proven", open_minute=6)
    split(scene, s0=row(5, 12), s1=end, s2=birth(12), s3=[row(9, 9), row(9, 12)])
    scene.clock.advance(200)
    scene.publish()

    [gap] = scene.marker(T0 + 2 * FIVE_MS).gaps
    assert (gap.shard, gap.times_ms) == (S3, (T0 + 6 * MINUTE_MS, T0 + 9 * MINUTE_MS))


def test_a_skipped_batch_is_a_gap_since_its_run_last_said_something() -> None:
    """With its log read to the end, the run had said that nothing was skipped until then."""
    scene = begun()
    scene.clock.advance(300)
    scene.say("run", s0=row(5, 11), s1=row(5, 6))
    scene.skipped(S1, T0 + 7 * MINUTE_MS, writer="run_1")
    scene.say("next", s1=row(6, 13))
    scene.clock.advance(125)
    scene.publish()

    [gap] = scene.marker(T0 + 2 * FIVE_MS).gaps
    assert (gap.shard, gap.reasons, gap.times_ms[0]) == (S1, ("skipped",), T0 + 6 * MINUTE_MS)


def test_a_batch_that_a_run_skipped_behind_an_outage_is_a_gap_since_anybody_said_something() -> None:
    """It arrived hours before the line, and the run that logged it had not said anything yet.

    Of the rows before, one in a quarter of an hour is remembered: the first.
    """
    scene = begun()
    scene.say("before", s0=row(5, 6), s1=row(5, 6))
    scene.clock.advance(3600)
    scene.say("run", s0=row(6, 65))
    scene.skipped(S1, T0 + 62 * MINUTE_MS, writer="run_1")
    scene.say("next", s1=row(6, 66))
    scene.clock.advance(125)
    scene.publish()

    [gap] = scene.marker(T0 + 2 * FIVE_MS).gaps
    assert (gap.shard, gap.reasons, gap.times_ms[0]) == (S1, ("skipped",), T0 + 5 * MINUTE_MS)
    assert scene.marker(T0 + 2 * FIVE_MS).since_ms < T0


def test_a_batch_of_a_young_child_is_a_gap_of_the_time_in_which_the_child_lived() -> None:
    """Its run has said nothing, and no row of it is a quarter of an hour old; what lies before its birth stays."""
    scene = begun()
    split(scene, s0=row(5, 11), s1=row(5, 8, end="proven", open_minute=7), s2=row(7, 9), s3=row(7, 11))
    scene.clock.advance(360)
    scene.skipped(S2, T0 + 10 * MINUTE_MS, writer="other_1")
    scene.say("next", s2=row(9, 11))
    assert scene.publish().published == 1
    known = read_completeness(scene.objects(), scene.clock.now_ms())
    assert known is not None
    assert judge(known, known.since_ms, T0 + FIVE_MS).answer is Answer.COMPLETE
    gaps = [gap for gap in known.gaps if gap.shard == S2]
    assert gaps
    assert min(gap.times_ms[0] for gap in gaps) >= T0 + 7 * MINUTE_MS


def test_a_shard_that_nobody_read_before_it_was_split_holds_no_first_boundary() -> None:
    """KCL never gave it to a processor, so it has neither a row nor an end; those that descend from it are read."""
    scene = BoundaryScene()
    split(scene, s0=row(-5, -4))
    older, younger = "shardId-000000000004", "shardId-000000000005"
    middle = HALF + HALF // 4
    scene.opened(older, (HALF + 1, middle), [S2])
    scene.opened(younger, (middle + 1, HALF + HALF // 2), [S2])
    scene.say(s0=row(-4, 1), s3=row(-5, 1), s4=row(-5, 1), s5=row(-5, 1))
    scene.clock.advance(780)
    scene.say(s0=row(1, 12), s3=row(1, 12), s4=row(1, 12), s5=row(1, 12))
    assert scene.publish().published > 0


def test_an_hour_whose_publisher_died_behind_its_marker_is_finished_at_once() -> None:
    """The next boundary may be an hour away."""
    scene = BoundaryScene()
    scene.say(s0=row(-80, -14), s1=row(-80, -14))
    scene.publish()
    boundary_ms = T0 - 15 * MINUTE_MS
    assert scene.marker(boundary_ms).boundary_ms == boundary_ms
    key = success_key(PREFIX, boundary_ms - HOUR_MS)
    scene.bucket.delete(key)
    scene.publisher().attempt(boundary_ms + 90_000)
    assert key in scene.bucket.keys(f"{PREFIX}_complete/")


def test_a_beginning_that_does_not_grow_is_named() -> None:
    """A damaged `since.json` would be asked for without end."""
    scene = BoundaryScene()
    old_ms = T0 - 3 * LOOK_BACK_MS
    for key in (since_key(PREFIX), since_key(PREFIX, old_ms)):
        scene.put(key, encode_boundary(Since(since=iso_time(old_ms), writer="w")))
    with pytest.raises(FormatError, match="before the boundary that it follows"):
        scene.publish()


def test_a_batch_that_was_skipped_withdraws_at_once_if_asked() -> None:
    """Boundaries may lie an hour apart; whoever stored the marker does not wait for the next one."""
    scene = begun()
    publisher, now_ms = scene.publisher(), scene.clock.now_ms()
    publisher.attempt(now_ms)
    scene.skipped(S1, T0 + 4 * MINUTE_MS, writer="other_1")
    assert publisher.attempt(now_ms).withdrawn == 0
    assert publisher.attempt(now_ms, withdraws=True).withdrawn == 1
    assert publisher.attempt(now_ms, withdraws=True).withdrawn == 0


def test_a_batch_that_was_skipped_before_a_published_boundary_withdraws_it() -> None:
    """Readers subtract it at once; the next marker contains it."""
    scene = begun()
    scene.skipped(S1, T0 + 4 * MINUTE_MS, writer="other_1")
    scene.clock.advance(300)
    scene.say(s0=row(5, 11), s1=row(5, 9))
    attempt = scene.publish()

    assert (attempt.published, attempt.withdrawn) == (0, 1)
    known = read_completeness(scene.objects(), scene.clock.now_ms())
    assert known is not None
    assert judge(known, T0, T0 + FIVE_MS).answer is Answer.GAPS
    scene.say(s1=row(9, 11))
    assert scene.publish().withdrawn == 0
    assert len(scene.marker(T0 + 2 * FIVE_MS).gaps) == 1


def test_a_gap_that_the_stream_was_compared_for_is_healed_at_the_next_boundary() -> None:
    """An audit of level `stream` found all of its records archived."""
    scene = begun()
    scene.clock.advance(300)
    scene.say(s0=row(5, 11), s1=row(7, 11))
    scene.clock.advance(125)
    scene.publish()
    assert scene.marker(T0 + 2 * FIVE_MS).gaps
    scene.mark(ReadMark(S1, MarkKind.STREAM, Continuity.PROVEN, T0, T0 + 10 * MINUTE_MS, None, "audit"))
    scene.clock.advance(300)
    scene.say(s0=row(11, 16), s1=row(11, 16))
    scene.publish()

    assert scene.marker(T0 + 3 * FIVE_MS).gaps == ()


def test_an_hour_without_a_gap_is_finished() -> None:
    """Also when its publisher died before it said so; one with a gap is not."""
    scene = BoundaryScene()
    scene.say(s0=row(-80, 50), s1=row(-80, 46))
    scene.clock.advance(52 * 60)
    scene.publish()
    scene.say(s0=row(50, 108), s1=row(47, 108))
    scene.clock.advance(58 * 60)
    scene.publish()
    [nine, ten, eleven] = [success_key(PREFIX, T0 - T0 % HOUR_MS + hour * HOUR_MS) for hour in (-1, 0, 1)]
    finished = [key for key in scene.bucket.keys(f"{PREFIX}{COMPLETE}") if key.endswith("_SUCCESS")]

    assert ten in finished
    assert nine in finished
    assert eleven not in finished


def test_an_outage_of_a_day_leaves_no_hour_unfinished() -> None:
    """The markers behind it come in one attempt, and lie further apart than hours are looked back for."""
    scene = BoundaryScene()
    scene.say(s0=row(-80, 5), s1=row(-80, 5))
    scene.clock.advance(360)
    before = scene.publish().newest
    minutes = LOOK_BACK_MS / MINUTE_MS - 2
    scene.clock.advance(minutes * 60 - 360)
    scene.say(s0=row(5, minutes), s1=row(5, minutes))
    attempt = scene.publish()

    assert before is not None
    assert attempt.newest is not None
    ten_ms = T0 - T0 % HOUR_MS
    assert attempt.newest.boundary_ms - LOOK_BACK_MS > ten_ms > before.since_ms
    finished = [key for key in scene.bucket.keys(f"{PREFIX}{COMPLETE}") if key.endswith("_SUCCESS")]
    end_ms = attempt.newest.boundary_ms // HOUR_MS * HOUR_MS
    assert finished == [success_key(PREFIX, hour_ms) for hour_ms in range(ten_ms - HOUR_MS, end_ms, HOUR_MS)]


def test_a_marker_of_long_ago_is_begun_anew() -> None:
    """Rows and skipped batches are searched no further back than a day."""
    scene = begun()
    scene.clock.advance(LOOK_BACK_MS / 1000 + 600)
    minutes = LOOK_BACK_MS / MINUTE_MS + 10
    scene.say(s0=row(minutes - 5, minutes + 6), s1=row(minutes - 5, minutes + 6))
    scene.clock.advance(600)
    attempt = scene.publish()

    assert attempt.newest is not None
    assert attempt.newest.since_ms >= T0 + round((minutes - 5) * MINUTE_MS)


def test_rows_that_do_not_parse_hold_nothing() -> None:
    """The archive judges what they would have said."""
    scene = begun()
    scene.put(f"{PREFIX}{UNTIL}2026-11-21T1020Z/run-1.json", b"{")
    scene.put(f"{PREFIX}{UNTIL}2026-11-21T1020Z/foreign", b"{")
    scene.say(s0=row(5, 11), s1=row(5, 11))
    scene.clock.advance(300)

    assert scene.publish().published == 1


def test_a_publisher_that_only_says_what_holds_writes_nothing() -> None:
    """As `minutebook wait` and `status` ask."""
    scene = begun()
    scene.clock.advance(360)
    before = scene.bucket.keys()

    attempt = scene.publisher(writes=False).attempt(scene.clock.now_ms())

    assert {hold.shard for hold in attempt.holds} == {S0, S1}
    assert scene.bucket.keys() == before


def test_a_shard_that_a_worker_of_an_older_version_took_over_is_named_as_such() -> None:
    """After a roll-back: it had rows, and gets none any more."""
    scene = begun()
    scene.clock.advance(600)
    scene.say(s0=row(5, 15))
    late = scene.publish()
    scene.clock.advance(540)
    scene.say(s0=row(15, 24))
    silent = scene.publish()

    assert [(hold.shard, hold.why) for hold in late.holds] == [(S1, "no row reaches further yet")]
    assert [(hold.shard, "older version" in hold.why) for hold in silent.holds] == [(S1, True)]


def test_a_hole_holds_its_boundary_where_the_shard_was_open_behind_it() -> None:
    """Nothing else did: after an outage of 25 hours, 280 boundaries were published over records that were trimmed."""
    scene = begun()
    scene.clock.advance(900)
    scene.say(s0=row(5, 20), s1=row(17, 20, open_minute=20))

    attempt = scene.publish()

    assert (attempt.published, [hold.shard for hold in attempt.holds]) == (0, [S1])


def test_a_batch_that_was_skipped_behind_a_boundary_is_not_forgotten() -> None:
    """The marker of 10:25 comes first: it names the gap, too, because nobody asks about it again."""
    scene = begun()
    scene.say(run="run.1", s0=row(5, 12), s1=row(5, 11))
    scene.clock.advance(600)
    scene.skipped(S1, T0 + 13 * MINUTE_MS, "run.1_1")
    scene.publish()
    scene.say(run="run.2", s1=row(11, 19), s0=row(12, 19))
    scene.clock.advance(300)
    scene.publish()

    [gap] = scene.marker(T0 + 3 * FIVE_MS).gaps
    assert (gap.shard, gap.times_ms[0], gap.reasons) == (S1, T0 + 11 * MINUTE_MS, ("skipped",))
    known = read_completeness(scene.objects(), scene.clock.now_ms())
    assert known is not None
    assert judge(known, T0, T0 + 2 * FIVE_MS).answer is Answer.COMPLETE


def test_what_a_later_run_of_the_daemon_says_does_not_hide_a_skipped_batch() -> None:
    """The gap begins where the run that skipped had come to; the next one had read the batch again, or not."""
    scene = begun()
    scene.say(run="run.1", s1=row(5, 7), s0=row(5, 19))
    scene.clock.advance(180)
    scene.skipped(S1, T0 + 8 * MINUTE_MS, "run.1_1")
    scene.say(run="run.2", s1=row(7, 19))
    scene.clock.advance(900)
    scene.publish()

    [gap] = scene.marker(T0 + 3 * FIVE_MS).gaps
    assert (gap.shard, gap.times_ms[0]) == (S1, T0 + 7 * MINUTE_MS)


def test_two_publishers_that_begin_anew_begin_at_the_same_boundary() -> None:
    """One has older rows in its memory; the object named after the last marker decides, and nobody goes back."""
    scene = begun()
    slow = scene.publisher()
    slow.attempt(scene.clock.now_ms())
    scene.clock.advance(30 * 3600)
    now = 30 * 60 + 6
    scene.say(s0=row(now - 20, now), s1=row(now - 20, now))
    listing = slow.objects.list_markers
    before = listing(scene.clock.now_ms() - LOOK_BACK_MS, scene.clock.now_ms())
    first = scene.publish()
    slow.objects.list_markers = lambda _begin_ms, _end_ms: before  # type: ignore[method-assign]  # it listed earlier

    slow.attempt(scene.clock.now_ms())

    assert first.newest is not None
    assert scene.boundaries()[:3] == ["2026-11-21T1015Z", "2026-11-21T1020Z", "2026-11-22T1610Z"]
    assert [key for key in scene.bucket.keys(f"{PREFIX}{COMPLETE}") if "since-" in key] == [
        f"{PREFIX}{COMPLETE}since-2026-11-21T1020Z.json"
    ]


def test_a_beginning_is_not_older_than_what_is_looked_at() -> None:
    """A shard held everything up for thirty hours; its first boundary would be one whose hours nobody finishes."""
    scene = BoundaryScene()
    held = scene.publisher()
    scene.say(s0=row(-5, 5))
    scene.clock.advance(360)
    held.attempt(scene.clock.now_ms())
    scene.clock.advance(30 * 3600)
    now = 30 * 60 + 6
    scene.say(s0=row(5, now), s1=row(-5, now))

    newest = held.attempt(scene.clock.now_ms()).newest

    assert newest is not None
    assert newest.since_ms > scene.clock.now_ms() - LOOK_BACK_MS


def test_a_child_is_required_from_when_its_parent_was_surely_open() -> None:
    """A shard closed before the time of its unproven row, and its child's first records were trimmed.

    The row begins anew at minute 12, and the shard was open at minute 9: what arrived on the child between the two
    lies in a gap of the child.
    """
    scene = begun()
    split(
        scene, s0=row(5, 21), s1=[row(5, 8), row(12, 12, open_minute=9), row(12, 12, open_minute=0, end="unproven")]
    )
    scene.say(s2=row(11, 21), s3=row(11, 21))
    scene.clock.advance(1200)
    scene.publish()

    gaps = scene.marker(T0 + 3 * FIVE_MS).gaps
    assert {gap.shard: gap.times_ms for gap in gaps if gap.shard in {S2, S3}} == {
        S2: (T0 + 9 * MINUTE_MS, T0 + 11 * MINUTE_MS),
        S3: (T0 + 9 * MINUTE_MS, T0 + 11 * MINUTE_MS),
    }


def test_a_withdrawal_that_was_healed_long_ago_stays_healed() -> None:
    """Also when nobody has published for days, and all markers are listed."""
    scene = begun()
    gap = NamedGap.of(S1, T0 - FIVE_MS, T0 - MINUTE_MS, ["skipped"])
    scene.objects().withdraw(Withdrawal(boundary=iso_time(T0), gaps=(gap,), why=""))
    later_ms = T0 + 40 * HOUR_MS
    scene.put(
        marker_key(PREFIX, later_ms),
        encode_boundary(
            CompleteMarker(since=iso_time(T0), boundary=iso_time(later_ms), shards={}, gaps=(), writer="w")
        ),
    )

    known = read_completeness(scene.objects(), later_ms + 100 * HOUR_MS)

    assert known is not None
    assert known.gaps == ()


def test_without_a_new_row_an_attempt_is_not_repeated_at_once() -> None:
    """Only ages change meanwhile, and an attempt lists the markers of all shards."""
    scene = begun()
    scene.clock.advance(360)
    publisher = scene.publisher()
    first = publisher.attempt(scene.clock.now_ms())
    lists = scene.requests.copy()

    scene.clock.advance(10)
    assert publisher.attempt(scene.clock.now_ms()).holds == first.holds
    assert scene.requests["LIST"] - lists["LIST"] < 8
    scene.say(s0=row(5, 11), s1=row(5, 11))
    assert publisher.attempt(scene.clock.now_ms()).published == 1


def test_a_gap_behind_the_boundary_that_is_published_is_not_forgotten() -> None:
    """The shard's state in that marker reaches beyond it, so no later attempt asks about the gap."""
    scene = begun()
    scene.say(s0=row(5, 12), s1=[row(5, 11), row(12, 21)])
    scene.clock.advance(1200)
    assert scene.publish().published == 1
    scene.say(s0=row(12, 21))
    scene.publish()

    [gap] = scene.marker(T0 + 3 * FIVE_MS).gaps
    assert (gap.shard, gap.times_ms) == (S1, (T0 + 11 * MINUTE_MS, T0 + 12 * MINUTE_MS))


def test_what_is_left_of_a_gap_that_was_healed_in_part_stays_named() -> None:
    """Also behind the boundary that is published then."""
    scene = begun()
    scene.say(s0=row(5, 12), s1=[row(5, 6), row(14, 31)])
    scene.clock.advance(1800)
    scene.publish()
    assert scene.marker(T0 + 2 * FIVE_MS).gaps
    scene.mark(ReadMark(S1, MarkKind.STREAM, Continuity.PROVEN, T0, T0 + 12 * MINUTE_MS, None, "audit"))
    scene.say(s0=row(12, 31))
    scene.publish()

    [gap] = scene.marker(T0 + 6 * FIVE_MS).gaps
    assert (gap.shard, gap.times_ms) == (S1, (T0 + 12 * MINUTE_MS, T0 + 14 * MINUTE_MS))


def test_an_hour_is_not_finished_in_the_attempt_that_withdraws_it() -> None:
    """Its publisher had died before it stored the hour, and a skipped batch is known by now."""
    scene = BoundaryScene()
    scene.clock.advance(50 * 60)
    scene.say(s0=row(-80, 46), s1=row(-80, 46))
    dying = scene.publisher()
    dying.objects.finish_hour = lambda _hour_ms: None  # type: ignore[method-assign]  # it died before
    dying.attempt(scene.clock.now_ms())
    scene.skipped(S1, T0 + 20 * MINUTE_MS, writer="other_1")
    scene.clock.advance(360)
    scene.say(s0=row(46, 51), s1=row(46, 50))
    assert scene.publish().withdrawn == 1

    hour_ms = T0 - T0 % HOUR_MS
    assert scene.bucket.keys(success_key(PREFIX, hour_ms)) == []


def test_a_row_about_a_time_after_its_storing_is_left_out() -> None:
    """It is damaged, or of another archive: a worker says what lay a minute back."""
    scene = begun()
    scene.say(s1=row(5, 11))
    key = f"{PREFIX}{UNTIL}2026-11-21T1020Z/other-1.json"
    for number, until_ms in enumerate((T0 + 90 * HOUR_MS, 10**18)):
        wrong = ShardRow(T0, until_ms, until_ms, None)
        scene.put(
            key.replace("-1", f"-{number}"), encode_boundary(RowsObject(worker="o", run="o", rows={S0: [wrong]}))
        )
    scene.clock.advance(360)

    attempt = scene.publish()

    assert (attempt.published, [hold.shard for hold in attempt.holds]) == (0, [S0])


def test_a_marker_that_is_another_boundarys_is_refused() -> None:
    """And one that lies ahead: both stop publication with their names, and readers, too."""
    scene = begun()
    ahead_ms = T0 + 8 * HOUR_MS
    body = scene.bucket.body(marker_key(PREFIX, T0 + FIVE_MS))
    scene.put(marker_key(PREFIX, ahead_ms), body)
    scene.clock.advance(360)
    with pytest.raises(FormatError, match="lies ahead"):
        scene.publish()
    with pytest.raises(FormatError, match="lies ahead"):
        read_completeness(scene.objects(), scene.clock.now_ms())

    scene.clock.advance(8 * 3600)
    with pytest.raises(FormatError, match="another boundary's"):
        scene.publish()


def test_a_first_boundary_that_lies_ahead_is_refused() -> None:
    """It would stop publication for years, without a word."""
    scene = BoundaryScene()
    scene.put(since_key(PREFIX), encode_boundary(Since(since="2030-01-01T00:00:00.000Z", writer="w")))
    with pytest.raises(FormatError, match="lies ahead"):
        scene.publish()


def test_a_skipped_batch_of_a_host_without_a_clock_begins_with_the_boundaries() -> None:
    """It logs in 1970; a search from there would list half a million hours."""
    scene = begun()
    scene.skipped(S1, 5, writer="other_1")
    scene.say(s0=row(5, 11), s1=row(5, 11))
    scene.clock.advance(360)
    scene.publish()

    [gap] = scene.marker(T0 + 2 * FIVE_MS).gaps
    assert gap.times_ms[0] == scene.marker(T0 + 2 * FIVE_MS).since_ms
