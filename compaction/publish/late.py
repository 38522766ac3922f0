"""What differs between a day and what the generation that readers see was made from."""

from compaction.inventory.changes import changes
from compaction.inventory.day_objects import DayObjects
from compaction.publish.publisher import Publisher
from compaction.verdict.findings import SAMPLES, Code, Finding, finding
from minutebook.format.minute import minute_text
from minutebook.published.generation import Pointer


def late_minutes(publisher: Publisher, pointer: Pointer | None, objects: DayObjects) -> list[Finding]:
    """Compare the day with what the generation that readers see now was made from.

    Raises:
        StoreUnavailable, StoreRefused: the output.
    """
    if pointer is None:
        return []
    found = changes(objects.prefix, publisher.inventory(pointer) or (), objects.spool.rows(), SAMPLES)
    if not found.total or not found.compared:
        return []
    return [
        finding(
            Code.LATE_MINUTES,
            f"{found.total} object(s) in {len(found.minutes)} minute(s) differ from the published generation "
            f"{pointer.generation}: a new one replaces it",
            severity="warning",
            minute=minute_text(min(found.minutes)) if found.minutes else None,
            keys=found.keys,
            count=found.total,
        )
    ]
