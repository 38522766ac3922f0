"""The view of a day before a line is read: taken in the order in which nothing is missed.

    checkpoints    KCL's, at the ends of segments that are committed
    markers        and read marks: what they name was committed before they were written
    objects        so what they name and the listing lacks is gone

What is committed meanwhile may be listed or not: a day whose chain looks broken is viewed again.
"""

from collections.abc import Mapping
from typing import NamedTuple, Self

from compaction.inventory.checkpoints import Checkpoints
from compaction.inventory.day_objects import DayListing, DayObjects, list_objects
from compaction.inventory.segments import GoneSegment
from compaction.inventory.shard_markers import ArchiveMarkers, duplicates_digest, read_markers
from compaction.job.context import JobContext
from compaction.shard_groups.grouping import ShardGrouping, grouping_of
from compaction.verdict.audit_document import AuditCheck
from minutebook.errors import StreamRefused, StreamUnavailable
from minutebook.format.day import Day, day_of_ms
from minutebook.format.minute import MINUTE_MS
from minutebook.proof.sources import Stream
from minutebook.published.generation import DayFolder, Pointer, inventory_beside
from minutebook.store.places import StorePrefix


class KnownPlaces(NamedTuple):
    """Where a day's readings are stored: the folder of the published generation, and that of the present one.

    `present` is empty where the output is only read. `inventory` is the key of the published inventory. Both
    `published` and `inventory` are empty before the day is published.
    """

    out: StorePrefix
    present: str
    published: str = ""
    inventory: str = ""

    @classmethod
    def of(cls, out: StorePrefix, folder: DayFolder, generation: str, pointer: Pointer | None) -> Self:
        """Return those of a day; `generation` is the one that its objects make now."""
        present = folder.generation(generation)
        if pointer is None:
            return cls(out, present)
        return cls(out, present, folder.generation(pointer.generation), inventory_beside(pointer.manifest))

    @classmethod
    def to_read(cls, out: StorePrefix, folder: DayFolder, pointer: Pointer | None) -> Self:
        """Return those of a day whose output is only read."""
        return cls.of(out, folder, "", pointer)._replace(present="")

    @property
    def stored(self) -> str:
        """The folder where what is read to judge the day again is stored."""
        return self.published or self.present


class DayView(NamedTuple):
    """The view. `judged_from_ms` is the service's time before it was taken.

    `duplicates` is the digest of the dropped duplicates that are kept of the scope. `stream` are the shards that
    ListShards and KCL's table name; `checks` say what could not be asked. `known` is where earlier readings of the
    objects were looked for; None: they were not. `retention_ms` is how long the stream keeps a record now; None: it
    could not be asked. `gone` are segments that the day was last published clean with and that are not listed, by
    shard, and `clean_inventory` is the key of the inventory that says so (`gone.with_gone`).
    """

    checkpoints: Checkpoints
    markers: ArchiveMarkers
    inventory: DayObjects
    judged_from_ms: int
    duplicates: str
    stream: Stream = Stream()
    checks: tuple[AuditCheck, ...] = ()
    known: KnownPlaces | None = None
    retention_ms: int | None = None
    gone: Mapping[str, tuple[GoneSegment, ...]] = {}
    clean_inventory: str = ""


def view_day(context: JobContext, day: Day, until_ms: int | None, shard: str | None = None) -> DayView:
    """View a day, or what of it came before a time; `shard` leaves the objects of others out."""
    prefix = context.place.prefix
    judged_from_ms = context.archive.now_ms(prefix)
    checkpoints = context.checkpoints()
    last = day_of_ms(day.end_ms if until_ms is None else until_ms)
    days = [day] if last == day else [day, last]
    markers = read_markers(context.archive, prefix, days)
    if markers.application is not None:
        checkpoints = checkpoints.believed(markers.application.application)
    stream, checks, retention_ms = _stream(context, checkpoints, markers)
    grouping = grouping_of(markers.shards, context.sizes.shards)
    inventory = list_into_groups(context, day, until_ms, shard, grouping)
    if markers.application is not None:
        inventory = inventory._replace(compression=markers.application.compression)
    end_ms = day.end_ms if until_ms is None else until_ms
    duplicates = duplicates_digest(context.archive, prefix, day, end_ms // MINUTE_MS)
    evidence = (checkpoints, markers.only(shard), inventory, judged_from_ms, duplicates)
    return DayView(*evidence, stream, checks, retention_ms=retention_ms)


def list_into_groups(
    context: JobContext, day: Day, until_ms: int | None, shard: str | None, grouping: ShardGrouping
) -> DayObjects:
    """List a day, or what of it came before a time, or one shard of it."""
    listing = DayListing(context.archive, context.place.address, context.group_source(grouping.total), grouping)
    return list_objects(listing, day, context.place.prefix, until_ms, shard)


def _stream(
    context: JobContext, checkpoints: Checkpoints, markers: ArchiveMarkers
) -> tuple[Stream, tuple[AuditCheck, ...], int | None]:
    """Ask which shards there are. A stream that cannot be asked is no error: the markers name them, too."""
    leased = Stream(leased=checkpoints.rows)
    if context.shards is None or markers.application is None:
        return leased, (), None
    try:
        listed = context.shards()
    except (StreamRefused, StreamUnavailable) as exc:
        return leased, (AuditCheck(id="stream_listed", status="warning", message=str(exc)),), None
    application = markers.application
    if (listed.arn, listed.created_ms) != (application.stream_arn, application.stream_created_ms):
        message = f"the prefix belongs to {application.stream_arn}, and the stream is {listed.arn}"
        return leased, (AuditCheck(id="stream_listed", status="warning", message=message),), None
    return leased._replace(listed=listed.rows, closed=listed.closed), (), listed.retention_ms
