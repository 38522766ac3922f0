"""What a generation is called: by the objects that it is made of, and by everything else that its rows depend on."""

from collections.abc import Callable
from typing import Final

from compaction.audit.copies.day_before import DayBefore
from compaction.columns.columns import Columns
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.inventory import Inventory
from compaction.job.context import AuditOptions
from minutebook.published.schema import SCHEMA_VERSION

FORMATS: Final = ("archive-1", f"parquet-{SCHEMA_VERSION}")


def generation_of(
    inventory: DayObjects | Inventory, options: AuditOptions, before: DayBefore | None, columns: Columns | None
) -> str:
    """Return the name of the generation that an inventory makes: the same input, the same name.

    The rows also depend on typed columns, and, without producer duplicates, on the id's path and the day before.
    """
    salt: tuple[str, ...] = FORMATS if columns is None else (*FORMATS, columns.digest)
    if options.drop_producer_duplicates and before is not None:
        salt = (*salt, f"without repeated {options.event_id}", before.digest)
    return inventory.digest(*salt)[:16]


def hour_generation_of(
    digest: Callable[..., str], event_id: str | None, columns: Columns | None, zstd_level: int
) -> str:
    """Return the name of the generation that an hour's objects make; `digest` is their hash with some salt.

    The level of compression is in it: whoever asks for another one does not want the hour's files. And the path of
    the ids that are kept: an hour that was published without them is published anew when they are asked for.
    """
    salt = () if columns is None else (columns.digest,)
    kept = () if event_id is None else (f"ids under {event_id}",)
    return digest(*FORMATS, *salt, "an hour", f"zstd-{zstd_level}", *kept)[:16]
