"""The name of a generation: a hash of its objects and of everything else that its rows depend on.

So an object that comes late gives the day another name, and `rewrite` reads and publishes it anew.
"""

from collections.abc import Callable
from typing import Final

from compaction.audit.collecting import DayBefore
from compaction.columns.columns import Columns
from compaction.inventory.day_objects import DayObjects
from compaction.job.context import AuditOptions
from minutebook.published.schema import SCHEMA_VERSION

FORMATS: Final = ("archive-1", f"parquet-{SCHEMA_VERSION}")


def generation_of(
    objects: DayObjects, options: AuditOptions, before: DayBefore | None, columns: Columns | None
) -> str:
    """Return the name of a day's generation: the same input gives the same name.

    The rows also depend on typed columns and, without producer duplicates, on the id's path and the day before.
    """
    salt: tuple[str, ...] = FORMATS if columns is None else (*FORMATS, columns.digest)
    if options.drop_producer_duplicates and before is not None:
        salt = (*salt, f"without repeated {options.event_id}", before.digest)
    return objects.digest(*salt)[:16]


def hour_generation_of(
    digest: Callable[..., str], event_id: str | None, columns: Columns | None, zstd_level: int
) -> str:
    """Return the name of an hour's generation; `digest` hashes its objects with a salt.

    The compression level and the path of the stored event ids are part of it: with others the hour is published anew.
    """
    salt = () if columns is None else (columns.digest,)
    ids = () if event_id is None else (f"ids under {event_id}",)
    return digest(*FORMATS, *salt, "an hour", f"zstd-{zstd_level}", *ids)[:16]
