"""One published day, as a reader has it."""

import datetime as dt
from typing import Final, NamedTuple

WORST_FIRST: Final = ("defects", "unknown", "clean")
"""The verdicts there are."""


class PublishedFile(NamedTuple):
    """One Parquet file: its address, its path as pyarrow has it (`bucket/key`, or a file's), rows and bytes."""

    uri: str
    path: str
    rows: int
    bytes: int


class PublishedDay(NamedTuple):
    """One day as its pointer had it.

    `verdict` is that of the latest audit; `unknown` where rules gave it that are older than this version's. `until`
    (ISO 8601) ends a day that was published so far; None: the whole day. `hours` are those that were published by
    themselves and are read beside it, with `intraday`: the verdict is then the worst of all, and `until` the end of
    the last hour. Hours before it may be missing.
    """

    day: dt.date
    generation: str
    verdict: str
    rows: int
    until: str | None
    files: tuple[PublishedFile, ...]
    hours: tuple[int, ...] = ()
