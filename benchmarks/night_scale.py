"""A day of many shards through list, HEAD and judgement on Spark: what the driver holds, and what comes back to it.

Names and metadata are computed from their numbers, by whoever asks: one segment a shard and minute, and the first
minutes of the next day. On S3 each LIST of 1,000 names and each HEAD takes its time; here they take CPU alone.

`--kill` runs a real rewrite of a smaller day instead, and kills its driver when so many of its tasks are done.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from benchmarks.archives import DAY, PREFIX, make_archive
from benchmarks.computed_day import ComputedStore
from benchmarks.computed_lines import DAYS, ComputedAddress
from benchmarks.figures import Column, publish
from benchmarks.measured_groups import Measured
from compaction.audit.audit import audit_day
from compaction.inventory.checkpoints import Checkpoints
from compaction.job.context import AuditOptions, JobContext
from compaction.night.rewrite import CompactOptions, compact_day
from compaction.parquet.plan import TaskSizes
from compaction.spark.engine import SparkEngine
from compaction.verdict.audit_document import encode_audit
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.errors import StoreRefused
from minutebook.format.day import MINUTES_A_DAY
from minutebook.owner import StreamOwner
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

_MIB: Final = 1 << 20
_RECORDS: Final = 500
_COLUMNS: Final = (
    Column("objects", "objects", ",d"),
    Column("shards", "shards", ",d"),
    Column("driver's Python, MiB", "driver", "d"),
    Column("at its start", "before", "d"),
    Column("JVM", "jvm", "d"),
    Column("largest worker", "worker", "d"),
    Column("tasks", "tasks", ",d"),
    Column("MiB to the driver", "back", ".1f"),
    Column("at once", "largest", ".1f"),
    Column("audit.json, MiB", "audit", ".1f"),
    Column("seconds", "seconds", ".0f"),
    Column("CPU s, all", "cpu", ".0f"),
    Column("verdict", "verdict"),
)


def waits() -> Backoff:
    """Return short waits: nothing fails here."""
    return Backoff(SystemClock(), new_random(), budget_seconds=5)


def memory_mib(name: str) -> list[int]:
    """Return the peak memory of our children whose command is called so, the largest first."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        pid = int(fields["Pid"])
        if fields["Name"].startswith(name) and pid != os.getpid() and _is_below(pid, os.getpid()):
            found.append(int(fields.get("VmHWM", "0 kB").split()[0]) // 1024)
    return sorted(found, reverse=True)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all that it started."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if _is_below(int(stat.parent.name), os.getpid()):
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _is_below(pid: int, above: int) -> bool:
    while pid not in {0, 1, above}:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return pid == above


def judged(objects: int, every: int, event_id: str | None = None) -> dict[str, Any]:
    """Audit a day of so many objects by inventory, or by event ids of lines that tasks make; return what it took.

    Memory is MiB at its highest. With event ids there is a day before, as large.
    """
    shards = max(1, objects * every // MINUTES_A_DAY)
    days = 1 if event_id is None else DAYS
    storage = RetryingStorage(ComputedStore(DAY, shards, every, days), waits)  # type: ignore[arg-type] # only what is asked
    with SparkEngine("local[2]") as engine:
        measured = Measured(engine)
        context = _context(storage, StorePrefix(ComputedAddress("bench"), PREFIX), engine)
        context = context._replace(group_sources=lambda _: measured, shuffle=measured.shuffle)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        asked = AuditOptions(level="inventory" if event_id is None else "keys", event_id=event_id)
        begin = time.perf_counter()
        audit = audit_day(context, DAY, asked).audit
        seconds = time.perf_counter() - begin
        driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        jvm, workers, cpu = memory_mib("java"), memory_mib("python"), cpu_seconds()
    return {
        "objects": audit.scope.objects,
        "shards": shards,
        "seconds": seconds,
        "cpu": cpu,
        "driver": driver,
        "before": before,
        "jvm": max(jvm, default=0),
        "worker": max(workers, default=0),
        "tasks": measured.tasks,
        "back": measured.back / _MIB,
        "largest": measured.largest / _MIB,
        "audit": len(encode_audit(audit)) / _MIB,
        "passes": measured.seconds,
        "verdict": audit.verdict,
        "findings": len(audit.findings),
    }


def _context(storage: RetryingStorage, place: StorePrefix, engine: SparkEngine) -> JobContext:
    return JobContext(
        archive=storage,
        place=place,
        clock=SystemClock(),
        new_id=new_id,
        engine=engine,
        checkpoints=lambda: Checkpoints({}),
        version="bench",
        owner=StreamOwner("bench", "us-east-1"),
    )


def rewrite(folder: Path, objects: int) -> None:
    """Rewrite a day of a folder by tasks of ten objects; print what a run again found done."""
    make_archive(folder, objects, _RECORDS, 1_000)
    archive, out = Address(None, str(folder / "raw")), StorePrefix(Address(None, str(folder / "out")), "")
    with SparkEngine("local[2]") as engine:
        from compaction.shard_groups.opened import open_in_task  # noqa: PLC0415 - as a task does

        context = _context(open_in_task(archive), StorePrefix(archive, PREFIX), engine)
        context = context._replace(group_sources=lambda _: engine, sizes=TaskSizes(segments=10))
        done = compact_day(context, context.open(out.address), DAY, CompactOptions(AuditOptions(), out))
    rows = 0 if done.manifest is None else done.manifest.rows
    sys.stdout.write(f"{done.state}: {rows:,} rows, verdict {done.verdict}\n")


def killed(folder: Path, objects: int, share: float) -> str:
    """Kill a rewrite when so much of it is done, and run it again."""
    tasks = objects // 10
    facts = folder / "out" / f"dt={DAY}"
    command = [sys.executable, "-m", "benchmarks", "night_scale", "--rewrite", str(folder), "--objects", str(objects)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as driver:  # noqa: S603 - ourselves
        while (done := len(list(facts.glob("_gen-*/_facts/*.parquet")))) < share * tasks:
            if driver.poll() is not None:
                raise StoreRefused("the rewrite ended before it was killed")
            time.sleep(0.02)  # noqa: TID251 - a benchmark waits for another process
        os.killpg(driver.pid, signal.SIGKILL)
    left = len(list(facts.glob("_gen-*/_facts/*.parquet")))
    said = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)  # noqa: S603 - ourselves
    lines = [line for line in said.stdout.splitlines() if "day_goes_on" in line or "rows" in line]
    return f"killed at {done} of {tasks} tasks, {left} left whole; then: " + " | ".join(lines)


def main(arguments: list[str]) -> int:
    """Run the benchmark; prints one line per run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks night_scale", description=__doc__)
    parser.add_argument("--objects", type=int, nargs="+", default=[144_000], help="each in a process of its own")
    parser.add_argument("--every", type=int, default=1, metavar="MINUTES", help="a shard has one object in so many")
    parser.add_argument("--event-id", metavar="PATH", help="with lines, and a day before: `id` is their path")
    parser.add_argument("--kill", type=Path, metavar="FOLDER", help="an empty folder for a day to kill")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rewrite", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.event_id is not None and options.every != 1:
        parser.error("lines are made for a segment in each minute: --event-id goes without --every")
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    if options.rewrite is not None:
        rewrite(options.rewrite, options.objects[0])
    elif options.kill is not None:
        for share in (0.3, 0.6, 0.95):
            folder = options.kill / f"{share:.2f}"
            make_archive(folder, options.objects[0], _RECORDS, 1_000)
            sys.stdout.write(f"{killed(folder, options.objects[0], share)}\n")
    else:
        # The highest memory is a process's, so each size has one.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
            rows = list(pool.map(partial(judged, every=options.every, event_id=options.event_id), options.objects))
        publish("Days by names and metadata", _COLUMNS, rows, rows, options.json)
    return 0
