"""The evidence beside the segments that a scope's verdict rests on, as digests. Pure.

    marks      under the days that the scope touches, those that begin before its end; proven and lost ones are about
               their whole interval, so that one may lie under the next day, too, or under it alone; those behind its
               end that say of a skipped batch that it came later
    markers    of the first shards, and of what descends from them through shards that were not open at its end
    skips      that block times of the scope: what was proven when they were logged they do not touch
    tombstones of days nearby, those that there were: where dropped records' originals may be, and where chains stood

What comes later and concerns later times changes none of them: the next day's reshard, the marks of the next hours.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from compaction.inventory.shard_markers import ArchiveMarkers
from compaction.verdict.basis import Basis, ShardBasis, digest_of_lines
from minutebook.coverage.evidence import mark_evidence
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import Skip
from minutebook.coverage.topology import Topology
from minutebook.format.coverage_markers import FIRST_NAME, SHARDS
from minutebook.format.day import day_of_ms
from minutebook.format.metadata import Continuity
from minutebook.format.read_mark import BIRTH, read_mark_folder
from minutebook.format.read_mark import FOLDER as READ_MARKS
from minutebook.format.tombstone import FOLDER as TOMBSTONES
from minutebook.proof.reading import days_touched
from minutebook.proof.sources import Stream, sources_of
from minutebook.proof.statements import Statements


def with_evidence(basis: Basis, prefix: str, markers: ArchiveMarkers, scope: Interval) -> Basis:
    """Return the basis, whose shards are known, with the digests of its evidence."""
    shards = {shard.shard: shard for shard in basis.shards}
    concerned = _concerned(markers.statements, shards)
    blocking = {name: _blocking(markers.statements, shard, scope) for name, shard in shards.items()}
    return msgspec.structs.replace(
        basis,
        marks=digest_of_lines(_marks(markers.statements, concerned, blocking, scope)),
        markers=digest_of_lines(_markers(prefix, markers, concerned, shards, scope)),
        skips=digest_of_lines(_skips(blocking)),
        tombstones=digest_of_lines(_tombstones(prefix, markers.statements, basis.expired)),
    )


def _marks(
    statements: Statements, concerned: AbstractSet[str], blocking: Mapping[str, Sequence[Skip]], scope: Interval
) -> Iterator[str]:
    """Yield the marks that are about the scope.

    Of a shard that was born behind the scope none is, though the first evidence of a child has no beginning.
    """
    own = day_of_ms(scope.from_ms)
    for day in days_touched(scope):
        for mark, stored_ms in statements.marks.get(day, ()):
            is_about_interval = mark.continuity is Continuity.PROVEN or mark_evidence(mark).is_loss
            begins_ms = mark.from_ms if is_about_interval else mark.until_ms
            is_behind = begins_ms >= scope.until_ms
            if is_behind and not any(skip.follows(stored_ms) for skip in blocking.get(mark.shard_id, ())):
                continue
            if begins_ms == BIRTH and day != own and mark.shard_id not in concerned:
                continue
            yield f"{mark} {stored_ms}" if day == own else f"{day} {mark} {stored_ms}"


def _markers(
    prefix: str,
    markers: ArchiveMarkers,
    concerned: AbstractSet[str],
    shards: Mapping[str, ShardBasis],
    scope: Interval,
) -> Iterator[str]:
    """Yield the markers that say which shards there are, and what is wrong with any object beside the segments.

    Not with the marks of other days: a night reads those of several days at once, and a judgement does not.
    """
    statements = markers.statements
    own = tuple(read_mark_folder(prefix, day) for day in days_touched(scope))
    is_open = {name for name, shard in shards.items() if shard.is_open}
    for row in statements.rows:
        if not row.key.startswith(f"{prefix}{SHARDS}"):
            continue
        shard, _, name = row.key.removeprefix(f"{prefix}{SHARDS}").partition("/")
        if shard == FIRST_NAME or (shard in concerned and not (name == "end.json" and shard in is_open)):
            yield f"{row.key} {row.etag} {row.size} {row.last_modified_ms}"
    for problem in statements.problems:
        if not problem.key.startswith(f"{prefix}{READ_MARKS}") or problem.key.startswith(own):
            yield f"{problem.key} {problem.why}"
    yield str(markers.application)


def _concerned(statements: Statements, shards: Mapping[str, ShardBasis]) -> set[str]:
    """Return the first shards, and what descends from them without passing a shard that was open."""
    topology = Topology(sources_of(statements, {*statements.shards, *shards}, Stream()))
    concerned, todo = set[str](), list(topology.first_shards)
    while todo:
        shard_id = todo.pop()
        if shard_id in concerned:
            continue
        concerned.add(shard_id)
        known = shards.get(shard_id)
        if known is None or not known.is_open:
            todo += topology.children(shard_id)
    return concerned


def _tombstones(prefix: str, statements: Statements, expired: Iterable[str]) -> Iterator[str]:
    """Yield the tombstones that there were when the day was judged; those of days expired since then do not count."""
    keys = {f"{prefix}{TOMBSTONES}{day}.json" for day in expired}
    yield from (f"{row.key} {row.etag} {row.size}" for row in statements.rows if row.key in keys)


def _skips(blocking: Mapping[str, Sequence[Skip]]) -> Iterator[str]:
    for shard_id, skips in blocking.items():
        yield from (f"{shard_id} {skip}" for skip in skips)


def _blocking(statements: Statements, shard: ShardBasis, scope: Interval) -> list[Skip]:
    """Return the skipped batches of a shard that may touch the scope."""
    return [skip for skip in statements.of(shard.shard).skips if skip.may_block(scope, shard.proven_ms)]
