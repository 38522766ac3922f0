"""Every benchmark that has a target, one after the other: what `make bench` runs. More than an hour.

All but the large day, which takes 20 GB of disk (`python -m benchmarks large_day`).

Each is a process of its own. Its table goes to the terminal, its table and raw numbers into a folder (`--out`).

    python -m benchmarks suite [--out .bench] [--only processor density] [--bento PROGRAM]
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

SUITE: Final[dict[str, list[str]]] = {
    "processor": ["processor"],
    "processor-memory": ["processor", "--memory"],
    "processor-growth": ["processor", "--growth"],
    "growth-shards-8": ["density", "--idle", "8", "--busy", "8", "--seconds", "120", "--plain", "1"],
    "growth-shards-80": ["density", "--idle", "80", "--busy", "80", "--seconds", "120", "--plain", "1"],
    "processor-tls": ["processor", "--tls", "--shapes", "1 KB"],
    "whole-path": ["whole_path"],
    "start": ["start"],
    "density": ["density"],
    "density-tls": ["density", "--tls", "--busy", "4", "--seconds", "10"],
    "idle": ["idle"],
    "heap": ["heap"],
    "recovery": ["recovery"],
    "claims": ["claims"],
    "compression": ["compression"],
    "compaction": ["compaction"],
    "typed": ["typed"],
    "night-scale": ["night_scale", "--objects", "144000", "480000", "1440000"],
}
_WITHOUT_JSON: Final = frozenset({"compaction"})


def main(arguments: list[str]) -> int:
    """Run them; 1 when one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks suite", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".bench"))
    parser.add_argument("--only", nargs="*", choices=tuple(SUITE), default=tuple(SUITE))
    parser.add_argument("--bento", type=Path, help="a peer for the whole path")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.only:
        words = list(SUITE[name])
        if words[0] not in _WITHOUT_JSON:
            words += ["--json", str(options.out / f"{name}.json")]
        if words[0] == "whole_path" and options.bento is not None:
            words += ["--bento", str(options.bento)]
        sys.stdout.write(f"\n## {name}: python -m benchmarks {' '.join(SUITE[name])}\n\n")
        sys.stdout.flush()
        with (options.out / f"{name}.md").open("w") as table:
            process = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, "-m", "benchmarks", *words], stdout=subprocess.PIPE, text=True
            )
            for line in process.stdout or ():
                sys.stdout.write(line)
                table.write(line)
        if process.wait() != 0:
            failed.append(name)
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0
