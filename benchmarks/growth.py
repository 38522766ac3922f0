"""What more shards take: the CPU of a shard's minute, and its memory, in fleets of different sizes.

Every shard gets as many bytes a minute, few enough that the machine keeps up with the largest fleet: else a shard's
share of what it costs by the minute (a PUT, a checkpoint, sixty calls) stands against fewer bytes. The fleets take
turns, there and back, so that a machine that others use is as busy for one as for another.

Processes and services are those of `density`. CPU is that of the processors and of their fork server, over whole
minutes: each shard commits as many segments as there are.
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

from benchmarks.density import Density
from benchmarks.processes import cpu_seconds
from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.logs import configure_logging
from tests.integration.archive_site import Site

_CLOCK: Final = SystemClock()
_MINUTE_SECONDS: Final = 60
_RECORD_BYTES: Final = 1000


def measure(run: Density, shards: int, rate: int, minutes: int) -> dict[str, object]:
    """Let so many processors live for some minutes, with `rate` records of 1,000 bytes a second each."""
    with ExitStack() as stack:
        forks = stack.enter_context(run.forks())
        fleet = [stack.enter_context(forks.processor(run.lease())) for _ in range(shards)]
        for processor in fleet:
            processor.start()
            run.deliver(processor, rate, _RECORD_BYTES, minutes_ago=0)
        begun, used = _CLOCK.monotonic(), cpu_seconds(forks.server.pid)
        rounds = minutes * _MINUTE_SECONDS
        for number in range(rounds):
            for processor in fleet:
                run.deliver(processor, rate, _RECORD_BYTES, minutes_ago=0)
            _CLOCK.sleep(max(0.0, begun + number + 1 - _CLOCK.monotonic()))
        return {
            **run.fleet(forks, fleet),
            "cpu_seconds": cpu_seconds(forks.server.pid) - used,
            "seconds": _CLOCK.monotonic() - begun,
            "minutes": minutes,
            "megabytes": shards * rate * rounds * _RECORD_BYTES / 1e6,
        }


def main(arguments: list[str]) -> int:
    """Print a Markdown table; the raw numbers go to --json."""
    configure_logging("error")
    parser = argparse.ArgumentParser(prog="python -m benchmarks growth", description=__doc__)
    parser.add_argument("--shards", type=int, nargs="+", default=[8, 24, 80], help="fleets (default 8 24 80)")
    parser.add_argument("--rates", type=int, nargs="+", default=[10], help="KB a second and shard (default 10)")
    parser.add_argument("--minutes", type=int, default=2, help="of each fleet and turn (default 2)")
    parser.add_argument("--turns", type=int, default=2, help="of each fleet (default 2)")
    parser.add_argument("--json", type=Path, help="file for the raw numbers")
    options = parser.parse_args(arguments)
    cases = [(shards, rate) for rate in options.rates for shards in options.shards]
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run = Density(Site(stack.enter_context(EmbeddedAws(folder / "aws")), folder))
        for turn in range(options.turns):
            for shards, rate in cases if turn % 2 == 0 else reversed(cases):
                rows.append({"shards": shards, "rate": rate, **measure(run, shards, rate, options.minutes)})
    sys.stdout.write(_table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps({"rows": rows}, indent=1))
    return 0


def cpu_of_a_minute(row: Mapping[str, Any]) -> float:
    """Return the CPU milliseconds of one shard's minute."""
    return float(row["cpu_seconds"] / row["processors"] / row["minutes"] * 1000)


def cpu_of_a_gigabyte(row: Mapping[str, Any]) -> float:
    """Return the CPU seconds of a GB of payload."""
    return float(row["cpu_seconds"] / row["megabytes"] * 1000)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| shards | KB/s offered to each, and taken | CPU ms of a shard's minute | CPU s for a GB | MB of each |",
        "|---|---|---|---|---|",
    ]
    for shards, rate in dict.fromkeys((row["shards"], row["rate"]) for row in rows):
        some = [row for row in rows if (row["shards"], row["rate"]) == (shards, rate)]
        taken = min(row["megabytes"] * 1000 / row["seconds"] / row["shards"] for row in some)
        minute, gigabyte = ([of(row) for row in some] for of in (cpu_of_a_minute, cpu_of_a_gigabyte))
        memory = statistics.fmean(mb for row in some for mb in row["uss_mb"])
        texts = [f"{rate}, {taken:.1f}", _each(minute, 0), _each(gigabyte, 1), f"{memory:.1f}"]
        lines.append(f"| {shards} | {' | '.join(texts)} |")
    return "\n".join([*lines, ""])


def _each(values: Sequence[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)
