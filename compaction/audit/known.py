"""What earlier runs have read of a day: the driver finds the files, and tasks join them to the listing.

The driver holds the names of these files, and nothing per object.
"""

from typing import Final

from compaction.audit.day_view import DayView, KnownPlaces
from compaction.audit.shards.known import JoinArgument, KnownPiece, PieceArgument, join_known, read_piece
from compaction.job.context import JobContext
from compaction.tasks.finished import find_facts
from minutebook.store.retrying import RetryingStorage

_FILES: Final = 32
"""Files of facts that one task reads."""


def with_known(context: JobContext, view: DayView, places: KnownPlaces) -> DayView:
    """Return the view with what is known of each object (`inventory.segments.Known`)."""
    inventory, out = view.inventory, context.open(places.out.address)
    pieces = [
        KnownPiece(files, is_published=folder == places.published)
        for folder in sorted({places.present, places.published} - {""})
        for files in _batches(out, folder)
    ]
    if places.inventory:
        pieces.append(KnownPiece(inventory=places.inventory))
    rows = inventory.rows
    if pieces:
        argument = PieceArgument(places.out.address, inventory.prefix, inventory.grouping)
        source = context.group_source(inventory.grouping.total)
        known = source.scatter(pieces).repartition(
            read_piece, dict.fromkeys(range(len(pieces)), argument), inventory.grouping.total
        )
        joins = {
            number: JoinArgument(
                number,
                inventory.prefix,
                inventory.compression,
                bool(places.published),
                places.out.address,
                "" if places.present == places.published else places.present,
            )
            for number in inventory.grouping.numbers
        }
        rows = rows.union(known, inventory.groups).repartition(join_known, joins, inventory.grouping.total)
    return view._replace(inventory=inventory._replace(rows=rows, groups=inventory.grouping.total), known=places)


def _batches(out: RetryingStorage, folder: str) -> list[tuple[str, ...]]:
    keys = sorted(key for of_task in find_facts(out, folder, 0).values() for key in of_task)
    return [tuple(keys[at : at + _FILES]) for at in range(0, len(keys), _FILES)]
