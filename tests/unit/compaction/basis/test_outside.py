"""What counts of the archive around a scope."""

from compaction.basis.outside import OutsideQuery, outside_of
from compaction.inventory.segments import make_row
from compaction.verdict.basis import ShardBasis
from minutebook.format.day import MINUTES_A_DAY, MINUTES_AN_HOUR
from minutebook.format.keys import segment_key
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.store.objects import ListedObject
from tests.corpus.model import PREFIX
from tests.lives.world import FIRST_DAY

BEGIN, END = FIRST_DAY.first_minute, FIRST_DAY.first_minute + MINUTES_A_DAY


def test_of_a_near_shard_the_same_counts_whatever_is_listed() -> None:
    """A quiet shard has whole hours listed, by a judgement with the rows of all shards, by a night without.

    So an object of another minute, which is no segment but has the key of one, does not count.
    """
    query = OutsideQuery(PREFIX, BEGIN, END, (END + MINUTES_AN_HOUR) * MINUTE_MS, {})
    near = ShardBasis(shard="shardId-000000000000", first_after="5:0", minute_after=END + 1)
    quiet = ShardBasis(shard="shardId-000000000001", looks_ahead=True)
    keys = [segment_key(PREFIX, shard.shard, END + 30, Position(4)) for shard in (near, quiet)]
    rows = [make_row(PREFIX, ListedObject(key, 1, "e", 0)) for key in keys]
    outside = outside_of(query, [near, quiet], rows)
    assert {shard: [row.key for row in counted] for shard, counted in outside.after.items()} == {
        quiet.shard: keys[1:]
    }
