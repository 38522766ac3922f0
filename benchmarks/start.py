"""How soon a processor answers: from the start of what the daemon starts, to the first answer on the pipe.

Two first messages, each to a process of its own. `leaseLost` is answered without asking anybody: that is the start
alone. For `initialize` the processor asks S3 and Kinesis, five requests, which here a server on loopback answers
that has nothing else to do. Stubs of a fork server, and programs that are started by themselves, in turns.
"""

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from archive.logs import configure_logging
from archive.properties_file import FORKS_VARIABLE, SUPERVISED_VARIABLE
from benchmarks.pipe.child import Child
from consumer.daemon.fork_server import stub_command
from consumer.forks.stage import play
from tests.integration.fork_site import PYTHON, Forks
from tests.integration.process_daemon import PROGRAM

_KEYS: Final = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}


def _first_messages(number: int) -> dict[str, bytes]:
    begin = {
        "action": "initialize",
        "shardId": f"shardId-{number:012d}",
        "sequenceNumber": "TRIM_HORIZON",
        "subSequenceNumber": 0,
    }
    return {"leaseLost": b'{"action":"leaseLost"}\n', "initialize": json.dumps(begin).encode() + b"\n"}


@contextmanager
def _services() -> Iterator[str]:
    """Let a small S3 and Kinesis answer in a process of its own; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("fork").Process(target=play, args=(listener,))
        process.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            process.kill()
            process.join()


def _properties(folder: Path, address: str) -> Path:
    path = folder / "bench.properties"
    path.write_text(
        "streamName = rehearsal\napplicationName = bench\nregionName = us-east-1\nminutebook.bucket = bench\n"
        f"minutebook.s3Endpoint = {address}\nkinesisEndpoint = {address}\n"
    )
    return path


def _measure(starts: Mapping[str, tuple[list[str], Mapping[str, str]]], runs: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for number in range(runs):
        for name, message in _first_messages(number).items():
            for kind, (command, environment) in starts.items():
                with Child(command, environment) as child:
                    found.setdefault(f"{kind}, {name}", []).append(child.first_answer(message))
    return found


def main(arguments: list[str]) -> int:
    """Print a Markdown table; the raw numbers go to --json."""
    configure_logging("error")
    parser = argparse.ArgumentParser(prog="python -m benchmarks start", description=__doc__)
    parser.add_argument("--runs", type=int, default=30, help="starts of each kind (default 30)")
    parser.add_argument("--kinds", nargs="*", default=("forked", "plain"), choices=("forked", "plain"))
    parser.add_argument("--json", type=Path, help="file for the raw numbers")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, _services() as address:
        properties = _properties(Path(name), address)
        with Forks(Path(name), properties, {**os.environ, **_KEYS}) as forks:
            forks.events.wait("fork_server_ready")
            environment = {**_KEYS, SUPERVISED_VARIABLE: "1"}
            starts = {
                "forked": (stub_command(PYTHON).split(), {**environment, FORKS_VARIABLE: str(forks.socket)}),
                "plain": ([str(PROGRAM), str(properties)], environment),
            }
            found = _measure({kind: starts[kind] for kind in options.kinds}, options.runs)
    sys.stdout.write(_table(found))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


def _table(found: Mapping[str, Sequence[float]]) -> str:
    rows = ["| from start to the answer | median ms | least | 95th percentile |", "|---|---|---|---|"]
    for name, seconds in found.items():
        ordered = sorted(seconds)
        figures = statistics.median(ordered), ordered[0], ordered[round(0.95 * (len(ordered) - 1))]
        rows.append(f"| {name} | {' | '.join(f'{1000 * figure:.0f}' for figure in figures)} |")
    return "\n".join([*rows, ""])
