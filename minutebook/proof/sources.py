"""All sources about shards."""

from collections.abc import Iterable
from typing import NamedTuple

from minutebook.coverage.topology import ShardRow, ShardSources, first_rows, marked_rows
from minutebook.proof.statements import Statements


class Stream(NamedTuple):
    """Sources outside of the archive: ListShards (None: not called), the closed shards in it, KCL's lease rows."""

    listed: tuple[ShardRow, ...] | None = None
    closed: frozenset[str] = frozenset()
    leased: tuple[ShardRow, ...] = ()


def sources_of(statements: Statements, archived: Iterable[str], stream: Stream) -> ShardSources:
    """Return all sources; `archived` are the shards with segments, marks or markers.

    KCL assigned each of these to a processor, also in versions without `opened.json`.
    """
    shards = statements.shards
    starts = {shard_id: markers.start for shard_id, markers in shards.items() if markers.start is not None}
    opened = {shard_id: markers.opened for shard_id, markers in shards.items() if markers.opened is not None}
    ends = {shard_id: markers.end for shard_id, markers in shards.items() if markers.end is not None}
    known = sorted(archived)
    return ShardSources(
        first=None if statements.first is None else first_rows(statements.first),
        marked=marked_rows(known, starts, opened, ends),
        opened=frozenset(known),
        ended=frozenset(ends),
        leased=stream.leased,
        listed=stream.listed,
        closed=stream.closed,
    )
