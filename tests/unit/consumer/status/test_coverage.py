"""`status`: up to when everything is proven, of each shard and of the stream."""

import io

from consumer.status.coverage import CoverageWatch, known_stream, proven_time
from consumer.status.screen import render
from minutebook.coverage.chain import Doubt, Reason
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import Gap
from minutebook.coverage.verdict import ShardVerdict, State, Verdict
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.owner import read_application
from minutebook.terminal import TerminalConsole
from tests.fakes.archive_scene import PREFIX, two_records
from tests.fakes.status_scene import LEASE, NOW, S0, S1, StatusScene

FROM, UNTIL = (NOW - 120) * MINUTE_MS, NOW * MINUTE_MS
SCOPE = Interval(FROM, UNTIL)


def gap(begin: int, end: int, *reasons: Reason) -> Gap:
    """Return a gap between two minutes of the scope."""
    return Gap(Interval(FROM + begin * MINUTE_MS, FROM + end * MINUTE_MS), reasons or (Reason.NOT_COVERED,))


def verdict(*doubts: Doubt, begins: int = 0, **gaps: list[Gap]) -> Verdict:
    """Return the verdict on shards with these gaps; `begins` is the minute at which the last one began."""
    shards = [
        ShardVerdict(name, State.UNKNOWN, SCOPE, tuple(open_), tuple(r for one in open_ for r in one.reasons))
        for name, open_ in gaps.items()
    ]
    shards[-1] = shards[-1]._replace(required=Interval(FROM + begins * MINUTE_MS, UNTIL))
    return Verdict(State.UNKNOWN, SCOPE, tuple(shards), doubts)


def at(minute: int) -> str:
    """Return a minute of the scope as the report says it."""
    return iso_time(FROM + minute * MINUTE_MS)


def test_the_stream_is_proven_as_far_as_its_last_shard() -> None:
    """Each shard by itself, and all of them together; what ends within the last 80 minutes is not due yet."""
    found = proven_time(verdict(a=[gap(118, 120)], b=[gap(90, 120)], c=[]))
    assert found.shards == {"a": at(118), "b": at(90), "c": at(120)}
    assert (found.since, found.until, found.unproven) == (at(0), at(90), [])


def test_a_shard_that_nothing_proves_is_open_from_the_beginning() -> None:
    """And so is the stream; the reason is said in words."""
    found = proven_time(verdict(a=[gap(0, 120, Reason.MISSING_SHARD)], b=[]))
    assert (found.until, found.shards) == (None, {"a": None, "b": at(120)})
    (open_time,) = found.unproven
    assert (open_time.shard, open_time.begins, open_time.ends) == ("a", at(0), at(120))
    assert open_time.reasons == ["missing_shard: nobody has read the shard"]


def test_a_child_that_nobody_has_read_holds_the_stream_at_its_birth() -> None:
    """What came before it stays proven."""
    assert proven_time(verdict(a=[], b=[gap(30, 120)], begins=30)).until == at(30)


def test_a_shard_that_has_ended_holds_nobody_back() -> None:
    """A parent is required until its end; what is proven of the stream goes on with its children."""
    found = verdict(a=[gap(118, 120)], b=[])
    ended = found.shards[1]._replace(required=Interval(FROM, FROM + 40 * MINUTE_MS))
    coverage = proven_time(found._replace(shards=(found.shards[0], ended)))
    assert (coverage.until, coverage.shards) == (at(118), {"a": at(118), "b": at(40)})


def test_what_lies_behind_a_gap_is_not_counted() -> None:
    """Proven up to the gap, whatever is proven behind it; and the gap is named."""
    found = proven_time(verdict(a=[gap(10, 20, Reason.UNPROVEN), gap(119, 120)]))
    assert found.until == at(10)
    assert [(open_time.begins, open_time.ends) for open_time in found.unproven] == [(at(10), at(20))]


def test_a_doubt_about_the_streams_shape_is_the_streams() -> None:
    """No shard holds these hash keys: every shard is proven, the stream is not."""
    found = proven_time(verdict(Doubt(Reason.HASH_HOLE, Interval(0, UNTIL)), a=[]))
    assert (found.until, found.shards) == (None, {"a": at(120)})
    assert [open_time.shard for open_time in found.unproven] == [""]


def test_an_archive_is_proven_as_far_as_its_evidence() -> None:
    """To a minute before its last segment's, and farther with a read mark; on the screen too."""
    scene = StatusScene(LEASE)
    scene.archive(NOW - 100)
    coverage = scene.report().coverage
    assert coverage is not None
    assert (coverage.since, coverage.until, coverage.shards) == (at(0), at(19), {S0: at(19)})
    (open_time,) = coverage.unproven
    assert (open_time.shard, open_time.begins) == (S0, at(19))

    scene.read_on(S0, (NOW - 30) * MINUTE_MS)
    report = scene.report()
    assert report.coverage is not None
    assert (report.coverage.until, report.coverage.unproven) == (at(90), [])
    screen = TerminalConsole(width=200, color_system=None, record=True, file=io.StringIO())
    screen.print(render(report))
    assert "proven: all that arrived from 2026-11-21 08:16 until 2026-11-21 09:46" in screen.export_text()


def test_beside_doubled_records_nothing_is_called_archived_once() -> None:
    """Coverage goes by the ends of segments; the name of one holds its first position only, so status cannot tell."""
    scene = StatusScene(LEASE)
    scene.archive(NOW - 100)
    rows = two_records(scene._tails[S0], NOW - 90)
    scene.segment(S0, NOW - 90, rows, writer="w-1")
    scene.segment(S0, NOW - 90, rows[1:], after=rows[0].position, writer="zombie-1")
    scene.read_on(S0, (NOW - 30) * MINUTE_MS)
    report = scene.report()
    assert report.coverage is not None
    assert report.coverage.until == at(90)
    screen = TerminalConsole(width=200, color_system=None, record=True, file=io.StringIO())
    screen.print(render(report))
    text = screen.export_text()
    assert "records archived twice were not looked for: the nightly audit does that" in text
    assert "once" not in text


def test_an_archive_from_before_the_evidence_is_proven_nowhere() -> None:
    """Unknown, with the reason; never wrongly proven."""
    scene = StatusScene(LEASE)
    scene.archive(NOW - 100, continuity=Continuity.UNPROVEN)
    report = scene.report()
    assert report.coverage is not None
    assert report.coverage.until is None
    assert "unproven" in report.coverage.unproven[0].reasons[0]
    screen = TerminalConsole(width=200, color_system=None, record=True, file=io.StringIO())
    screen.print(render(report))
    assert "proven: nothing since 2026-11-21 08:16" in screen.export_text()


def test_nothing_is_judged_that_nobody_asks_for() -> None:
    """`--hours 0` costs no request."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    scene.hours = 0
    assert scene.report().coverage is None


def test_a_watch_judges_once_a_minute() -> None:
    """Every look in between shows what was found then."""
    scene = StatusScene(LEASE)
    scene.archive(NOW - 100)
    requests = scene.store.requests
    watch = CoverageWatch(scene.retrying, PREFIX, scene.clock, hours=2)
    record = read_application(scene.retrying, PREFIX)
    assert record is not None
    first = watch.look(record, scene.shards(), {})
    before = sum(requests.values())
    assert watch.look(record, {S1: scene.shards()[S0]}, {}) is first
    assert sum(requests.values()) == before
    scene.clock.sleep(60)
    watch.look(record, scene.shards(), {})
    assert sum(requests.values()) > before


def test_hash_keys_that_are_none_are_not_known() -> None:
    """Whatever stands in KCL's table is no reason to say nothing at all."""
    assert (
        known_stream({}, {S0: LEASE._replace(starting_hash_key="a", ending_hash_key="b")}).leased[0].hash_range
        is None
    )
