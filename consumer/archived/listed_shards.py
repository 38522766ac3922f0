"""ListShards as a source of coverage."""

from collections.abc import Mapping

from consumer.stream.port import ShardInfo
from minutebook.coverage.topology import ShardRow, hash_range_of
from minutebook.errors import FormatError
from minutebook.format.aggregate import HashRange
from minutebook.proof.sources import Stream


def listed_stream(shards: Mapping[str, ShardInfo]) -> Stream:
    """Return the shards of ListShards; an empty `shards` means that the request failed."""
    rows = tuple(
        ShardRow(name, parsed_range(row.starting_hash_key, row.ending_hash_key), frozenset(row.parents))
        for name, row in shards.items()
    )
    return Stream(rows or None, frozenset(name for name, row in shards.items() if row.closed))


def parsed_range(first: str, last: str) -> HashRange | None:
    """Return a range of hash keys; None if it does not parse."""
    try:
        return hash_range_of(first, last)
    except FormatError:
        return None
