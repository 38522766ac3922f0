"""Which shards there are, by everything that names them."""

from collections.abc import Iterable
from typing import NamedTuple

from minutebook.coverage.topology import ShardRow, ShardSources, first_rows, marked_rows
from minutebook.proof.statements import Statements


class Stream(NamedTuple):
    """What is known besides the archive: ListShards (None: not asked), those of it that are closed, KCL's rows."""

    listed: tuple[ShardRow, ...] | None = None
    closed: frozenset[str] = frozenset()
    leased: tuple[ShardRow, ...] = ()


def sources_of(statements: Statements, archived: Iterable[str], stream: Stream) -> ShardSources:
    """Return all that names shards; `archived` are those that have segments, marks or markers.

    Whoever has any of these was given to a processor, also before there was an `opened.json`. Not so one that is
    named by a batch that KCL skipped, or by an end that a damaged marker leaves alone.
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
