"""What earlier runs have read of a day: the driver finds the files, and tasks join them to the listing.

The driver holds the names of these files, and nothing per object.
"""

from typing import Final

import structlog

from compaction.audit.day_view import DayView, KnownPlaces
from compaction.audit.shards.known import JoinArgument, KnownPiece, PieceArgument, join_known, read_piece
from compaction.job.context import JobContext
from compaction.tasks.finished import find_facts
from minutebook.errors import FormatError, StoreRefused, StoreUnavailable
from minutebook.published.generation import DayFolder
from minutebook.published.reading import PublishedReader
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage

_FILES: Final = 32
"""Files of facts that one task reads."""
_REFUSED_STEP: Final = "use --level keys, which reads the lines itself, or let this role read the output"
_UNTRUSTED_STEP: Final = "use --level keys, which reads the lines itself; find out who writes below the output"


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


def with_published(context: JobContext, view: DayView, out: StorePrefix | None) -> DayView:
    """Return the view with what is known of each object by the day that is published at `out`, which is only read.

    As it is where nothing is published, or cannot be read: then no line counts as read.
    """
    if out is None:
        return view
    folder, log = DayFolder(out.prefix, view.inventory.day), structlog.get_logger()
    try:
        pointer = PublishedReader(context.open(out.address), folder).current().pointer
        if pointer is not None:
            return with_known(context, view, KnownPlaces.of(out, folder, pointer.generation, pointer))
    except FormatError as exc:
        log.warning("published_day_not_trusted", day=folder.name, reason=str(exc), next_step=_UNTRUSTED_STEP)
    except (StoreRefused, StoreUnavailable) as exc:
        log.warning("published_facts_out_of_reach", day=folder.name, reason=str(exc), next_step=_REFUSED_STEP)
    return view


def _batches(out: RetryingStorage, folder: str) -> list[tuple[str, ...]]:
    keys = sorted(key for of_task in find_facts(out, folder, 0).values() for key in of_task)
    return [tuple(keys[at : at + _FILES]) for at in range(0, len(keys), _FILES)]
