"""Judge a scope by names and metadata, without reading lines and without Spark.

`judge_archive` shows the steps; the audit has read the links of the scope's segments already.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from minutebook.coverage.chain import Reason
from minutebook.coverage.evidence import EvidenceLink
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import ShardCoverage, ShardFacts
from minutebook.coverage.topology import ShardSources, Topology
from minutebook.coverage.verdict import State, Verdict, judge_scope
from minutebook.format.day import Day, day_of_ms
from minutebook.format.minute import MINUTE_MS
from minutebook.index.last_segments import LastSegments, none_published
from minutebook.index.names import ArchiveIndex
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.search import Search, SegmentLinks
from minutebook.proof.sources import sources_of
from minutebook.proof.statements import DamagedObject, Statements, read_marks, read_statements
from minutebook.store.retrying import RetryingStore

_ATTEMPTS: Final = 3
_FEW_SHARDS: Final = 10
"""So many are listed one by one; a LIST of all shards' marks has a thousand a page."""


class ScopeFacts(NamedTuple):
    """All facts about a scope. `digest` identifies what was read besides the scope's own segments."""

    query: ProofQuery
    shards: Mapping[str, ShardFacts]
    sources: ShardSources
    problems: tuple[DamagedObject, ...]
    digest: str


class JudgedScope(NamedTuple):
    """The verdict, its facts, and the coverage of each known shard."""

    verdict: Verdict
    facts: ScopeFacts
    coverages: Mapping[str, ShardCoverage]


def judge_archive(
    store: RetryingStore, prefix: str, query: ProofQuery, published: LastSegments = none_published
) -> JudgedScope:
    """Read and judge a scope by names and metadata.

    If a segment is missing, everything is read again, marks first, because the archive grows meanwhile. The state is
    UNKNOWN if the facts differ in every attempt.
    """
    before: ScopeFacts | None = None
    for _ in range(_ATTEMPTS):
        statements = read_statements(store, prefix, days_touched(query.scope))
        facts = read_facts(store, prefix, query, statements, read_links(store, prefix, query.scope), published)
        judged = judge_facts(facts)
        if Reason.BROKEN_CHAIN not in judged.verdict.reasons or facts == before:
            return judged
        before = facts
    return judged._replace(verdict=judged.verdict._replace(state=State.UNKNOWN))


def days_touched(scope: Interval) -> list[Day]:
    """Return the days of a scope, its end included: a mark there may show a shard open."""
    return [Day(number) for number in range(day_of_ms(scope.from_ms).number, day_of_ms(scope.until_ms).number + 1)]


def read_links(
    store: RetryingStore, prefix: str, scope: Interval, asks_of: Callable[[str], bool] = lambda _: True
) -> dict[str, list[EvidenceLink]]:
    """Return the links of the segments of the scope's minutes, by shard, of those asked for: one HEAD each."""
    index = ArchiveIndex(store, prefix)
    inside = [
        name
        for hour in index.in_hours(*scope)
        for name in hour
        if scope.from_ms <= name.minute * MINUTE_MS < scope.until_ms and asks_of(name.shard_id)
    ]
    links: dict[str, list[EvidenceLink]] = defaultdict(list)
    for shard_id, link in SegmentLinks(store, index).of(inside):
        links[shard_id].append(link)
    return links


def read_facts(
    store: RetryingStore,
    prefix: str,
    query: ProofQuery,
    statements: Statements,
    links: Mapping[str, Iterable[EvidenceLink]],
    published: LastSegments = none_published,
) -> ScopeFacts:
    """Search the evidence that the scope depends on. `links` are those of its segments, listed after `statements`.

    `published` are hints for the search before the scope: they save requests, and decide nothing.
    """
    search = Search(store, prefix, query, statements, links, published)
    shards = search.run()
    sources = sources_of(statements, shards, query.stream)
    digest = hashlib.sha256(repr((query.scope, query.begin_ms, query.stream)).encode())
    for part in (
        (row[:3] for row in statements.rows),
        (mark for marks in search.marks.values() for mark in marks),
        search.outside,
    ):
        digest.update("\n".join(sorted(map(_digest_text, part))).encode())
    return ScopeFacts(query, shards, sources, (*statements.problems, *search.problems), digest.hexdigest())


def _digest_text(value: object) -> str:
    """Return a value as text. Digests are in the names of published audits, so links keep their first class name."""
    return repr(value).replace("EvidenceLink(kind=", "Link(kind=")


def judge_facts(facts: ScopeFacts) -> JudgedScope:
    """Judge a scope by its facts; pure."""
    coverages = {shard_id: ShardCoverage(shard) for shard_id, shard in facts.shards.items()}
    verdict = judge_scope(facts.query.scope, Topology(facts.sources), coverages, begin_ms=facts.query.begin_ms)
    return JudgedScope(verdict, facts, coverages)


def judge_shards(
    store: RetryingStore, prefix: str, query: ProofQuery, statements: Statements
) -> Mapping[str, ShardCoverage]:
    """Return the coverage of `query.shards` in a scope, by names and metadata.

    `statements` need no marks: those of these shards are read here, before their segments are listed.
    """
    shards = sorted(query.shards or ())
    problems = list[DamagedObject]()
    marks = {}
    for day in days_touched(query.scope):
        if len(shards) <= _FEW_SHARDS:
            rows = [row for shard in shards for row in read_marks(store, prefix, day, problems, shard)]
        else:
            rows = [row for row in read_marks(store, prefix, day, problems) if query.asks_of(row.mark.shard_id)]
        marks[day] = tuple(rows)
    facts = read_facts(
        store, prefix, query, statements._replace(marks=marks), read_links(store, prefix, query.scope, query.asks_of)
    )
    return {shard_id: ShardCoverage(facts.shards.get(shard_id, ShardFacts(shard_id))) for shard_id in shards}
