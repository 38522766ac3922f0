"""What a shard costs a host: the memory of forked processors, idle and busy.

Beside them, in the same run, processors that are started by themselves, as a daemon without our supervisor does. The
processes are the product's own: fork server, stubs and processors; the daemon is a double on their pipes, S3 and
Kinesis are the embedded servers (with --tls, S3 behind TLS). USS is Private_Clean + Private_Dirty of smaps_rollup,
PSS shares what is common among all; a stub counts with its processor. What the kernel keeps for a process is in
neither; its page tables, the largest part of that, have a row of their own.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import cpu_seconds
from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.logs import configure_logging
from tests.fakes.daemon_double import Lease
from tests.fakes.loopback_tls import TlsFront
from tests.fakes.shard import FakeShard
from tests.integration.archive_site import Site
from tests.integration.fork_site import Forks
from tests.integration.process_daemon import ProcessDaemon

_CLOCK: Final = SystemClock()
_MB: Final = 1000
_BATCH_RECORDS: Final = 4000
_SEGMENTS: Final = 5
_SETTLE_SECONDS: Final = 6.0
"""Longer than a processor waits before it gives memory back."""
_QUIET: Final = {"checkpointIntervalSeconds": "0", "lingerSeconds": "0", "logLevel": "warning"}


class Density:
    """One run: a site, and the numbers that were found."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._made = 0
        self.ours = dict(_QUIET)
        self.environment: dict[str, str] = {}
        self.found: dict[str, object] = {}

    def forks(self) -> Forks:
        """Start a fork server."""
        return self._site.forks(environment=self.environment, **self.ours)

    def lease(self) -> Lease:
        """Return a new shard's lease; its records arrived minutes ago."""
        self._made += 1
        return Lease(FakeShard(f"shardId-{self._made:012d}"))

    def plain(self, lease: Lease) -> ProcessDaemon:
        """Start a processor by itself."""
        environment = {**self._site.environment(), **self.environment}
        return ProcessDaemon(lease, self._site.properties(**self.ours), environment)

    def plain_idle(self, count: int) -> None:
        """Measure processors that were started by themselves."""
        with ExitStack() as stack:
            some = [stack.enter_context(self.plain(self.lease())) for _ in range(count)]
            for processor in some:
                self.settle(processor)
            self.found["plain_uss_mb"] = [uss_mb(processor.process.pid) for processor in some]

    def settle(self, processor: ProcessDaemon) -> None:
        """Let it open its shard and commit some segments."""
        processor.start()
        for number in range(_SEGMENTS):
            self.deliver(processor, 10, 1000, minutes_ago=20 - number)
        processor.tick()

    def deliver(self, processor: ProcessDaemon, count: int, size: int, *, minutes_ago: int) -> None:
        """Let records of one minute arrive, and deliver them."""
        arrival_ms = _CLOCK.now_ms() - minutes_ago * 60_000
        for number in range(count):
            processor.lease.shard.put(f'{{"n":{number}}}'.ljust(size).encode(), arrival_ms)
        processor.deliver()

    def idle(self, forks: Forks, count: int) -> None:
        """Measure many idle forked processors, each of which has committed some segments."""
        with ExitStack() as stack:
            some = []
            for number in range(count):
                some.append(stack.enter_context(forks.processor(self.lease())))
                self.settle(some[-1])
                if number == 0:
                    (first,) = forks.processors()
                if number + 1 == min(8, count):
                    self.found["few"] = self.fleet(forks, some)
            self.found["many"] = self.fleet(forks, some)
            self.large_batch(first.pid, some[0])

    def large_batch(self, pid: int, processor: ProcessDaemon) -> None:
        """Measure one processor after a large batch, at once and when it had time to give memory back."""
        uss = [uss_mb(pid)]
        self.deliver(processor, _BATCH_RECORDS, 1000, minutes_ago=2)
        uss.append(uss_mb(pid))
        for _ in range(3):
            _CLOCK.sleep(_SETTLE_SECONDS)
            processor.tick()
            uss.append(uss_mb(pid))
        self.found["batch_of_4_mb_uss_mb"] = uss

    def busy(self, forks: Forks, count: int, seconds: int) -> None:
        """Measure busy processors: each gets 100 records of 1,000 bytes a second, as they arrive."""
        with ExitStack() as stack:
            some = [stack.enter_context(forks.processor(self.lease())) for _ in range(count)]
            for processor in some:
                processor.start()
            begun, used = _CLOCK.monotonic(), cpu_seconds(forks.server.pid)
            rounds = 0
            while (now := _CLOCK.monotonic()) < begun + seconds:
                for processor in some:
                    self.deliver(processor, 100, 1000, minutes_ago=0)
                rounds += 1
                _CLOCK.sleep(max(0.0, begun + rounds - now))
            took = _CLOCK.monotonic() - begun
            self.found["busy"] = {
                **self.fleet(forks, some),
                "kb_a_second_and_shard": rounds * 100 / took,
                "cpu_seconds": cpu_seconds(forks.server.pid) - used,
                "seconds": took,
            }

    def fleet(self, forks: Forks, some: Sequence[ProcessDaemon]) -> dict[str, object]:
        """Return what the processors of a fork server use, their stubs and itself included."""
        pids = [process.pid for process in forks.processors()]
        stubs = [processor.process.pid for processor in some]
        everyone = [forks.server.pid, *pids, *stubs]
        return {
            "processors": len(pids),
            "uss_mb": [uss_mb(pid) for pid in pids],
            "stub_uss_mb": [uss_mb(pid) for pid in stubs],
            "server_uss_mb": uss_mb(forks.server.pid),
            "pss_sum_mb": sum(rollup(pid)["Pss"] for pid in everyone) / _MB,
            "page_tables_mb": [
                page_tables_mb(pid) + page_tables_mb(stub) for pid, stub in zip(pids, stubs, strict=True)
            ],
        }


def rollup(pid: int) -> dict[str, int]:
    """Return the sums of a process's mappings, in kB."""
    rows = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]]
    return {row[0].rstrip(":"): int(row[1]) * 1024 // 1000 for row in rows}


def uss_mb(pid: int) -> float:
    """Return what would be free if the process ended, in MB (10^6 bytes)."""
    sums = rollup(pid)
    return (sums["Private_Clean"] + sums["Private_Dirty"]) / _MB


def page_tables_mb(pid: int) -> float:
    """Return what the kernel's tables of a process's pages take, in MB."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1.024 / _MB for row in rows if row.startswith("VmPTE:"))


def main(arguments: list[str]) -> int:
    """Print a Markdown table; the raw numbers go to --json."""
    configure_logging("error")
    parser = argparse.ArgumentParser(prog="python -m benchmarks density", description=__doc__)
    parser.add_argument("--idle", type=int, default=256, help="idle forked processors (default 256)")
    parser.add_argument("--busy", type=int, default=64, help="busy ones, at 100 KB/s each (default 64)")
    parser.add_argument("--seconds", type=int, default=40, help="how long they are busy (default 40)")
    parser.add_argument("--plain", type=int, default=4, help="processors started by themselves (default 4)")
    parser.add_argument("--tls", action="store_true", help="S3 behind TLS; takes the program openssl")
    parser.add_argument("--json", type=Path, help="file for the raw numbers")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        aws = stack.enter_context(EmbeddedAws(folder / "aws"))
        run = Density(Site(aws, folder))
        if options.tls:
            front = stack.enter_context(TlsFront(folder, aws.s3_endpoint))
            run.ours["s3Endpoint"], run.environment = front.endpoint, front.environment
        run.plain_idle(options.plain)
        with run.forks() as forks:
            run.idle(forks, options.idle)
        with run.forks() as forks:
            run.busy(forks, options.busy, options.seconds)
    sys.stdout.write(_table(run.found))
    if options.json is not None:
        options.json.write_text(json.dumps(run.found, indent=1))
    return 0


def _table(found: Mapping[str, Any]) -> str:
    few, many, busy = found["few"], found["many"], found["busy"]
    more = many["processors"] - few["processors"] or 1
    idle = statistics.fmean(many["uss_mb"]) + statistics.fmean(many["stub_uss_mb"])
    taken = busy["processors"] * busy["kb_a_second_and_shard"] * busy["seconds"] / _MB
    rows = [
        ("USS of an idle processor started by itself", _mb(statistics.fmean(found["plain_uss_mb"]))),
        ("USS of an idle forked processor and its stub, mean", _mb(idle)),
        ("the largest of them", _mb(max(many["uss_mb"]) + max(many["stub_uss_mb"]))),
        ("of that the stub", _mb(statistics.fmean(many["stub_uss_mb"]))),
        ("USS of the fork server", _mb(many["server_uss_mb"])),
        (
            f"PSS of all, per additional processor ({few['processors']} to {many['processors']})",
            _mb((many["pss_sum_mb"] - few["pss_sum_mb"]) / more),
        ),
        ("page tables of a processor and its stub, mean", _mb(statistics.fmean(many["page_tables_mb"]))),
        (f"PSS of {many['processors']} idle ones together, fork server included", _mb(many["pss_sum_mb"])),
        ("USS before a batch of 4 MB, at once after it, and up to 18 s later", _each(found["batch_of_4_mb_uss_mb"])),
        (
            f"USS of a busy one at {busy['kb_a_second_and_shard']:.0f} KB/s, mean",
            _mb(statistics.fmean(busy["uss_mb"])),
        ),
        ("the largest of them", _mb(max(busy["uss_mb"]))),
        (f"PSS of {busy['processors']} busy ones together", _mb(busy["pss_sum_mb"])),
        (
            "their CPU, per MB of payload",
            f"{busy['cpu_seconds'] / taken * 1000:.0f} ms",
        ),
    ]
    return "\n".join(["| what | measured |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows), ""])


def _mb(value: float) -> str:
    return f"{value:.1f} MB"


def _each(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values) + " MB"
