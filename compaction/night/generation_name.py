"""The name of a generation: a hash of its objects and of everything else that its rows depend on.

So an object that comes late gives the day another name, and `rewrite` reads and publishes it anew.
"""

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
