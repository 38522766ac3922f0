"""The last segment of each shard when a published day ended, however long ago it was written.

    dt=D/_manifest/G-W.ends.jsonl.gz    a line for the day, and one for each shard

A shard that wrote nothing on a day keeps the segment that the day's audit found before it: so quiet shards are
carried on from day to day. The object is beside the manifest because earlier versions reject unknown fields in
manifests. Where it is missing, audits list names instead.

Only days count that are published whole, clean and by today's rules. It is a hint all the same: its reader checks the
segment itself, and that the judged day follows it (`compaction.inventory.neighbours.QuietShards`).
"""

import gzip
import zlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import structlog

from minutebook.errors import FormatError, StoreRefused, StoreUnavailable
from minutebook.format.day import Day
from minutebook.format.document import FORMAT
from minutebook.format.metadata import parse_predecessor
from minutebook.format.minute import minute_text, parse_minute_text
from minutebook.format.position import Position
from minutebook.index.last_segments import LastSegment
from minutebook.published.generation import DayFolder, Manifest, ends_beside, is_judged_by_these_rules
from minutebook.published.reading import PublishedReader
from minutebook.published.verdict import CLEAN
from minutebook.store.retrying import RetryingStorage

_REFUSED_STEP: Final = "nothing: names are listed instead; to save these requests, let this role read the output"
_NEXT_STEP: Final = "nothing: names are listed instead; find out who writes below the output"


class _Head(msgspec.Struct, frozen=True):
    format: int
    day: str
    generation: str
    shards: int


class _Row(msgspec.Struct, frozen=True):
    shard: str
    key: str
    last: str
    minute: str
    after: str
    closed: bool = False


def encode_ends(manifest: Manifest, ends: Mapping[str, LastSegment]) -> bytes:
    """Return the body of the object beside a manifest."""
    head = _Head(format=FORMAT, day=manifest.day, generation=manifest.generation, shards=len(ends))
    rows = [
        _Row(
            shard=shard,
            key=end.key,
            last=str(end.last),
            minute=minute_text(end.minute),
            after=str(end.after),
            closed=end.is_closed,
        )
        for shard, end in sorted(ends.items())
    ]
    return gzip.compress(b"".join(msgspec.json.encode(row) + b"\n" for row in [head, *rows]), 6, mtime=0)


def decode_ends(body: bytes, manifest: Manifest) -> dict[str, LastSegment]:
    """Decode the object beside a manifest; raises FormatError, also where it contradicts the manifest."""
    try:
        first, *lines = gzip.decompress(body).splitlines()
        head = msgspec.json.decode(first, type=_Head)
        rows = [msgspec.json.decode(line, type=_Row) for line in lines]
    except (OSError, EOFError, ValueError, zlib.error, msgspec.MsgspecError) as exc:
        raise FormatError(f"it does not parse: {exc}") from exc
    expected = (FORMAT, manifest.day, manifest.generation, len(rows))
    if (head.format, head.day, head.generation, head.shards) != expected:
        raise FormatError("it is of another format, day or generation, or not whole")
    ends = {
        row.shard: LastSegment(
            row.key,
            Position.parse(row.last),
            parse_minute_text(row.minute),
            parse_predecessor(row.after),
            row.closed,
        )
        for row in rows
    }
    for shard, last in manifest.ends.items():
        if shard not in ends or ends[shard].last < Position.parse(last):
            raise FormatError(f"it does not know what the manifest says of {shard}")
    return ends


class PublishedEnds:
    """Implements `minutebook.index.last_segments.LastSegments` by the days below `root`; each day is read once."""

    def __init__(self, open_output: Callable[[], RetryingStorage], root: str) -> None:
        self._open = open_output
        self._root = root
        self._storage: RetryingStorage | None = None
        self._is_unreachable = False
        self._days: dict[Day, Mapping[str, LastSegment] | None] = {}

    def __call__(self, day: Day) -> Mapping[str, LastSegment] | None:
        """Return where chains stood at the end of a day; None where no such day is published whole and clean."""
        if day not in self._days:
            self._days[day] = None if self._is_unreachable else self._try_read(day)
        return self._days[day]

    def _try_read(self, day: Day) -> Mapping[str, LastSegment] | None:
        """Read a day. An error is logged and costs requests, never the run."""
        log = structlog.get_logger().bind(day=str(day))
        try:
            return self._read(day)
        except FormatError as exc:
            log.warning("published_ends_not_trusted", reason=str(exc), next_step=_NEXT_STEP)
        except (StoreRefused, StoreUnavailable) as exc:
            self._is_unreachable = True
            log.warning("published_ends_out_of_reach", reason=str(exc), next_step=_REFUSED_STEP)
        return None

    def _read(self, day: Day) -> Mapping[str, LastSegment] | None:
        if self._storage is None:
            self._storage = self._open()
        pointer, manifest = PublishedReader(self._storage, DayFolder(self._root, day)).published()
        if pointer is None or manifest is None or pointer.verdict != CLEAN or pointer.until is not None:
            return None
        if not is_judged_by_these_rules(pointer, manifest):
            return None
        stored = self._storage.get(ends_beside(pointer.manifest))
        return None if stored is None else decode_ends(stored.body, manifest)
