"""How soon a processor answers: from the start of what the daemon starts, to the first answer on the pipe.

First messages, each to a process of its own. `leaseLost` is answered without asking anybody: that is the start
alone. For `initialize` the processor asks S3 and Kinesis, in four requests, which here a server on loopback answers
that has nothing else to do, at once or, with --answer-after, as late as a service that is far away. A third message
is that of a later start, with a checkpoint, seven requests. Stubs of a fork server, and programs that are started by
themselves, in turns.

CPU is that of whole lives, which end behind the answer: what the processors and what the stubs took. The clock is the
machine's, which others may keep busy.
"""

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from benchmarks.pipe.child import Child
from benchmarks.quiet_services import Answers, serve
from consumer.daemon.fork_server import stub_command
from minutebook.clock import SystemClock
from minutebook.format.document import FORMAT
from minutebook.format.keys import start_marker_key
from minutebook.format.markers import StartMarker, encode_marker
from minutebook.logs import configure_logging
from minutebook.properties_file import FORKS_VARIABLE, SUPERVISED_VARIABLE
from tests.integration.fork_site import PYTHON, Forks
from tests.integration.process_daemon import PROGRAM

_CLOCK: Final = SystemClock()
_KEYS: Final = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
_LATER: Final = "shardId-000000999999"
_NAMES: Final = ("leaseLost", "first start", "later start")


def _first_message(name: str, number: int) -> bytes:
    if name == "leaseLost":
        return b'{"action":"leaseLost"}\n'
    is_first = name == "first start"
    begin = {
        "action": "initialize",
        "shardId": f"shardId-{number:012d}" if is_first else _LATER,
        "sequenceNumber": "TRIM_HORIZON" if is_first else "7",
        "subSequenceNumber": 0,
    }
    return json.dumps(begin).encode() + b"\n"


class _Far(Answers):
    """Answers as late as somebody who is far away, as a stream that still holds a later start's checkpoint."""

    kinesis: ClassVar[Mapping[str, Any]] = {
        **Answers.kinesis,
        "GetRecords": {
            "Records": [
                {
                    "SequenceNumber": "7",
                    "ApproximateArrivalTimestamp": 1_767_225_700,
                    "PartitionKey": "p",
                    "Data": "eA==",
                }
            ],
            "MillisBehindLatest": 0,
            "NextShardIterator": "bench",
        },
    }
    seconds = 0.0

    def send_response(self, code: int, message: str | None = None) -> None:
        """Begin an answer, in time."""
        _CLOCK.sleep(self.seconds)
        super().send_response(code, message)


def _serve(listener: socket.socket, answer_after_seconds: float) -> None:
    _Far.seconds = answer_after_seconds  # this process' own
    serve(listener, _Far)


@contextmanager
def _services(answer_after_seconds: float) -> Iterator[str]:
    """Let a small S3 and Kinesis answer in a process of its own; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        arguments = (listener, answer_after_seconds)
        process = multiprocessing.get_context("fork").Process(target=_serve, args=arguments)
        process.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            process.kill()
            process.join()


def _begin_shard(address: str) -> None:
    """Store what the first start of a shard leaves behind."""
    marker = StartMarker(
        format=FORMAT,
        shard=_LATER,
        sentinel="TRIM_HORIZON",
        first="1:0",
        starting_hash_key="",
        ending_hash_key="",
        parents=[],
        writer="bench",
        written_at="2026-01-01T00:00:00.000Z",
    )
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{address}/bench/{start_marker_key('', _LATER)}", data=encode_marker(marker), method="PUT"
    )
    urllib.request.urlopen(request).close()  # noqa: S310 - as above


def _properties(folder: Path, address: str) -> Path:
    path = folder / "bench.properties"
    path.write_text(
        "streamName = bench\napplicationName = bench\nregionName = us-east-1\nminutebook.bucket = bench\n"
        f"minutebook.s3Endpoint = {address}\nkinesisEndpoint = {address}\n"
    )
    return path


class _Start(NamedTuple):
    """How one kind is started; `server` is the pid whose dead children are processors, 0 where there is none."""

    command: list[str]
    environment: Mapping[str, str]
    server: int = 0


def _measure(starts: Mapping[str, _Start], runs: int) -> dict[str, dict[str, list[float]]]:
    """Return the milliseconds of each start, by what was started with which message; the very first is left out."""
    found: dict[str, dict[str, list[float]]] = {}
    for number in range(runs + 1):
        for name in _NAMES:
            for kind, start in starts.items():
                before = _dead_children_ms(start.server), _dead_children_ms(os.getpid())
                with Child(start.command, start.environment) as child:
                    seconds = child.first_answer(_first_message(name, number))
                after = _dead_children_ms(start.server), _dead_children_ms(os.getpid())
                row = found.setdefault(f"{kind}, {name}", {"wall": [], "processor": [], "child": []})
                if number > 0:
                    row["wall"].append(seconds * 1000)
                    row["processor"].append(after[0] - before[0])
                    row["child"].append(after[1] - before[1])
    return found


def _dead_children_ms(pid: int) -> float:
    """Return the CPU time of a process's children that it has reaped, in ticks of 10 ms: sums alone say something."""
    if pid == 0:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) * 1000 / os.sysconf("SC_CLK_TCK")


def main(arguments: list[str]) -> int:
    """Print a Markdown table; the raw numbers go to --json."""
    configure_logging("error")
    parser = argparse.ArgumentParser(prog="python -m benchmarks start", description=__doc__)
    parser.add_argument("--runs", type=int, default=30, help="starts of each kind (default 30)")
    parser.add_argument("--kinds", nargs="*", default=("forked", "plain"), choices=("forked", "plain"))
    parser.add_argument("--answer-after", type=float, default=0, metavar="MS", help="of S3 and Kinesis (default 0)")
    parser.add_argument("--json", type=Path, help="file for the raw numbers")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, _services(options.answer_after / 1000) as address:
        _begin_shard(address)
        properties = _properties(Path(name), address)
        with Forks(Path(name), properties, {**os.environ, **_KEYS}) as forks:
            forks.events.wait("fork_server_ready")
            environment = {**_KEYS, SUPERVISED_VARIABLE: "1"}
            forked = {**environment, FORKS_VARIABLE: str(forks.socket)}
            starts = {
                "forked": _Start(stub_command(PYTHON).split(), forked, forks.server.pid),
                "plain": _Start([str(PROGRAM), str(properties)], environment),
            }
            found = _measure({kind: starts[kind] for kind in options.kinds}, options.runs)
    sys.stdout.write(_table(found))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


def _table(found: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    rows = [
        "| from start to the answer | median ms | least | 95th percentile | CPU ms: what is started | processor |",
        "|---|---|---|---|---|---|",
    ]
    for name, figures in found.items():
        ordered = sorted(figures["wall"])
        wall = statistics.median(ordered), ordered[0], ordered[round(0.95 * (len(ordered) - 1))]
        cpu = statistics.fmean(figures["child"]), statistics.fmean(figures["processor"])
        texts = [*(f"{figure:.0f}" for figure in wall), *(f"{figure:.1f}" for figure in cpu)]
        rows.append(f"| {name} | {' | '.join(texts)} |")
    return "\n".join([*rows, ""])
