"""What is left of an expired day, read back."""

import json

from minutebook.format.tombstone import ExpiredRun, ExpiredShard, Tombstone, decode_tombstone, encode_tombstone

TOMBSTONE = Tombstone(
    format=1,
    day="2026-10-12",
    generation="9f2c",
    segments=1,
    bytes=10,
    shards={
        "shardId-000000000000": ExpiredShard(
            runs=[ExpiredRun(after="4:0", first="5:0", last="6:1", segments=1)], kept=[]
        )
    },
    writer="w",
    written_at="2026-11-21T10:16:00.000Z",
)


def test_a_field_that_a_later_version_added_is_passed_over() -> None:
    """At every level: a rolling upgrade must not stop what is not upgraded yet."""
    fields = json.loads(encode_tombstone(TOMBSTONE))
    shard = fields["shards"]["shardId-000000000000"]
    for level in (fields, shard, shard["runs"][0]):
        level["intervals"] = [[1, 2]]
    assert decode_tombstone(json.dumps(fields).encode(), "k") == TOMBSTONE
