"""Exactly once under chaos, on the real parts: `python -m tests.chaos --minutes 10 --seed 1`.

The real MultiLangDaemon under `minutebook consume`, two workers, embedded AWS; faults chosen by the seed for so many
minutes; then the archive is read back and compared with what Kinesis acknowledged. Exit code 0 only if nothing is
lost, doubled or altered, and every chain is whole.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from minutebook.clock import SystemClock
from minutebook.errors import MinutebookError
from tests.chaos.report import tables
from tests.chaos.run import Run

_ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """Play a run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="how long faults are injected (10)")
    parser.add_argument("--seed", type=int, default=1, help="decides acts, victims, faults and records (1)")
    parser.add_argument("--rate", type=float, default=15, help="records fed per second, about (15)")
    parser.add_argument(
        "--hostile",
        action="store_true",
        help="poison aggregates, key bombs, strays, producers' copies and conflicts of ids among the records",
    )
    parser.add_argument("--streams", type=int, default=1, help="streams; each worker is then a fleet of them (1)")
    parser.add_argument(
        "--catalog",
        type=Path,
        help="jars of a REST catalog: a table follows the archive, too",
    )
    options = parser.parse_args(arguments)
    folder = _ROOT / ".demo" / f"chaos-seed-{options.seed}-{SystemClock().now_ms()}-{os.getpid()}"
    folder.mkdir(parents=True)
    print(f"log, properties and the bucket's files: {folder}", flush=True)  # noqa: T201 - what the run shows
    signal.signal(signal.SIGTERM, _interrupt)
    run = Run(
        folder,
        seed=options.seed,
        seconds=60 * options.minutes,
        rate=options.rate,
        is_loud=True,
        is_hostile=options.hostile,
        streams=options.streams,
        catalog=options.catalog,
    )
    try:
        found = run.play()
    except MinutebookError as exc:
        print(f"{exc}\n{exc.next_step}")  # noqa: T201 - same
        return exc.exit_code
    print(tables([f"s{number}" for number in range(len(found))] if len(found) > 1 else [""], found))  # noqa: T201 - same
    print(f"\nlog, properties and the bucket's files: {folder}")  # noqa: T201 - same
    is_proven = all(findings.is_proven for findings in found)
    print("PROVEN" if is_proven else "NOT PROVEN")  # noqa: T201 - same
    return 0 if is_proven else 1


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
