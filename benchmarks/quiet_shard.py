"""What a shard that was quiet for days costs a night: requests and seconds, without published days and with them.

Names are computed by whoever asks (`benchmarks.computed_day`): the other shards write a segment each minute, and one
has written nothing since its last segment, so many days ago. The search before the day is the product's own.

    python -m benchmarks quiet_shard [--shards 1000] [--days 14]
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from archive.clock import SystemClock, new_random
from archive.format.day import MINUTES_AN_HOUR, Day
from archive.format.keys import parse_segment_key, segment_key
from archive.format.metadata import ChainStart, SegmentMetadata
from archive.format.minute import MINUTE_MS
from archive.format.position import Position
from archive.index.last_segments import LastSegment, LastSegments, none_published
from archive.retry import Backoff
from archive.store.objects import ListedObject, Listing, ObjectHead
from archive.store.retrying import RetryingStorage
from benchmarks.archives import DAY, FIRST, PREFIX
from benchmarks.computed_day import folder_of, shard_id
from compaction.inventory.neighbours import Need, find_neighbours

_PAGE: Final = 1000
_AFTER: Final = ChainStart("TRIM_HORIZON")


class QuietStore:
    """Days of `shards` shards before `DAY`; shard 0 has one segment, in the first minute of the first of them."""

    def __init__(self, shards: int, days: int) -> None:
        self._days = [DAY.shift(-number) for number in range(1, days + 1)]
        self._shards = [shard_id(number) for number in range(1, shards)]
        self.last = segment_key(PREFIX, shard_id(0), self._days[-1].first_minute, Position(FIRST + 1))
        self.asked: Counter[str] = Counter()
        self._read: set[Day] = set()

    def list_level(self, folder: str) -> Listing:
        """List what leads to hours, and the hours of a day."""
        self.asked["LIST"] += 1
        hours = [folder_of(day, hour) for day in self._days for hour in range(24)]
        parts = sorted({hour[len(folder) :].split("/")[0] for hour in hours if hour.startswith(folder)})
        return Listing(tuple(f"{folder}{part}/" for part in parts if part), ())

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List an hour; each thousand names are a request."""
        day, _, hour = prefix.removeprefix(PREFIX).rstrip("/").rpartition("/")
        begin = Day.parse(day.replace("/", "-")).first_minute + int(hour) * MINUTES_AN_HOUR
        count = MINUTES_AN_HOUR * len(self._shards)
        self.asked["LIST"] += max(1, -(-count // _PAGE))
        for minute in range(begin, begin + MINUTES_AN_HOUR):
            first = Position(FIRST + minute)
            for name in self._shards:
                yield ListedObject(segment_key(PREFIX, name, minute, first), 1, "e", minute * MINUTE_MS)
        if self.last.startswith(prefix):
            yield ListedObject(self.last, 1, "e", 0)

    def head(self, key: str) -> ObjectHead:
        """Answer a HEAD."""
        self.asked["HEAD"] += 1
        parsed = parse_segment_key(PREFIX, key)
        metadata = SegmentMetadata(
            shard_id=parsed.shard_id,
            minute=parsed.minute,
            first=parsed.first,
            last=parsed.first,
            after=_AFTER,
            records=1,
            dropped=0,
            payload_bytes=1,
            arrival_min_ms=parsed.minute * MINUTE_MS,
            arrival_max_ms=parsed.minute * MINUTE_MS,
            writer="run-1",
        )
        return ObjectHead(key, 1, "e", metadata.encode(), 0)

    def published(self, day: Day) -> Mapping[str, LastSegment]:
        """Say where the quiet shard's chain stands, as a published day does: by three GETs."""
        self.asked["GET"] += 0 if day in self._read else 3
        self._read.add(day)
        return {shard_id(0): LastSegment(self.last, Position(FIRST + 1), self._days[-1].first_minute, _AFTER)}


def main(arguments: list[str]) -> int:
    """Run the benchmark; prints a line for each way."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks quiet_shard", description=__doc__)
    parser.add_argument("--shards", type=int, default=1000)
    parser.add_argument("--days", type=int, default=14)
    options = parser.parse_args(arguments)
    sys.stdout.write(f"{options.shards} shards, one of them quiet for {options.days} days\n")
    for is_published in (False, True):
        store = QuietStore(options.shards, options.days)
        published = store.published if is_published else none_published
        sys.stdout.write(f"  days published: {is_published}: {_measure(store, options.shards, published)}\n")
    return 0


def _measure(store: QuietStore, shards: int, published: LastSegments) -> str:
    storage = RetryingStorage(store, lambda: Backoff(SystemClock(), new_random(), budget_seconds=5))  # type: ignore[arg-type] # only what is asked
    first = Position(FIRST + DAY.first_minute)
    needs = {shard_id(number): Need(first, first, before=True, after=False) for number in range(1, shards)}
    needs[shard_id(0)] = Need(None, None, before=True, after=False, stands_on=Position(FIRST + 1))
    begin = time.process_time()
    found = find_neighbours(storage, PREFIX, DAY, needs, days=100, published=published)
    seconds = time.process_time() - begin
    if [link.key for link in found.links[shard_id(0)]] != [store.last]:
        raise SystemExit("the quiet shard's segment was not found")
    requests = ", ".join(f"{count:,} {method}" for method, count in sorted(store.asked.items()))
    return f"{requests}; {seconds:.1f} s of CPU"
