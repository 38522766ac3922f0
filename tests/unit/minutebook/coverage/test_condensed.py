"""Links taken together prove what the single ones prove, wherever evidence stands."""

import random
from collections.abc import Sequence

import pytest

from minutebook.coverage.chain import ChainView
from minutebook.coverage.condensed import condense, hidden
from minutebook.coverage.evidence import Evidence, EvidenceLink, Kind
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import Gap, ShardCoverage, ShardFacts
from minutebook.format.day import Day
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position

DAY = Day.parse("2026-11-20")
SCOPE = Interval(DAY.begin_ms, DAY.end_ms)
BEFORE = Position(1_000)


def chain(rng: random.Random, minutes: Sequence[int]) -> list[EvidenceLink]:
    """Return a shard's day: mostly one run, with what may come between."""
    links: list[EvidenceLink] = []
    after, at, run = BEFORE, 1_001, "run-1"
    for minute in minutes:
        claim, from_ms = None, None
        happens = rng.random()
        if happens < 0.01:
            at, after = at + 50, Position(at + 40)  # the link before it is gone
        elif happens < 0.02:
            claim = rng.choice((Continuity.PROVEN, Continuity.UNPROVEN, Continuity.LOST))
            run = rng.choice((run, f"run-{minute}"))
            from_ms = links[-1].until_ms if links and claim is Continuity.PROVEN else None
        elif happens < 0.03:
            run = f"run-{minute}"  # without a word
        back = rng.choice((0,) * 30 + (1,))
        minute_ms = DAY.begin_ms + (minute - back) * MINUTE_MS
        first, last = Position(at), Position(at + rng.choice((0, 3, 9)))
        if rng.random() > 0.01:
            links.append(
                EvidenceLink(
                    Kind.SEGMENT,
                    first,
                    last,
                    after,
                    until_ms=minute_ms - MINUTE_MS,
                    begins_ms=minute_ms + 2 * MINUTE_MS,
                    arrival_min_ms=minute_ms + 5,
                    run=run,
                    claim=claim,
                    from_ms=from_ms,
                    stored_ms=minute_ms + 3 * MINUTE_MS,
                )
            )
        if links and rng.random() < 0.005:  # another writer's, over the same records
            links.append(links[-1]._replace(run="zombie", last=Position(at + 15)))
        after, at = last, last.sequence + 20
    return links


def pieces(rng: random.Random, links: Sequence[EvidenceLink]) -> list[Evidence]:
    """Return marks that stand on ends of links, between them, or on nothing."""
    found = []
    for _ in range(rng.choice((0, 1, 3))):
        link = rng.choice(links)
        position = rng.choice((link.last, link.first, Position(link.last.sequence + 5), None))
        kind = rng.choice((Kind.READ, Kind.STREAM, Kind.END))
        until_ms = link.until_ms + rng.choice((-10, 1, 2, 60)) * MINUTE_MS
        continuity = rng.choice((Continuity.PROVEN, Continuity.PROVEN, Continuity.UNPROVEN))
        found.append(Evidence("s", kind, until_ms - 90 * MINUTE_MS, until_ms, position, continuity, until_ms))
    return found


def said(links: Sequence[EvidenceLink], stands: Sequence[Evidence]) -> tuple[object, ...]:
    """Return what is proven of a shard, and why the rest is open."""
    coverage = ShardCoverage(ShardFacts("s", ChainView(tuple(links), to_the_end=True), tuple(stands)))
    gaps: tuple[Gap, ...] = coverage.gaps(*SCOPE)
    doubts = sorted((doubt.interval, doubt.reason, doubt.position or BEFORE) for doubt in coverage.doubts)
    reached = [coverage.reach_of(piece.position) for piece in stands if piece.position is not None]
    times = (coverage.open_until_ms, coverage.seen_open_ms, coverage.ended_ms, coverage.begins_ms())
    return coverage.covered, gaps, doubts, reached, times


@pytest.mark.parametrize("seed", range(150))
def test_what_is_taken_together_proves_the_same(seed: int) -> None:
    """Days with breaks, claims, new runs, doubles and steps back, and marks in all places."""
    rng = random.Random(seed)
    minutes = sorted(rng.sample(range(1440), rng.choice((3, 40, 300))))
    links = chain(rng, minutes)
    stands = pieces(rng, links) if links else []
    positions = [piece.position for piece in stands if piece.position is not None]
    found = condense(links, SCOPE, positions)
    assert said(found, stands) == said(links, stands)
    assert max(link.last for link in found) == max(link.last for link in links)


def test_a_busy_day_becomes_some_dozens() -> None:
    """Of 1,440 links of one run stay those at the edges of the scope, and four for the rest."""
    links, after = [], BEFORE
    for minute in range(1440):
        first, last = Position(2_000 + minute * 10), Position(2_005 + minute * 10)
        minute_ms = DAY.begin_ms + minute * MINUTE_MS
        links.append(
            EvidenceLink(
                Kind.SEGMENT, first, last, after, minute_ms - MINUTE_MS, minute_ms + 2 * MINUTE_MS, minute_ms, "run-1"
            )
        )
        after = last
    found = condense(links, SCOPE, [])
    assert len(found) < 30
    assert said(found, []) == said(links, [])
    whole = [(link.first, link.last) for link in found if link not in links]
    assert len(whole) == 4
    assert {*links[:6], *links[-6:]} <= {*found}
    assert hidden(found, whole, links[700].last)
    assert not hidden(found, whole, links[0].last)
    closer = condense(links, SCOPE, [links[700].last])
    whole = [(link.first, link.last) for link in closer if link not in links]
    assert links[700] in closer
    assert not hidden(closer, whole, links[700].last)
