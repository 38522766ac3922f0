"""A processor's own cost, as a process: the daemon's lines in through a pipe, gzip segments out by HTTP.

Beside it, in turns in the same run: the way a kclpy program does it by hand (kclpy's decoder, `json`, base64, zlib,
a PUT a minute), and the floor (read the pipe, compress what must come out, send it, and nothing else). CPU seconds
are the process's own, user and system, without its start; neither the daemon's double nor the server counts. `pipe`
and `PUT` are what of them reading the daemon's lines and sending segments take, and their share, by the clock of the
thread that does it.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pipe.child import Child, Memory, Used
from benchmarks.pipe.inputs import SHAPES, Input, Pace, Shape, make_input
from benchmarks.pipe.services import Server, s3_server
from benchmarks.pipe.shares import MARKERS, PIPE, SEGMENTS, SHARES
from consumer.forks.memory import ENVIRONMENT

_SIDES = ("minutebook", "plain", "floor")
_BATCH_BYTES = 10_000_000


class Bench:
    """What is started, and against which server."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._properties = server.properties(folder)
        self._shares = folder / "shares"
        self._runs = 0

    def start(self, side: str, given: Input, pace: Pace) -> Child:
        """Start one side on a shard that nobody has archived before."""
        self._runs += 1
        environment = {
            **self._server.environment,
            "MINUTEBOOK_PREFIX": f"run{self._runs}/",
            SHARES: str(self._shares),
        }
        if side == "minutebook":  # as the fork server gives it to those that it forks
            environment |= ENVIRONMENT
        lines = self._folder / "lines"
        if side == "floor" and (not lines.exists() or lines.stat().st_size != len(given.lines)):
            lines.write_bytes(given.lines)
        arguments = {
            "minutebook": ["benchmarks.pipe.product", str(self._properties)],
            "plain": ["benchmarks.pipe.plain", self._server.address],
            "floor": [
                "benchmarks.pipe.floor",
                str(lines),
                str(len(given.messages)),
                str(pace.batches_per_minute),
                self._server.address,
            ],
        }[side]
        return Child([sys.executable, "-m", *arguments], environment)

    def run(self, side: str, given: Input, pace: Pace) -> Used:
        """Let one side serve a whole life."""
        self._shares.unlink(missing_ok=True)
        with self.start(side, given, pace) as child:
            used = child.run(given.messages)
        if not self._shares.exists():
            return used
        took = {name: sum(seconds) for name, seconds in json.loads(self._shares.read_text()).items()}
        # Markers are written once in hours of a real life, and make the connection: they are no part of its work.
        work = used.seconds - took[MARKERS]
        return used._replace(pipe=took[PIPE] / work, put=took[SEGMENTS] / work)


def measure(bench: Bench, shape: Shape, options: argparse.Namespace) -> dict[str, Any]:
    """Return the raw figures of one shape: runs of each side, in turns."""
    # What a shard takes in a second: 1,000 records, or 1 MB.
    batch = options.batch_records or min(1000, 1_000_000 // shape.payload_bytes)
    pace = Pace(batch, options.batches_per_minute)
    given = make_input(shape, options.megabytes * 1_000_000, pace)
    runs: dict[str, list[Used]] = {side: [] for side in options.sides}
    for _ in range(options.runs):
        for side, used in runs.items():
            used.append(bench.run(side, given, pace))
    figures = {side: [use._asdict() for use in used] for side, used in runs.items()}
    return {"records": given.records, "payload_bytes": given.payload_bytes, **figures}


def weigh(bench: Bench, shape: Shape, side: str, batch_bytes: int) -> Memory:
    """Return the memory that one large batch takes."""
    pace = Pace(batch_bytes // shape.payload_bytes)
    given = make_input(shape, batch_bytes, pace)
    with bench.start(side, given, pace) as child:
        return child.weigh(given.messages[:1])


def _row(name: str, side: str, found: Mapping[str, Any], ratio: str) -> str:
    seconds = statistics.median(run["seconds"] for run in found[side])
    start = statistics.median(run["start_seconds"] for run in found[side])
    peak = max(run["peak_rss_mib"] for run in found[side])
    speed = found["payload_bytes"] / seconds / 1e6
    records = f"{found['records'] / seconds:,.0f}"
    shares = " | ".join(_share(found[side], of, 1000 / speed) for of in ("pipe", "put"))
    return (
        f"| {name} | {side} | {1000 / speed:.2f} | {speed:.1f} | {records} | {ratio} | {shares} | {start:.2f} "
        f"| {peak:.0f} |\n"
    )


def _share(runs: Sequence[Mapping[str, Any]], of: str, whole: float) -> str:
    known = [run[of] for run in runs if run[of] is not None]
    return f"{statistics.median(known) * whole:.2f}, {statistics.median(known):.1%}" if known else ""


def _ratio(found: Mapping[str, Any], side: str) -> str:
    """Return how many times the CPU of the product a side takes: the median over the rounds."""
    if side == "minutebook" or "minutebook" not in found:
        return ""
    pairs = zip(found[side], found["minutebook"], strict=True)
    return f"{statistics.median(other['seconds'] / own['seconds'] for other, own in pairs):.2f}"


def _growth(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """Ten times the records in a batch, and ten times the minutes: CPU per record, and peak memory."""
    found = {}
    # Three minutes of six batches, and ten times that in either way.
    for name, megabytes, batch in (
        ("as it is", 18, 1000),
        ("batches x 10", 180, 10_000),
        ("minutes x 10", 180, 1000),
    ):
        changes = {"megabytes": megabytes, "batch_records": batch, "batches_per_minute": 6}
        scaled = argparse.Namespace(**{**vars(options), **changes})
        found[name] = measure(bench, SHAPES["1 KB"], scaled)
        for side in options.sides:
            sys.stdout.write(_row(f"1 KB, {name}", side, found[name], _ratio(found[name], side)))
    return found


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks processor", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=60, help="payload per run (default 60)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side, in turns (default 5)")
    parser.add_argument("--batch-records", type=int, help="records in a batch (a second of a full shard)")
    parser.add_argument("--batches-per-minute", type=int, default=60, help="batches in a minute (default 60)")
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES), help="payloads (all)")
    parser.add_argument("--sides", nargs="*", default=list(_SIDES), choices=_SIDES, help="who runs (all)")
    parser.add_argument("--tls", action="store_true", help="PUT by HTTPS")
    parser.add_argument("--growth", action="store_true", help="larger batches and more minutes instead of shapes")
    parser.add_argument("--memory", action="store_true", help="the memory of one batch of 10 MB instead of CPU")
    parser.add_argument("--json", type=Path, help="write the raw figures to this file")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Print a table: CPU seconds per GB of payload, MB and records per CPU second, and ratios of the CPU seconds."""
    options = _options(argv)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, s3_server(Path(name), tls=options.tls) as server:
        bench = Bench(server, Path(name))
        if options.memory:
            sys.stdout.write(
                "| payload | side | idle USS MiB | peak | peak over idle | after |\n|---|---|---|---|---|---|\n"
            )
            for shape in options.shapes:
                for side in options.sides:
                    memory = weigh(bench, SHAPES[shape], side, _BATCH_BYTES)
                    found.setdefault(shape, {})[side] = memory._asdict()
                    figures = memory.idle, memory.peak, memory.peak - memory.idle, memory.after
                    sys.stdout.write(f"| {shape} | {side} | {' | '.join(f'{mib:.1f}' for mib in figures)} |\n")
        else:
            sys.stdout.write(
                "| payload | side | CPU s per GB | MB per CPU s | records per CPU s | CPU, ours = 1 | pipe | PUT "
                "| start CPU s | peak RSS MiB |\n|---|---|---|---|---|---|---|---|---|---|\n"
            )
            if options.growth:
                found = _growth(bench, options)
            for shape in () if options.growth else options.shapes:
                found[shape] = measure(bench, SHAPES[shape], options)
                for side in options.sides:
                    sys.stdout.write(_row(shape, side, found[shape], _ratio(found[shape], side)))
                sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0
