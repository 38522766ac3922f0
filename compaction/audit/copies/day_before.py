"""The day before: what is known of its event ids, so that a copy that crossed midnight is recognised."""

from typing import NamedTuple

from compaction.inventory.day_objects import DayObjects
from compaction.job.context import AuditOptions, JobContext
from compaction.job.day_view import list_again
from compaction.shard_groups.grouping import ShardGrouping
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder
from minutebook.published.reading import PublishedReader
from minutebook.store.tombstones import is_expired


class DayBefore(NamedTuple):
    """Where the ids of the day before are read.

    `inventory` are its raw objects, in groups; None when they are expired, then `published` are the keys of its
    Parquet files. `doubt` says why some of its ids are not known; empty when all are. `digest` changes with what is
    read, `size` is in bytes.
    """

    inventory: DayObjects | None
    published: tuple[str, ...] = ()
    doubt: str = ""
    digest: str = ""
    size: int = 0


def look_back(context: JobContext, day: Day, options: AuditOptions, grouping: ShardGrouping) -> DayBefore:
    """Find the day before `day`, listed into the same groups.

    A day without an object holds no id; an expired one is read as it was published.

    Raises:
        StoreError: the archive, or the place where days are published.
    """
    before = day.shift(-1)
    if not is_expired(context.archive, context.place.prefix, before):
        inventory = list_again(context, before, None, options.shard, grouping)
        return DayBefore(inventory, digest=inventory.digest(), size=inventory.size)
    if options.published is None:
        return _unknown(f"{before} is expired, and it was not said where it is published")
    place = options.published
    out = context.open(place.address)
    _, manifest = PublishedReader(out, DayFolder(place.prefix, before)).published()
    if manifest is None:
        return _unknown(f"{before} is expired, and not published at {out.uri(place.prefix)}")
    doubt = ""
    if manifest.removed:
        doubt = f"{before} is expired, and its Parquet files lack {manifest.removed} producer duplicates"
    # The manifest's inventory is that of the raw objects: expiring the day changes nothing for the day after it.
    files = tuple(file.key for file in manifest.files)
    return DayBefore(None, files, doubt, manifest.inventory, sum(file.bytes for file in manifest.files))


def _unknown(doubt: str) -> DayBefore:
    return DayBefore(None, doubt=doubt, digest="unknown")
