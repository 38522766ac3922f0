"""One hour of a published day was stored again: what a night reads of the day to judge it, on Spark's `local[2]`.

Names and segments of two records are computed from their numbers, by whoever asks: one segment a shard and minute.
What is published (pointer, manifest, inventory, audit, the facts of every object) is made by the product's functions.
The objects of one hour are listed with a later time, as after a copy, and have the same bytes. Requests are counted.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.archives import DAY, PREFIX
from benchmarks.computed_day import ComputedStore, key_of, shard_id, span_of
from benchmarks.due_night import NOW_MS, CountedStore, Shape, address_of, publish_day
from benchmarks.figures import Column, publish
from benchmarks.measured_groups import Measured
from benchmarks.night_scale import cpu_seconds, memory_mib, waits
from compaction.audit.day_view import KnownPlaces, view_day
from compaction.audit.known import with_known
from compaction.audit.rejudge import rejudge
from compaction.inventory.checkpoints import Checkpoints
from compaction.inventory.segments import SegmentFacts
from compaction.job.context import AuditOptions, JobContext
from compaction.parquet.fetching import content_digest
from compaction.parquet.plan import RawObject
from compaction.parquet.rows import PARQUET_TYPE
from compaction.publish.publisher import Publisher
from compaction.spark.engine import SparkEngine
from compaction.tasks.finished import FinishedTask, encode_facts, facts_key
from compaction.verdict.audit_document import decode_audit
from minutebook.clock import new_id
from minutebook.format.aggregate import LAST_HASH_KEY
from minutebook.format.day import MINUTES_A_DAY
from minutebook.format.keys import parse_segment_key
from minutebook.format.markers import StartMarker, decode_marker, encode_marker
from minutebook.format.metadata import ChainStart, Predecessor, SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.record import Record
from minutebook.format.segment import SegmentWriter
from minutebook.owner import StreamOwner
from minutebook.published.generation import DayFolder, Pointer
from minutebook.store.objects import ListedObject, Listing
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, ObjectBody
from tests.fakes.clock import ManualClock

_DAYS: Final = 2
_HOUR: Final = range(DAY.first_minute + 6 * 60, DAY.first_minute + 7 * 60)
_LATER_MS: Final = 3_600_000
_SHARDS_A_FILE: Final = 20
_COLUMNS: Final = (
    Column("objects", "objects", ",d"),
    Column("shards", "shards", ",d"),
    Column("stored again", "changed", ",d"),
    Column("GETs of segments", "gets", ",d"),
    Column("HEADs of neighbours", "heads", ",d"),
    Column("LISTs", "lists", ",d"),
    Column("verdict", "verdict"),
    Column("findings", "findings"),
    Column("JVM, MiB", "jvm", "d"),
    Column("largest worker", "worker", "d"),
    Column("seconds", "seconds", ".0f"),
    Column("CPU s, all", "cpu", ".0f"),
)


class HourStore(CountedStore):
    """Computed days, of whose last one an hour was stored again."""

    def __reduce__(self) -> tuple[Callable[..., "HourStore"], tuple[Shape]]:
        """Return what makes it in another process."""
        return HourStore, (self.shape,)

    def list_level(self, folder: str) -> Listing:
        """List what leads to the hours of the days, too."""
        self.count("LIST", 1)
        return ComputedStore.list_level(self, folder)

    def _marker(self, key: str) -> bytes:
        """Return a marker; the shards share all hash keys."""
        body = super()._marker(key)
        if not key.startswith(f"{PREFIX}_shards/shardId"):
            return body
        marker = decode_marker(body, StartMarker, key)
        number, share = int(marker.shard.rpartition("-")[2]), (LAST_HASH_KEY + 1) // self.shape.shards
        last = LAST_HASH_KEY if number == self.shape.shards - 1 else (number + 1) * share - 1
        keys = {"starting_hash_key": str(number * share), "ending_hash_key": str(last)}
        return encode_marker(msgspec.structs.replace(marker, **keys))

    def now_ms(self, prefix: str) -> int:
        """Return the time."""
        del prefix
        return NOW_MS

    def rows(self, path: str) -> Iterator[ListedObject]:
        """List what there is, with a later time where it was stored again."""
        for row in super().rows(path):
            is_later = parse_segment_key(PREFIX, row.key).minute in _HOUR
            yield row._replace(last_modified_ms=row.last_modified_ms + _LATER_MS) if is_later else row

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Answer a GET; nothing has another ETag."""
        del etag
        self.count("read", 1)
        parsed = parse_segment_key(PREFIX, key)
        made, metadata = segment(int(parsed.shard_id.rpartition("-")[2]), parsed.minute)
        return ObjectBody(metadata.encode(), iter([made.body()]))


def segment(number: int, minute: int) -> tuple[SegmentWriter, SegmentMetadata]:
    """Return the segment of a shard and minute: a record at each end of its span."""
    first, last = span_of(DAY, number, minute)
    made, begin_ms = SegmentWriter(shard_id(number), minute), minute * MINUTE_MS
    made.extend(
        [
            Record(str(first.sequence), first.sub, "k", begin_ms, b"first"),
            Record(str(last.sequence), last.sub, "k", begin_ms + 59_000, b"last"),
        ]
    )
    is_first = minute == DAY.shift(1 - _DAYS).first_minute
    after: Predecessor = ChainStart("TRIM_HORIZON") if is_first else span_of(DAY, number, minute - 1)[1]
    return made, made.metadata(after=after, writer=f"run{number:08d}-{minute:016x}")


def store_facts(out: Path, shape: Shape, folder: str, first: int) -> None:
    """Store the facts of some shards' objects of the day, as their rewrite has left them."""
    store, objects, facts = CountedStore(shape), list[RawObject](), list[SegmentFacts]()
    for number in range(first, min(first + _SHARDS_A_FILE, shape.shards)):
        for minute in range(DAY.first_minute, DAY.first_minute + MINUTES_A_DAY):
            made, metadata = segment(number, minute)
            key, fields, span = key_of(DAY, number, minute), metadata.encode(), metadata.span
            row = store.row(number, minute)
            objects.append(
                RawObject(key, row.etag, row.size, metadata.shard_id, minute, span.first, row.last_modified_ms)
            )
            facts.append(
                SegmentFacts(
                    key,
                    fields,
                    lines=metadata.records,
                    payload_bytes=metadata.payload_bytes,
                    first=span.first,
                    last=span.last,
                    low=span.first,
                    high=span.last,
                    arrival_min_ms=metadata.arrival_min_ms,
                    arrival_max_ms=metadata.arrival_max_ms,
                    digest=content_digest(fields, [made.body()]),
                )
            )
    name = f"{first:032x}"
    body = encode_facts(name, objects, FinishedTask(None, tuple(facts)))
    storage = RetryingStorage(open_storage(Address(None, str(out))), waits)
    storage.put_if_absent(facts_key(folder, name, body), body, content_type=PARQUET_TYPE)


def judge(out: Path, shape: Shape) -> dict[str, Any]:
    """Judge the day again; return what it took."""
    shape.log.unlink(missing_ok=True)
    place = StorePrefix(Address(None, str(out)), "tables/")
    begin = time.perf_counter()
    with SparkEngine("local[2]") as engine:
        measured = Measured(engine)
        context = JobContext(
            archive=RetryingStorage(HourStore(shape), waits),  # type: ignore[arg-type] # only what is asked
            place=StorePrefix(address_of(shape), PREFIX),
            clock=ManualClock(NOW_MS),
            new_id=new_id,
            engine=engine,
            checkpoints=lambda: Checkpoints({}),
            version="bench",
            owner=StreamOwner("bench", "us-east-1"),
            spread=engine.each,
            group_sources=lambda _: measured,
        )
        publisher = Publisher(context.open(place.address), DayFolder(place.prefix, DAY))
        pointer = _pointer(publisher)
        before = decode_audit(publisher.audit(pointer) or b"")
        places = KnownPlaces.of(place, publisher.folder, pointer.generation, pointer)
        view = with_known(context, view_day(context, DAY, None), places)
        judged = rejudge(context, view, AuditOptions(published=place), before)
        seconds = time.perf_counter() - begin
        jvm, workers, cpu = memory_mib("java"), memory_mib("python"), cpu_seconds()
    requests = shape.requests()
    found = Counter[str]()
    for about in judged.audit.findings:
        found[about.code] += about.count
    return {
        "objects": shape.shards * MINUTES_A_DAY,
        "shards": shape.shards,
        "changed": shape.shards * len(_HOUR),
        "gets": requests["read"],
        "heads": requests["segment"],
        "lists": requests["LIST"],
        "verdict": judged.audit.verdict,
        "findings": ", ".join(f"{count:,} {code}" for code, count in sorted(found.items())),
        "stale": judged.stale,
        "jvm": max(jvm, default=0),
        "worker": max(workers, default=0),
        "seconds": seconds,
        "cpu": cpu,
    }


def _pointer(publisher: Publisher) -> Pointer:
    pointer = publisher.current().pointer
    if pointer is None:
        raise FileNotFoundError(publisher.folder.pointer)
    return pointer


def measured_at(folder: Path, shards: int) -> dict[str, Any]:
    """Publish a day of so many shards, and judge it again when an hour of it was stored again."""
    shape, out = Shape(shards, _DAYS, folder / "requests.log"), folder / "out"
    publish_day(out, shape, DAY)
    days = DayFolder("tables/", DAY)
    publisher = Publisher(RetryingStorage(open_storage(Address(None, str(out))), waits), days)
    home = days.generation(_pointer(publisher).generation)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(partial(store_facts, out, shape, home), range(0, shards, _SHARDS_A_FILE)))
    return judge(out, shape)


def main(arguments: list[str]) -> int:
    """Run the benchmark; prints one line for each number of shards."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks changed_hour", description=__doc__)
    parser.add_argument("--shards", type=int, nargs="+", default=[100], help="1,440 objects a day each")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    rows = []
    for shards in options.shards:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured_at(Path(folder), shards))
        if stale := rows[-1]["stale"]:
            sys.stdout.write(f"stale: {stale}\n")
    publish("A night that judges a day again, an hour of which was stored again", _COLUMNS, rows, rows, options.json)
    return 0
