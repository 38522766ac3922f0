"""What is said about the end of a shard's chain: where it stands, and what names more."""

import random

import msgspec
import pytest

from compaction.audit.rules.chain import JudgedMinutes, ShardContext, check_chain, prove_end
from compaction.inventory.neighbours import ChainLink, SearchReach
from compaction.inventory.shard_markers import ShardMarkers
from compaction.inventory.tombstones import ExpiredSpan
from compaction.verdict.acceptance import accept, still_holds
from minutebook.coverage.chain import Reason
from minutebook.coverage.intervals import Interval
from minutebook.coverage.verdict import State
from minutebook.format.day import day_of_ms
from minutebook.format.document import FORMAT
from minutebook.format.keys import start_marker_key
from minutebook.format.markers import EndMarker, StartMarker, decode_marker
from minutebook.format.metadata import ChainStart, SegmentMetadata
from minutebook.format.position import Position
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import judge_archive
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.memory_store import MemoryStore
from tests.fakes.shard import SHARD
from tests.fakes.world import World
from tests.witness.readback import read_shard

LAST, BEYOND = Position(20, 1), Position(30)
TAIL = ChainLink(
    "the tail",
    SegmentMetadata(
        shard_id=SHARD,
        minute=29_000_000,
        first=Position(11),
        last=LAST,
        after=Position(10),
        records=2,
        dropped=0,
        payload_bytes=2,
        arrival_min_ms=0,
        arrival_max_ms=0,
        writer="w",
    ),
)
EVERYTHING = SearchReach(to_the_beginning=True, to_the_end=True)
NOT_THE_END = SearchReach(to_the_beginning=True, to_the_end=False)
NOT_THE_BEGINNING = SearchReach(to_the_beginning=False, to_the_end=True)


def ended(last: Position | None, proof: str = "read") -> ShardMarkers:
    """Return the markers of a shard that is closed at a position."""
    text = None if last is None else str(last)
    end = EndMarker(format=FORMAT, shard=SHARD, last=text, children=[], proof=proof, writer="w", written_at="2026")  # type: ignore[arg-type]  # one of two
    return ShardMarkers(end=end)


@pytest.mark.parametrize(
    ("markers", "checkpoint", "proof"), [(ended(LAST), None, "end.json"), (ShardMarkers(), LAST, "checkpoint")]
)
def test_a_witness_that_names_the_tail_proves_it(
    markers: ShardMarkers, checkpoint: Position | None, proof: str
) -> None:
    """Nothing is found then."""
    assert prove_end(TAIL, ShardContext(SHARD, markers, checkpoint, EVERYTHING)) == (proof, ())


def test_an_end_before_an_aggregate_that_it_names_as_undelivered_is_one() -> None:
    """One delivery left it out, and another one brought it: nothing is missing between the two."""
    end = ended(Position(10)).end
    assert end is not None
    markers = ShardMarkers(end=msgspec.structs.replace(end, undelivered=["11", "20"]))
    assert prove_end(TAIL, ShardContext(SHARD, markers, None, EVERYTHING)) == ("end.json", ())


@pytest.mark.parametrize(("markers", "checkpoint"), [(ended(BEYOND), None), (ShardMarkers(), BEYOND)])
@pytest.mark.parametrize(
    ("tail", "keys", "positions"), [(TAIL, ("the tail",), ("20:1", "30:0")), (None, (), ("30:0",))]
)
def test_a_witness_that_names_more_shows_both_sides_of_the_gap(
    markers: ShardMarkers,
    checkpoint: Position | None,
    tail: ChainLink | None,
    keys: tuple[str, ...],
    positions: tuple[str, ...],
) -> None:
    """The tail, where there is one, and the position that was named."""
    proof, (found,) = prove_end(tail, ShardContext(SHARD, markers, checkpoint, EVERYTHING))
    assert (proof, found.code, found.severity) == ("", "broken_chain", "defect")
    assert (found.shard, found.keys, found.positions) == (SHARD, keys, positions)


@pytest.mark.parametrize(
    ("context", "tail"),
    [
        (ShardContext(SHARD, ShardMarkers(), None, EVERYTHING), TAIL),
        (ShardContext(SHARD, ShardMarkers(), Position(15), EVERYTHING), TAIL),
        (ShardContext(SHARD, ended(LAST, "expired"), None, EVERYTHING), TAIL),
        (ShardContext(SHARD, ShardMarkers(), BEYOND, NOT_THE_END), TAIL),
        (ShardContext(SHARD, ShardMarkers(), BEYOND, NOT_THE_BEGINNING), None),
        (ShardContext(SHARD, ShardMarkers(), None, EVERYTHING), None),
    ],
)
def test_an_end_that_no_witness_names_is_left_to_coverage(context: ShardContext, tail: ChainLink | None) -> None:
    """Without a witness, with one that lags or looked away, and where the search did not reach."""
    assert prove_end(tail, context) == ("", ())


@pytest.mark.parametrize(
    "context",
    [
        ShardContext(SHARD, ended(BEYOND), None, EVERYTHING, holes=(BEYOND,)),
        ShardContext(SHARD, ShardMarkers(unreadable={"end.json": "damaged"}), BEYOND, EVERYTHING),
    ],
)
def test_what_is_reported_by_itself_is_not_reported_here(context: ShardContext) -> None:
    """An object without metadata behind the tail, and an end marker that cannot be read."""
    assert prove_end(TAIL, context) == ("", ())


def test_a_chain_that_starts_again_over_an_expired_day_is_broken() -> None:
    """The tombstone's runs hold positions: a start is none of them, and must not be compared with them."""
    again = msgspec.structs.replace(
        TAIL.metadata, first=Position(31), last=Position(32), after=ChainStart("TRIM_HORIZON")
    )
    expired = (ExpiredSpan(Position(1), Position(9), ChainStart("TRIM_HORIZON"), TAIL.metadata.minute - 1440),)
    context = ShardContext(SHARD, ShardMarkers(), None, EVERYTHING, expired=expired)
    minute = TAIL.metadata.minute
    result = check_chain(JudgedMinutes(minute, minute + 1), [TAIL, ChainLink("again", again)], context)
    assert [found.code for found in result.findings] == ["broken_chain", "broken_chain"]


def segment(first: int, last: int, after: int, day: int) -> ChainLink:
    """Return a segment of a day, counted from the judged one."""
    metadata = msgspec.structs.replace(
        TAIL.metadata,
        minute=TAIL.metadata.minute + day * 1440,
        first=Position(first),
        last=Position(last),
        after=Position(after),
    )
    return ChainLink(f"{first}", metadata)


def run(first: int, last: int, after: int, day: int) -> ExpiredSpan:
    """Return an expired run."""
    return ExpiredSpan(
        Position(first), Position(last), Position(after), TAIL.metadata.minute // 1440 * 1440 + day * 1440
    )


@pytest.mark.parametrize(
    ("links", "runs", "codes"),
    [
        # The day after is expired, or two of them are; of those further away nothing need be known.
        ([segment(11, 20, 10, 0), segment(31, 40, 30, 2)], [run(21, 30, 20, 1)], []),
        ([segment(11, 20, 10, 0), segment(41, 50, 40, 3)], [run(21, 30, 20, 1), run(31, 40, 30, 2)], []),
        ([segment(11, 20, 10, 0), segment(91, 95, 90, 9)], [run(21, 30, 20, 1)], []),
        # The judged day's last segment is gone: what was expired does not follow what is left.
        ([segment(11, 18, 10, 0), segment(31, 40, 30, 2)], [run(21, 30, 20, 1)], ["broken_chain"]),
        # The judged day has no segment, and should have one, or not.
        ([segment(5, 10, 4, -1), segment(31, 40, 30, 2)], [run(21, 30, 20, 1)], ["broken_chain"]),
        ([segment(5, 10, 4, -1), segment(31, 40, 30, 2)], [run(11, 30, 10, 1)], []),
        ([segment(31, 40, 30, 2)], [run(5, 10, 4, -1), run(11, 30, 10, 1)], []),
        ([segment(31, 40, 30, 2)], [run(5, 10, 4, -1), run(12, 30, 11, 1)], ["broken_chain"]),
        ([segment(31, 40, 30, 2)], [run(12, 30, 11, 1)], ["broken_chain"]),
        # Arrival times stepped back over midnight, on either side.
        ([segment(11, 15, 10, 0), segment(17, 20, 16, 0)], [run(16, 16, 15, 1), run(21, 30, 20, 1)], []),
        ([segment(11, 15, 10, 0), segment(18, 20, 17, 0)], [run(17, 17, 16, 1)], ["broken_chain"]),
        ([segment(11, 15, 10, 0), segment(17, 20, 16, 0)], [run(16, 16, 15, -1)], []),
        ([segment(11, 15, 10, 0), segment(18, 20, 17, 0)], [run(17, 17, 16, -1)], ["broken_chain"]),
        # A run of `expire` that died has left some of it.
        ([segment(11, 20, 10, 0), segment(24, 25, 23, 1)], [run(21, 30, 20, 1)], []),
        # The day before is expired: its own joints are not looked at again.
        ([segment(1, 3, 0, -2), segment(11, 20, 10, 0)], [run(6, 10, 5, -1)], []),
    ],
)
def test_expired_runs_stand_for_their_segments_on_both_sides(
    links: list[ChainLink], runs: list[ExpiredSpan], codes: list[str]
) -> None:
    """Where one follows what is there; a segment of the judged day that is gone is gone all the same."""
    context = ShardContext(SHARD, ShardMarkers(), None, EVERYTHING, expired=(run(1, 10, 0, -3), *runs))
    span = JudgedMinutes(TAIL.metadata.minute // 1440 * 1440, (TAIL.metadata.minute // 1440 + 1) * 1440)
    assert [found.code for found in check_chain(span, links, context).findings] == codes


def test_a_break_that_more_is_missing_from_is_another_finding() -> None:
    """What was accepted was one lost record; then the whole segment before it went, for good or with its day."""
    span = JudgedMinutes(TAIL.metadata.minute // 1440 * 1440, (TAIL.metadata.minute // 1440 + 1) * 1440)
    whole, behind, runs = segment(11, 15, 10, -1), segment(17, 20, 16, 0), (run(1, 10, 0, -3),)
    context = ShardContext(SHARD, ShardMarkers(), None, EVERYTHING, expired=runs)
    [first] = check_chain(span, [whole, behind], context).findings
    assert accept([first], (), "", "").findings[0].contents
    for links, expired, is_accepted in (
        ([whole, behind], runs, True),
        ([behind], (*runs, run(11, 15, 10, -1)), True),
        ([segment(11, 14, 10, -1), behind], runs, False),
        ([behind], runs, False),
    ):
        [found] = check_chain(span, links, context._replace(expired=expired)).findings
        assert still_holds(accept([first], (), "looked at", "now"), [found], ()) is is_accepted


def test_records_that_kcl_skipped_at_the_beginning_and_brought_later_are_no_defect() -> None:
    """Nothing is missing: no segment is a fork or a break, and the day is unknown. Another beginning is a fork."""
    world = World()
    world.put(2)
    world.clock.advance(600)
    world.put(2)
    skipper = world.started()
    skipper.daemon.redeliver(world.shard.everything[2:4])
    skipper.daemon.request_shutdown()
    world.lease.checkpoint = world.lease.start
    world.clock.advance(600)
    world.put(2)
    world.archive_all()
    store = MemoryStore(world.bucket)
    stored = store.get(start_marker_key(PREFIX, SHARD))
    assert stored is not None
    marker = decode_marker(stored.body, StartMarker, "start.json")
    links = [ChainLink(segment.key, segment.metadata) for segment in read_shard(store, PREFIX, SHARD)]
    firsts = [link.metadata.first for link in links]
    assert firsts.index(marker.first_position()) == 1

    def found(start: StartMarker) -> list[str]:
        day = day_of_ms(world.clock.now_ms())
        span = JudgedMinutes(day.first_minute, day.shift(1).first_minute)
        context = ShardContext(SHARD, ShardMarkers(start=start), None, EVERYTHING)
        return [each.code for each in check_chain(span, links, context).findings]

    assert found(marker) == []
    assert found(msgspec.structs.replace(marker, first=str(firsts[0]))) == ["forked_chain"]
    query = ProofQuery(Interval(START_MS, world.clock.now_ms()), START_MS, world.clock.now_ms())
    retrying = RetryingStore(store, lambda: Backoff(world.clock, random.Random(1), budget_seconds=1))
    judged = judge_archive(retrying, PREFIX, query)
    assert (judged.verdict.state, Reason.BROKEN_CHAIN in judged.verdict.reasons) == (State.UNKNOWN, False)
