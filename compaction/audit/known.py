"""What earlier runs have read of a day: the driver finds the files, and tasks join them to the listing.

The driver holds the names of these files, and nothing per object.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self

import structlog

from compaction.audit.day_view import DayView, KnownPlaces
from compaction.audit.gone import with_gone
from compaction.audit.shards.known import JoinArgument, KnownPiece, PieceArgument, join_known, read_piece
from compaction.job.context import AuditOptions, JobContext
from compaction.publish.sweep import symlinked
from minutebook.errors import FormatError, StoreRefused, StoreUnavailable
from minutebook.published.generation import FACTS_FOLDER, DayFolder, Pointer, is_audit, is_inventory
from minutebook.published.reading import PublishedReader
from minutebook.store.retrying import RetryingStorage

_FILES: Final = 32
"""Files of facts that one task reads."""
_REFUSED_STEP: Final = "let this role read the output: without it nobody compares objects with their first content"
_UNTRUSTED_STEP: Final = "run compact for the day, which publishes it again; find out who writes below the output"


class DayFacts(NamedTuple):
    """What the output holds of a day: the keys of facts by the folder of their generation, and who was published.

    `published` are the folders of generations with an object beside a manifest that only a run that publishes
    stores, or, where all of them are gone, with a file that the symlinks name. `inventory` is the newest one that
    lies there; empty: none.
    """

    files: Mapping[str, Sequence[str]]
    published: frozenset[str]
    inventory: str

    @classmethod
    def of(cls, out: RetryingStorage, folder: DayFolder) -> Self:
        """Return those of a day, by one LIST."""
        files: dict[str, list[str]] = defaultdict(list)
        published, inventories = set[str](), list[tuple[int, str]]()
        for row in out.list_objects(folder.path):
            home = folder.generation(folder.generation_of(row.key))
            if row.key.startswith(folder.manifests) and not is_audit(row.key):
                published.add(folder.generation(folder.generation_beside(row.key)))
                inventories += [(row.last_modified_ms, row.key)] if is_inventory(row.key) else []
            elif row.key.startswith(f"{home}{FACTS_FOLDER}") and row.key.endswith(".parquet"):
                files[home].append(row.key)
        if files and not published:
            published |= {folder.generation(folder.generation_of(key)) for key in symlinked(out, folder)}
        return cls(files, frozenset(published), max(inventories, default=(0, ""))[1])


def with_known(context: JobContext, view: DayView, places: KnownPlaces) -> DayView:
    """Return the view with what is known of each object (`inventory.segments.Known`).

    First contents are looked for in all facts that the output holds of the day: the pointer may be gone, or be an
    older one that was put back.
    """
    inventory, out = view.inventory, context.open(places.out.address)
    facts = DayFacts.of(out, DayFolder(places.out.prefix, inventory.day))
    published = facts.published | {places.published} - {""}
    pieces = [
        KnownPiece(
            tuple(keys[at : at + _FILES]), is_published=folder in published, is_current=folder == places.published
        )
        for folder, keys in sorted(facts.files.items())
        for at in range(0, len(keys), _FILES)
    ]
    if key := places.inventory or facts.inventory:
        pieces.append(KnownPiece(inventory=key))
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
                bool(published),
                places.out.address,
                places.present if facts.files.keys() - {places.present} else "",
            )
            for number in inventory.grouping.numbers
        }
        rows = rows.union(known, inventory.groups).repartition(join_known, joins, inventory.grouping.total)
    return view._replace(inventory=inventory._replace(rows=rows, groups=inventory.grouping.total), known=places)


def with_published(context: JobContext, view: DayView, options: AuditOptions) -> DayView:
    """Return the view with what is known of each object, and what is gone, by what lies at the output.

    The output is only read. Where it cannot be, no line counts as read, and nothing is compared. Nor does a line
    count as read at level inventory where nothing is published.
    """
    out = options.published
    if out is None:
        return view
    folder, log = DayFolder(out.prefix, view.inventory.day), structlog.get_logger()
    pointer: Pointer | None = None
    try:
        reader = PublishedReader(context.open(out.address), folder)
        try:
            pointer = reader.current().pointer
        except FormatError as exc:
            log.warning("published_day_not_trusted", day=folder.name, reason=str(exc), next_step=_UNTRUSTED_STEP)
        view = with_gone(view, reader, pointer)
        if pointer is not None or options.level != "inventory":
            return with_known(context, view, KnownPlaces.to_read(out, folder, pointer))
    except (StoreRefused, StoreUnavailable) as exc:
        log.warning("published_facts_out_of_reach", day=folder.name, reason=str(exc), next_step=_REFUSED_STEP)
    return view
