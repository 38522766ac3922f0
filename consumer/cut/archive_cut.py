"""Cut an archive at a time: the rules are those of `minutebook.cut`, applied to what S3 holds.

    T = 10:16                    minute  10:14   10:15   10:16   10:15   10:17
    a shard's chain, in order            [--a--] [--b--] [--c--] [--d--] [--e--]
                                                              the cut ^

The cut of a shard is the end of its last segment whose minute began before T: `d`, whose stamps stepped back over T.
`c` lies before it in the chain, so it belongs to the cut, too, and `through` is the end of minute 10:16.
"""

from collections.abc import Mapping
from typing import Final

from consumer.archived.chain_ends import find_ends
from consumer.archived.shard_markers import ArchivedShard, read_archived_shards
from minutebook.cut import END, NONE, Cut
from minutebook.format.arrival import TAIL_REACH_MINUTES
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position
from minutebook.index.names import ArchiveIndex
from minutebook.store.retrying import RetryingStore


def cut_archive(store: RetryingStore, prefix: str, application: ApplicationRecord, at_ms: int) -> Cut:
    """Return the cut at `at_ms` (epoch milliseconds).

    It is exact wherever its positions lie; that all lies before it that had arrived by then is what coverage says.
    Costs a LIST per thousand segments of the hours back to the last segment of each shard, and four HEADs a shard.
    """
    archived = read_archived_shards(store, prefix)
    begun = {
        shard_id: shard.oldest_minute(application) for shard_id, shard in archived.items() if shard.start is not None
    }
    ends = find_ends(store, prefix, begun, (at_ms - 1) // MINUTE_MS)
    lasts = {shard_id: end.tail.last for shard_id, end in ends.items()}
    return Cut(
        stream_arn=application.stream_arn,
        stream_created_ms=application.stream_created_ms,
        at=iso_time(at_ms),
        through=iso_time(_through_ms(store, prefix, lasts, at_ms)),
        shards={shard_id: _entry(shard, lasts.get(shard_id)) for shard_id, shard in sorted(archived.items())},
    )


def _entry(shard: ArchivedShard, last: Position | None) -> str:
    if shard.end is not None:
        end = shard.end.last_position()
        if end is None or (last is not None and end <= last):
            return END
    return NONE if last is None else str(last)


_REACH_MS: Final = TAIL_REACH_MINUTES * MINUTE_MS


def _through_ms(store: RetryingStore, prefix: str, lasts: Mapping[str, Position], at_ms: int) -> int:
    """Return the end of the last minute of a segment before the cut; a segment of a later minute may be one."""
    begin_ms = (at_ms - 1) // MINUTE_MS * MINUTE_MS
    before = [
        name.minute
        for names in ArchiveIndex(store, prefix).in_hours(begin_ms, begin_ms + _REACH_MS)
        for name in names
        if name.shard_id in lasts and name.first <= lasts[name.shard_id]
    ]
    return max([at_ms, *((minute + 1) * MINUTE_MS for minute in before)])
