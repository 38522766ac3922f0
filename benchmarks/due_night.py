"""A night that finds nothing due: 14 published days of many shards, looked at by `find_due` on Spark's `local[2]`.

Names are computed from their numbers, by whoever asks: one segment a shard and minute. What is published of the days
(pointers, manifests, inventories, audits with their bases) is made of the same names by the product's functions; only
the verdict is given. Every request is counted, in the driver and in tasks; a LIST is 1,000 names.
"""

import argparse
import hashlib
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from benchmarks.archives import DAY, PREFIX
from benchmarks.computed_day import ComputedStore, key_of, shard_id, span_of
from benchmarks.figures import Column, publish
from benchmarks.night_scale import cpu_seconds, memory_mib, waits
from compaction.basis import present
from compaction.basis.evidence import with_evidence
from compaction.basis.outside import Beside, OutsideQuery, UsedLinks, list_outside, with_neighbours, with_outside
from compaction.inventory.checkpoints import Checkpoints
from compaction.inventory.day_objects import DayListing, list_objects
from compaction.inventory.shard_markers import read_markers
from compaction.job.context import AuditOptions, JobContext
from compaction.job.scope import SETTLED_MS
from compaction.night.due import find_due
from compaction.publish.publisher import Publisher
from compaction.report.cost import S3_STANDARD
from compaction.shard_groups.grouping import ShardGrouping
from compaction.shard_groups.local import LocalGroupSource
from compaction.spark.engine import SparkEngine
from compaction.verdict.audit_document import SCHEMA, Audit, Equation, Scope, encode_audit
from compaction.verdict.basis import Basis, ShardBasis
from minutebook.clock import new_id
from minutebook.coverage.intervals import Interval
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.owner import StreamOwner
from minutebook.published.generation import DayFolder, File, Manifest
from minutebook.published.verdict import CLEAN, RULES
from minutebook.store.objects import ListedObject, Listing, ObjectHead, StoredObject
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from tests.fakes.clock import ManualClock

_MIB: Final = 1 << 20
_NAMES_A_LIST: Final = 1_000
NOW_MS: Final = DAY.end_ms + SETTLED_MS
_CHANGED: Final = 30 * 60 + 7
"""The minute, after the first day's midnight, one of whose objects is another one: in hour 6 of the second day."""
_COLUMNS: Final = (
    Column("days", "days", ",d"),
    Column("objects", "objects", ",d"),
    Column("shards", "shards", ",d"),
    Column("changed hours", "changed", "d"),
    Column("days due", "due", "d"),
    Column("LISTs", "lists", ",d"),
    Column("dollars", "dollars", ".3f"),
    Column("of segments: HEADs, GETs", "segments", "d"),
    Column("of markers: GETs", "markers", ",d"),
    Column("driver's Python, MiB", "driver", "d"),
    Column("at its start", "before", "d"),
    Column("JVM", "jvm", "d"),
    Column("largest worker", "worker", "d"),
    Column("seconds", "seconds", ".0f"),
    Column("CPU s, all", "cpu", ".0f"),
)


class Shape(NamedTuple):
    """The archive: its shards and days, where its requests are logged, and whether an object is another one."""

    shards: int
    days: int
    log: Path
    is_changed: bool = False

    def requests(self) -> Counter[str]:
        """Count what was asked, by kind."""
        requests: Counter[str] = Counter()
        for line in self.log.read_text().splitlines():
            what, _, count = line.partition(" ")
            requests[what] += int(count)
        return requests

    @property
    def first_minute(self) -> int:
        """The first minute of the archive."""
        return DAY.shift(1 - self.days).first_minute


class CountedStore(ComputedStore):
    """Many computed days, up to `NOW_MS`. A request is a line of the log: its kind, and for how many it counts."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(DAY, shape.shards, days=shape.days)
        self.shape = shape
        self._log = os.open(shape.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def list_level(self, folder: str) -> Listing:
        """List the hours of a day."""
        self.count("LIST", 1)
        if folder.startswith(f"{PREFIX}_"):
            return Listing((), ())
        minutes = self._minutes(folder.removeprefix(PREFIX))
        return Listing(tuple(f"{folder}{hour:02d}/" for hour in range(-(-len(minutes) // 60))), ())

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List a day, an hour or a minute; the first rows of all; or the markers."""
        path, rows = prefix.removeprefix(PREFIX), 0
        try:
            for row in super().list_objects(prefix) if path.startswith("_") else self.rows(path):
                rows += 1
                yield row
        finally:
            self.count("LIST", max(1, -(-rows // _NAMES_A_LIST)))

    def head(self, key: str) -> ObjectHead | None:
        """Answer a HEAD."""
        self.count("segment" if key.startswith(f"{PREFIX}2") else "HEAD", 1)
        return super().head(key)

    def get(self, key: str) -> StoredObject | None:
        """Return a marker."""
        self.count("segment" if key.startswith(f"{PREFIX}2") else "GET", 1)
        return super().get(key)

    def count(self, what: str, count: int) -> None:
        """Log some requests of a kind."""
        os.write(self._log, f"{what} {count}\n".encode())

    def rows(self, path: str) -> Iterator[ListedObject]:
        """List what lies below a day, an hour or a minute."""
        for minute in self._minutes(path):
            for number in range(self.shape.shards):
                row = self.row(number, minute)
                if self.shape.is_changed and number == 0 and minute == self.shape.first_minute + _CHANGED:
                    row = row._replace(etag=row.etag[::-1])
                yield row

    def row(self, number: int, minute: int) -> ListedObject:
        """Return an object as LIST gives it."""
        etag = hashlib.md5(f"{minute} {number}".encode(), usedforsecurity=False).hexdigest()
        return self._row(key_of(DAY, number, minute), number, minute)._replace(etag=f'"{etag}"')

    def _minutes(self, path: str) -> range:
        """Return the minutes of `yyyy/MM/dd/`, with an hour, and a minute; of less all that there are."""
        first, end = self.shape.first_minute, NOW_MS // MINUTE_MS
        parts = path.rstrip("/").split("/")
        if len(parts) < len("ymd"):
            return range(first, end)
        begin = Day.parse("-".join(parts[:3])).first_minute + sum(
            int(part) * length for part, length in zip(parts[3:], (60, 1), strict=False)
        )
        length = (MINUTES_A_DAY, 60, 1)[len(parts) - 3]
        return range(max(first, begin), max(first, min(end, begin + length)))


class CountedAddress(Address):
    """The address of a computed archive; the tasks that it is sent to open that."""

    def __reduce__(self) -> tuple[Callable[..., Address], tuple[str]]:  # type: ignore[override] # as pickle has it
        """Return what makes it where it arrives."""
        return _arrived, (self.root,)


def _arrived(root: str) -> Address:
    shape = msgspec.json.decode(root, type=tuple[int, int, str, bool])
    store = _open(Shape(shape[0], shape[1], Path(shape[2]), shape[3]))
    present.open_in_task = lambda _: store  # type: ignore[assignment]
    return CountedAddress("bench", root)


def address_of(shape: Shape) -> Address:
    """Return the address of a computed archive."""
    return CountedAddress("bench", msgspec.json.encode((*shape[:2], str(shape.log), shape.is_changed)).decode())


def _open(shape: Shape) -> RetryingStorage:
    return RetryingStorage(CountedStore(shape), waits)  # type: ignore[arg-type] # only what is asked


def publish_day(out: Path, shape: Shape, day: Day) -> int:
    """Publish a day as if it had been judged clean; returns how many objects it has."""
    storage = _open(shape)
    listing = DayListing(storage, address_of(shape), LocalGroupSource(lambda _: []), ShardGrouping())
    objects = list_objects(listing, day, PREFIX)
    generation = objects.digest()[:16]
    publisher = Publisher(RetryingStorage(open_storage(Address(None, str(out))), waits), DayFolder("tables/", day))
    folder = publisher.folder
    part = f"{folder.generation(generation)}part-00000.parquet"
    publisher.storage.put_if_absent(part, b"rows", content_type="application/vnd.apache.parquet")
    audit = Audit(
        schema=SCHEMA,
        version="bench",
        audited_at=iso_time(NOW_MS),
        level="keys",
        verdict=CLEAN,
        scope=Scope(
            stream="bench",
            application="bench",
            archive=PREFIX,
            day=str(day),
            day_is_over=True,
            objects=objects.objects,
            bytes=objects.size,
            inventory=objects.digest(),
            generation=generation,
        ),
        equation=Equation(raw=1, unique=1, duplicates=0, rejected=0, compacted=1, removed=0, balanced=True),
        shards=(),
        checks=(),
        findings=(),
        rules=RULES,
        basis=_basis(
            storage,
            shape,
            day,
            Basis(judged_from=iso_time(NOW_MS), generation=generation, settings="", folders=objects.folders),
        ),
    )
    manifest = Manifest(
        format=1,
        day=str(day),
        generation=generation,
        files=(File(key=part, rows=1, bytes=len(b"rows")),),
        rows=1,
        inventory=objects.digest(),
        verdict=CLEAN,
        audit=folder.audit(generation, "0" * 16),
        ends={},
        writer=f"bench{day.number}",
        written_at=iso_time(NOW_MS),
        rules=RULES,
    )
    publisher.put_inventory(folder.manifest(generation, manifest.writer), objects.spool.chunks())
    publisher.put_audit(manifest.audit, encode_audit(audit))
    publisher.put_manifest(manifest)
    publisher.swap_pointer(manifest, publisher.current(), new_id(), manifest.written_at)
    publisher.write_symlinks()
    return objects.objects


def _basis(storage: RetryingStorage, shape: Shape, day: Day, basis: Basis) -> Basis:
    """Return the basis with what lies around the day: each shard's segments of the minutes beside it."""
    markers = read_markers(storage, PREFIX, [day])
    scope = Interval(day.begin_ms, day.end_ms)
    query = OutsideQuery.of(PREFIX, scope, NOW_MS, markers.statements.tombstones)

    def shard(number: int) -> ShardBasis:
        minutes = [minute for minute in (query.begin_minute - 1, query.end_minute) if minute >= shape.first_minute]
        links = [Beside(*span_of(DAY, number, minute), minute) for minute in minutes]
        known = ShardBasis(shard=shard_id(number), looks_ahead=True, is_open=True, proven_ms=day.end_ms + MINUTE_MS)
        return with_neighbours(known, UsedLinks.of(links, query))

    shards = tuple(map(shard, range(shape.shards)))
    basis = with_evidence(msgspec.structs.replace(basis, shards=shards), PREFIX, markers, scope)
    return with_outside(basis, query, list_outside(storage, query, shards))


def check(out: Path, shape: Shape) -> dict[str, Any]:
    """Look for what is due; return what it took. Memory is MiB at its highest."""
    shape.log.unlink(missing_ok=True)
    place = StorePrefix(Address(None, str(out)), "tables/")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    begin = time.perf_counter()
    with SparkEngine("local[2]") as engine:
        context = JobContext(
            archive=_open(shape),
            place=StorePrefix(address_of(shape), PREFIX),
            clock=ManualClock(NOW_MS),
            new_id=new_id,
            engine=engine,
            checkpoints=lambda: Checkpoints({}),
            version="bench",
            owner=StreamOwner("bench", "us-east-1"),
            spread=engine.each,
        )
        due = find_due(context, place, AuditOptions(), shape.days)
        seconds = time.perf_counter() - begin
        driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        jvm, workers, cpu = memory_mib("java"), memory_mib("python"), cpu_seconds()
    requests = shape.requests()
    return {
        "days": len(due.days),
        "objects": shape.days * shape.shards * MINUTES_A_DAY,
        "shards": shape.shards,
        "changed": int(shape.is_changed),
        "due": sum(bool(day.why) for day in due.days),
        "which": {str(each.day): each.why for each in due.days if each.why},
        "lists": requests["LIST"],
        "dollars": requests["LIST"] * S3_STANDARD.per_1000_put_or_list / 1_000,
        "segments": requests["segment"],
        "markers": requests["GET"],
        "driver": driver,
        "before": before,
        "jvm": max(jvm, default=0),
        "worker": max(workers, default=0),
        "seconds": seconds,
        "cpu": cpu,
    }


def measured(folder: Path, shards: int, days: int) -> list[dict[str, Any]]:
    """Publish the days, and look at them twice: as they are, and with one object changed."""
    shape, out = Shape(shards, days, folder / "requests.log"), folder / "out"
    every = [DAY.shift(-back) for back in range(days)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        list(pool.map(partial(publish_day, out, shape), every))
    # The highest memory is a process's, so each look has one.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        return list(pool.map(partial(check, out), [shape, shape._replace(is_changed=True)]))


def main(arguments: list[str]) -> int:
    """Run the benchmark; prints one line per look."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks due_night", description=__doc__)
    parser.add_argument("--shards", type=int, nargs="+", default=[100], help="1,440 objects a day each")
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    rows = []
    for shards in options.shards:
        with tempfile.TemporaryDirectory() as folder:
            rows += measured(Path(folder), shards, options.days)
    for row in rows:
        sys.stdout.write(f"due: {row['which']}\n")
    publish("A night that finds nothing due", _COLUMNS, rows, rows, options.json)
    return 0
