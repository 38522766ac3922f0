"""Until when the whole stream is archived, by the newest boundary, and what holds the next one."""

from typing import Final

import msgspec

from minutebook.completeness.objects import BoundaryObjects
from minutebook.completeness.publisher import HoldReport, what_holds
from minutebook.completeness.query import read_completeness
from minutebook.format.boundaries import NamedGap
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.store.retrying import RetryingStore

_LATE_MS: Final = 5 * MINUTE_MS
"""A boundary is published one to five minutes after its time."""


class CompleteTime(msgspec.Struct, frozen=True, kw_only=True):
    """Every record that arrived from `since` until `until` is archived, but for `gaps`; None: no boundary yet.

    `held` is filled when the next boundary is late.
    """

    since: str | None
    until: str | None
    gaps: list[NamedGap]
    held: list[HoldReport]


def read_complete(
    store: RetryingStore, prefix: str, record: ApplicationRecord, every_ms: int, now_ms: int
) -> CompleteTime | None:
    """Return what the boundaries say; None if the settings ask for none. Raises as the store does."""
    if not every_ms:
        return None
    known = read_completeness(BoundaryObjects(store, prefix), now_ms)
    is_late = known is None or known.until_ms < now_ms - every_ms - _LATE_MS
    return CompleteTime(
        since=None if known is None else iso_time(known.since_ms),
        until=None if known is None else iso_time(known.until_ms),
        gaps=[] if known is None else sorted(known.gaps),
        held=what_holds(store, prefix, record, every_ms, now_ms) if is_late else [],
    )
