"""How many user records KCL makes of a Kinesis record: by how many positions it may be followed."""

from archive.format.aggregate import EVERY_HASH_KEY, HashRange, deaggregate


def count_user_records(data: bytes, hash_range: HashRange = EVERY_HASH_KEY) -> int:
    """Return how many user records KCL delivers of a payload on a shard: 1 when it is not an aggregate."""
    return len(deaggregate("", data, hash_range).delivered)
