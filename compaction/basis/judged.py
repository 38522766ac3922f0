"""The basis of a verdict, made beside the judgement: what was read for it, and where it looked around the scope."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from compaction.audit.conclusion import Examined
from compaction.basis.evidence import with_evidence
from compaction.basis.outside import (
    Beside,
    Outside,
    OutsideQuery,
    UsedLinks,
    list_outside,
    with_neighbours,
    with_outside,
)
from compaction.inventory.neighbours import ChainLink
from compaction.inventory.tombstones import nearest_days
from compaction.job.context import AuditOptions, JobContext
from compaction.verdict.basis import EXPIRED, Basis, FolderBasis, ShardBasis, folder_basis
from minutebook.coverage.evidence import EvidenceLink, Kind
from minutebook.coverage.shard_coverage import ShardCoverage
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.proof.reading import JudgedScope
from minutebook.proof.statements import Statements
from minutebook.store.objects import ListedObject
from minutebook.store.parallel import in_parallel


def basis_of(
    context: JobContext,
    examined: Examined,
    options: AuditOptions,
    generation: str,
    day_before: tuple[FolderBasis, ...] = (),
) -> Basis:
    """Return what the verdict on an examined day rests on; `generation` is the name of its objects and settings."""
    view, inventory, judged = examined.view, examined.inventory, examined.coverage.judged
    facts, prefix = judged.facts, context.place.prefix
    statements = view.markers.statements
    query = OutsideQuery.of(prefix, facts.query.scope, context.clock.now_ms(), statements.tombstones)
    shards, used = shards_of(
        judged, statements, examined.judgement.shards, examined.judgement.neighbours.links, query
    )
    originals = _list_hours(context, examined.outside_hours)
    basis = Basis(
        judged_from=iso_time(view.judged_from_ms),
        generation=generation,
        settings=options.judged_by,
        folders=inventory.folders,
        day_before=day_before,
        originals=tuple(folder_basis(hour, rows) for hour, rows in originals.items()),
        restored=examined.restored_digest,
        shards=shards,
        expired=tuple(map(str, nearest_days(statements.tombstones, inventory.day))),
        duplicates=view.duplicates,
    )
    outside = list_outside(context.archive, query, shards)
    basis = with_outside(with_evidence(basis, prefix, view.markers, facts.query.scope), query, outside)
    is_as_it_was = is_as_used(outside, basis.shards, used, view.judged_from_ms)
    kept = {row.key: row.last_modified_ms for rows in originals.values() for row in rows}
    is_as_it_was &= max(kept.values(), default=0) < view.judged_from_ms
    is_as_it_was &= all(key in kept for keys in examined.outside_hours.values() for key in keys)
    return msgspec.structs.replace(basis, changed_meanwhile=examined.is_in_motion or not is_as_it_was)


def shards_of(
    judged: JudgedScope,
    statements: Statements,
    archived: Iterable[str],
    neighbours: Mapping[str, Iterable[ChainLink]],
    query: OutsideQuery,
) -> tuple[tuple[ShardBasis, ...], dict[str, UsedLinks]]:
    """Return what was used of each shard outside of the scope, without digests, and the links that were. Pure.

    `archived` are the shards that were judged by their chains, `neighbours` the segments outside that these join.
    """
    links: dict[str, list[Beside]] = defaultdict(list)
    for shard, facts in judged.facts.shards.items():
        links[shard] += map(_beside, facts.chain.links)
    for shard, segments in neighbours.items():
        links[shard] += [Beside(link.metadata.first, link.metadata.last, link.metadata.minute) for link in segments]
    names = sorted({*(shard.shard_id for shard in judged.verdict.shards), *archived})
    used = {shard: UsedLinks.of(links[shard], query) for shard in names}
    shards = tuple(
        with_neighbours(_shard(judged, statements, shard, has_links=bool(links[shard])), used[shard])
        for shard in names
    )
    return shards, used


def is_as_used(
    outside: Outside, shards: Iterable[ShardBasis], used: Mapping[str, UsedLinks], judged_from_ms: int
) -> bool:
    """Return whether what counts outside of the scope was not changed since the judgement began. Pure.

    Times are of whole seconds on S3: one of the same second may have come behind the search for neighbours.
    """
    listed = {
        (shard, str(row.parsed.first))
        for side in (outside.before, outside.after)
        for shard, rows in side.items()
        for row in rows
        if row.parsed is not None
    }
    expected = {
        (shard.shard, str(link.first))
        for shard in shards
        for side, links in zip((shard.before, shard.after), used[shard.shard], strict=True)
        for link in (links if side != EXPIRED else ())
        if not link.is_expired
    }
    return outside.newest_ms < judged_from_ms and expected <= listed


def _beside(link: EvidenceLink) -> Beside:
    is_expired = link.kind is Kind.EXPIRED
    # An expired run's minute only names its day, whose tombstone is asked.
    time_ms = link.arrival_min_ms if is_expired else link.until_ms + ARRIVAL_STEP_BACK_MS
    return Beside(link.first, link.last, time_ms // MINUTE_MS, is_expired)


def _shard(judged: JudgedScope, statements: Statements, shard: str, *, has_links: bool) -> ShardBasis:
    coverage, until_ms = judged.coverages.get(shard), judged.facts.query.scope.until_ms
    markers = statements.of(shard)
    return ShardBasis(
        shard=shard,
        looks_ahead=markers.end is None and (markers.start is not None or has_links),
        is_open=coverage is not None and coverage.is_open_at(until_ms),
        proven_ms=None if coverage is None else _proven_ms(coverage, until_ms),
    )


def _proven_ms(coverage: ShardCoverage, until_ms: int) -> int | None:
    """Return when the first evidence was stored that proves the shard up to a time, as skipped batches count it.

    Without marks that begin behind that time, which the basis holds only where a skipped batch asks for them.
    """
    stored = (
        piece.stored_ms
        for piece in coverage.evidence
        if piece.kind is not Kind.END
        and piece.continuity is Continuity.PROVEN
        and piece.until_ms >= until_ms
        and (piece.kind is not Kind.READ or piece.from_ms < until_ms)
    )
    return min((time_ms for time_ms in stored if time_ms is not None), default=None)


def _list_hours(context: JobContext, hours: Iterable[str]) -> dict[str, list[ListedObject]]:
    """List the hours outside of the day that hold originals of dropped records."""
    folders = sorted(hours)
    listed = in_parallel(lambda folder: list(context.archive.list_objects(folder)), folders)
    return dict(zip(folders, listed, strict=True))
