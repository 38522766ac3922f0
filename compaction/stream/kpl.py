"""What a Kinesis record holds, for the audit: what its producer put in, not only what KCL delivers of it.

KCL delivers nothing of an aggregate when one of its records hashes outside the shard, says nothing about it, and
drops what follows a malformed user record. Here those records are counted too, under the numbers that KCL would have
given them, so that such a loss is seen as `missing_in_archive`.
"""

from archive.format.aggregate import UserRecord, deaggregate


def user_records(partition_key: str, data: bytes) -> list[UserRecord]:
    """Take a Kinesis record apart. What is not an aggregate, or only begins like one, is a plain record."""
    delivery = deaggregate(partition_key, data)
    return [*delivery.delivered, *delivery.withheld]
