"""Until when the archive is complete, for programs: by the boundaries that its workers publish."""

import datetime as dt
from typing import NamedTuple

from minutebook.clock import SystemClock
from minutebook.completeness.objects import BoundaryObjects
from minutebook.completeness.query import read_completeness
from minutebook.format.boundaries import NamedGap
from minutebook.reader.days import open_output, output_place
from minutebook.store.retrying import RetryingStore


class Gap(NamedTuple):
    """A time of one shard that is not proven, and why."""

    shard: str
    since: dt.datetime
    until: dt.datetime
    reasons: tuple[str, ...]


class Complete(NamedTuple):
    """Every record that arrived in [since, until) is archived once, but for the gaps. Times are UTC."""

    since: dt.datetime
    until: dt.datetime
    gaps: tuple[Gap, ...]


def complete_until(uri: str, *, region: str | None = None, endpoint: str | None = None) -> Complete | None:
    """Return until when an archive is complete; None if none of its workers has published a boundary.

    `uri` is that of the archive, `s3://bucket/prefix/`. Region and endpoint default to the environment's. Raises as
    `published` does.
    """
    place = output_place(uri, region, endpoint)
    return complete_of(open_output(place), place.prefix)


def complete_of(store: RetryingStore, prefix: str) -> Complete | None:
    """Return the same of an opened archive."""
    known = read_completeness(BoundaryObjects(store, prefix), SystemClock().now_ms())
    if known is None:
        return None
    return Complete(_time(known.since_ms), _time(known.until_ms), tuple(map(_gap, sorted(known.gaps))))


def _gap(gap: NamedGap) -> Gap:
    from_ms, until_ms = gap.times_ms
    return Gap(gap.shard, _time(from_ms), _time(until_ms), gap.reasons)


def _time(epoch_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(epoch_ms / 1000, tz=dt.UTC)
