"""The values of a published day for readers."""

import datetime as dt
from typing import Final, NamedTuple

WORST_FIRST: Final = ("defects", "unknown", "clean")
"""All verdicts."""


class PublishedFile(NamedTuple):
    """One Parquet file: its address, its path for pyarrow (`bucket/key`, or a local path), rows and bytes."""

    uri: str
    path: str
    rows: int
    bytes: int


class PublishedDay(NamedTuple):
    """One day as of its pointer.

    `verdict` is that of the latest audit; `unknown` if its rules are older than this version's. `until` (ISO 8601) is
    the end of a day so far; None: the whole day. With `intraday`, `hours` lists the hours that were published
    separately and are included; `verdict` is then the worst of all parts, and `until` the end of the last hour. Hours
    before it may be missing.
    """

    day: dt.date
    generation: str
    verdict: str
    rows: int
    until: str | None
    files: tuple[PublishedFile, ...]
    hours: tuple[int, ...] = ()
