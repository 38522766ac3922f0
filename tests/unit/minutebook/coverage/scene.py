"""Small chains, marks and shards for the tests of coverage. Times are hours and minutes of one day."""

from minutebook.coverage.chain import ChainView
from minutebook.coverage.evidence import Evidence, EvidenceLink, Kind
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import ShardCoverage, ShardFacts, Skip
from minutebook.coverage.topology import ShardRow
from minutebook.format.day import Day
from minutebook.format.metadata import ChainStart, Continuity, Predecessor
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH

SHARD = "shardId-000000000000"
DAY = Day.parse("2026-11-21")
START = ChainStart("TRIM_HORIZON")
PROVEN, UNPROVEN, LOST = Continuity.PROVEN, Continuity.UNPROVEN, Continuity.LOST


def at(hour: int, minute: float = 0) -> int:
    """Return a time of the day; hours below 0 and above 23 lie on other days."""
    return DAY.begin_ms + hour * 60 * MINUTE_MS + int(minute * MINUTE_MS)


def span(begin: int, end: int) -> Interval:
    """Return an interval of whole hours."""
    return Interval(at(begin), at(end))


def link(
    number: int,
    hour: int,
    minute: int = 0,
    *,
    after: Predecessor | int | None = None,
    run: str | None = "run",
    claim: Continuity | None = None,
    since: int | None = None,
) -> EvidenceLink:
    """Return the segment of one record: the `number`th of its shard, which follows the one before it."""
    start = at(hour, minute)
    if after is None:
        after = START if number == 1 else number - 1
    return EvidenceLink(
        Kind.SEGMENT,
        Position(number),
        Position(number),
        Position(after) if isinstance(after, int) else after,
        until_ms=start - MINUTE_MS,
        begins_ms=start + 2 * MINUTE_MS,
        arrival_min_ms=start,
        run=run,
        claim=claim,
        from_ms=since,
    )


def first(hour: int, minute: int = 0, *, since: int = BIRTH, claim: Continuity = PROVEN) -> EvidenceLink:
    """Return a chain's first segment."""
    return link(1, hour, minute, claim=claim, since=since)


def piece(
    since: int,
    until: int,
    number: int | None = None,
    *,
    kind: Kind = Kind.READ,
    continuity: Continuity = PROVEN,
    shard: str = SHARD,
    stored: int | None = None,
) -> Evidence:
    """Return the evidence of a mark at the `number`th record."""
    return Evidence(shard, kind, since, until, None if number is None else Position(number), continuity, stored)


def coverage(
    *links: EvidenceLink,
    pieces: tuple[Evidence, ...] = (),
    skips: tuple[Skip, ...] = (),
    ended: int | None = None,
    shard: str = SHARD,
    begun: int | None = 1,
    searched: bool = True,
    opened: int | None = None,
) -> ShardCoverage:
    """Return the coverage of one shard whose archive was searched from end to end, unless told otherwise."""
    begun_at = Position(begun) if begun is not None and links else None
    view = ChainView(tuple(links), begun_at, to_the_beginning=searched, to_the_end=searched)
    return ShardCoverage(ShardFacts(shard, view, pieces, skips, ended, opened))


def marked(shard: str, *pairs: tuple[int, int]) -> ShardCoverage:
    """Return the coverage of a shard without a record, with a mark for each pair of hours; 0: its birth."""
    pieces = tuple(piece(at(begin) if begin else BIRTH, at(end), shard=shard) for begin, end in pairs)
    return coverage(pieces=pieces, shard=shard)


def row(shard: str, *parents: str) -> ShardRow:
    """Return a row without hash keys."""
    return ShardRow(shard, None, frozenset(parents))
