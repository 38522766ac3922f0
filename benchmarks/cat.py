"""`minutebook cat` out of a day of 144,000 segments: when the first line comes, and how many requests it takes.

The command is a process of its own, started anew each time; the server is another one and makes the archive up. A
run that is not counted comes first: it lets Python keep its bytecode, as an installation has it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.archives import PREFIX
from benchmarks.day_server import RECORDS, SHARDS
from benchmarks.pipe.services import Server, read_port

_RUNS = {
    "ten minutes": ("--from", "2026-11-20T12:03Z", "--to", "2026-11-20T12:13Z"),
    "ten minutes of one shard": (
        *("--from", "2026-11-20T12:03Z", "--to", "2026-11-20T12:13Z"),
        *("--shard", "shardId-000000000042"),
    ),
    "one record": ("--from", "2026-11-20T12:03Z", "--to", "2026-11-20T12:13Z", "--limit", "1"),
    "three hours": ("--from", "2026-11-20T12:00Z", "--to", "2026-11-20T15:00Z"),
}


class Measured(NamedTuple):
    """Seconds from the start of the process, its CPU seconds, lines, peak memory in MiB, and what it asked."""

    first: float
    whole: float
    worked: float
    lines: int
    memory: float
    asked: dict[str, int]


@contextmanager
def _day_server(folder: Path, latency_ms: float) -> Iterator[Server]:
    file = folder / f"port-{latency_ms:g}"
    command = [sys.executable, "-m", "benchmarks.day_server", str(file), str(latency_ms)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - our own
    try:
        environment = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
        yield Server(f"http://127.0.0.1:{read_port(file)}", environment)
    finally:
        process.communicate()


def _measure(server: Server, properties: Path, words: tuple[str, ...]) -> Measured:
    command = [sys.executable, "-m", "minutebook", "cat", str(properties), *words]
    _asked(server)
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=_environment(server))  # noqa: S603
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    process.stdout.readline()
    first = time.perf_counter() - begin
    lines = 1 + sum(1 for _ in process.stdout)
    _, status, use = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"cat ended with {process.returncode}")
    return Measured(
        first, time.perf_counter() - begin, use.ru_utime + use.ru_stime, lines, use.ru_maxrss / 1024, _asked(server)
    )


def _environment(server: Server) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **server.environment}


def _asked(server: Server) -> dict[str, int]:
    with urllib.request.urlopen(f"{server.address}/_asked") as answer:  # noqa: S310 - our own
        counts: dict[str, int] = json.load(answer)
    return counts


def main(arguments: list[str]) -> int:
    """Run the benchmark; prints one line per run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks cat", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=_RUNS, nargs="+", default=[*_RUNS])
    parser.add_argument("--latency", type=float, nargs="+", default=[0.0, 30.0], metavar="MS")
    options = parser.parse_args(arguments)
    sys.stdout.write(f"{SHARDS * 1440:,} segments of {RECORDS} records: {SHARDS} shards, one day\n")
    with tempfile.TemporaryDirectory() as folder:
        for latency in options.latency:
            with _day_server(Path(folder), latency) as server:
                properties = server.properties(Path(folder))
                properties.write_text(f"{properties.read_text()}minutebook.prefix = {PREFIX}\n")
                _measure(server, properties, _RUNS["one record"])
                for name in options.only:
                    words = _RUNS[name]
                    for _ in range(options.runs):
                        found = _measure(server, properties, words)
                        asked = ", ".join(f"{count} {kind}" for kind, count in sorted(found.asked.items()))
                        sys.stdout.write(
                            f"{latency:g} ms, {name}: first line {found.first:.2f} s, all {found.lines:,} lines "
                            f"{found.whole:.2f} s ({found.worked:.2f} of CPU), {asked}, {found.memory:.0f} MiB\n"
                        )
                        sys.stdout.flush()
    return 0
