"""Cut an archive at a time: the rules are those of `minutebook.cut`, applied to what S3 holds.

    T = 10:16                    minute  10:14   10:15   10:16   10:15   10:17
    a shard's chain, in order            [--a--] [--b--] [--c--] [--d--] [--e--]
                                                              the cut ^

The cut of a shard is the end of its last segment whose minute began before T: `d`, whose stamps stepped back over T.
`c` lies before it in the chain, so it belongs to the cut, too, and `through` is the end of minute 10:16.

Of an expired day the tombstone tells where its runs end, and not which minutes they held: at its end it is divided,
and within it nobody can tell.
"""

from collections.abc import Iterator, Mapping

from consumer.archived.chain_ends import find_ends
from consumer.archived.shard_markers import ArchivedShard, read_archived_shards
from minutebook.cut import END, NONE, Cut
from minutebook.errors import ObjectVanished, SafetyRefusal
from minutebook.format.day import Day, day_of_ms, hour_of_ms
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position, SequenceRange
from minutebook.format.tombstone import Tombstone
from minutebook.index.names import ArchiveIndex
from minutebook.store.retrying import RetryingStore
from minutebook.store.tombstones import list_tombstones, read_tombstone


def cut_archive(store: RetryingStore, prefix: str, application: ApplicationRecord, at_ms: int) -> Cut:
    """Return the cut at `at_ms` (epoch milliseconds).

    It is exact wherever its positions lie; that all lies before it that had arrived by then is what coverage says.
    Costs a LIST per thousand segments of the hours back to the last segment of each shard and of all that follows
    the time, four HEADs a shard, and a GET per expired day. Raises SafetyRefusal for a time within an expired day,
    FormatError for a tombstone that cannot be read.
    """
    archived = read_archived_shards(store, prefix)
    expired = _read_expired(store, prefix, at_ms)
    begun = {
        shard_id: shard.oldest_minute(application) for shard_id, shard in archived.items() if shard.start is not None
    }
    ends = find_ends(store, prefix, begun, (at_ms - 1) // MINUTE_MS)
    lasts = {shard_id: end.tail.last for shard_id, end in ends.items()}
    for day, tombstone in expired.items():
        if day.end_ms <= at_ms:
            for shard_id, span in _runs(tombstone):
                lasts[shard_id] = max(span.last, lasts.get(shard_id, span.last))
    until_ms = max(
        [
            at_ms,
            *((minute + 1) * MINUTE_MS for minute in _minutes_before(store, prefix, lasts, at_ms)),
            *(day.end_ms for day, tombstone in expired.items() if _reaches_before(tombstone, lasts)),
        ]
    )
    shard_ids = sorted({*archived, *lasts})
    return Cut(
        stream_arn=application.stream_arn,
        stream_created_ms=application.stream_created_ms,
        at=iso_time(at_ms),
        through=iso_time(until_ms),
        shards={shard_id: _entry(archived.get(shard_id), lasts.get(shard_id)) for shard_id in shard_ids},
    )


def _read_expired(store: RetryingStore, prefix: str, at_ms: int) -> dict[Day, Tombstone]:
    days = list(list_tombstones(store, prefix))
    divided = next((day for day in days if day.begin_ms < at_ms < day.end_ms), None)
    if divided is not None:
        raise SafetyRefusal(
            f"{iso_time(at_ms)} lies within {divided}, whose raw segments are expired: which of its records had "
            "arrived by then cannot be told",
            next_step=f"that day is expired: cut at its end, --at {iso_time(divided.end_ms)}",
        )

    tombstones = store.read_many(lambda day: read_tombstone(store, prefix, day, must_exist=True), days)
    if None in tombstones:
        raise ObjectVanished("a tombstone was listed and is gone", next_step="find out who deletes objects")
    return {day: tombstone for day, tombstone in zip(days, tombstones, strict=True) if tombstone is not None}


def _runs(tombstone: Tombstone) -> Iterator[tuple[str, SequenceRange]]:
    """Yield each run's shard and positions."""
    for shard_id, shard in tombstone.shards.items():
        for run in shard.runs:
            yield shard_id, run.span


def _reaches_before(tombstone: Tombstone, lasts: Mapping[str, Position]) -> bool:
    """Return whether a record of an expired day lies before the cut."""
    return any(shard_id in lasts and span.first <= lasts[shard_id] for shard_id, span in _runs(tombstone))


def _entry(shard: ArchivedShard | None, last: Position | None) -> str:
    if shard is not None and shard.end is not None:
        end = shard.end.last_position()
        if end is None or (last is not None and end <= last):
            return END
    return NONE if last is None else str(last)


def _minutes_before(store: RetryingStore, prefix: str, lasts: Mapping[str, Position], at_ms: int) -> Iterator[int]:
    """Yield the minutes, of the cut's hour and of all later ones, that hold a segment before the cut.

    All is listed, because a stamp may lie any time ahead of its neighbours', and of now.
    """
    index, begin = ArchiveIndex(store, prefix), hour_of_ms(at_ms - 1)
    for day in index.days(day_of_ms(at_ms - 1), 1):
        hours = [hour for hour in index.hours(day, 1) if hour >= begin]
        for names in store.read_many(index.in_period, hours):
            for name in names:
                if name.shard_id in lasts and name.first <= lasts[name.shard_id]:
                    yield name.minute
