"""Every benchmark that has a target, one after the other: what `make bench` runs. More than an hour.

All but the large day, which takes 20 GB of disk (`python -m benchmarks large_day`).

Each is a process of its own. Its table goes to the terminal, its table and raw numbers into a folder (`--out`).
`--quick` runs each of them as small as it gets, in half an hour under load: whether all run, and not what they say.

    python -m benchmarks suite [--quick] [--out .bench] [--only processor density] [--bento PROGRAM]
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

from minutebook.clock import SystemClock

_CLOCK: Final = SystemClock()
SUITE: Final[dict[str, list[str]]] = {
    "processor": ["processor"],
    "processor-memory": ["processor", "--memory"],
    "processor-growth": ["processor", "--growth"],
    "growth": ["growth"],
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
QUICK: Final[dict[str, list[str]]] = {
    "processor": ["--megabytes", "4", "--runs", "1"],
    "processor-memory": ["--runs", "1", "--shapes", "1 KB"],
    "processor-growth": ["--runs", "1", "--sides", "minutebook"],
    "growth": ["--shards", "2", "4", "--minutes", "1", "--turns", "1"],
    "processor-tls": ["--megabytes", "4", "--runs", "1"],
    "whole-path": ["--megabytes", "5", "20", "--runs", "1"],
    "start": ["--runs", "3"],
    "density": ["--idle", "10", "--busy", "4", "--seconds", "5", "--plain", "1"],
    "density-tls": ["--idle", "4", "--seconds", "5", "--plain", "1"],
    "idle": ["--shards", "2", "--seconds", "10"],
    "heap": ["--heaps", "512m", "--shards", "2", "--megabytes", "1"],
    "recovery": ["--runs", "1"],
    "claims": ["--runs", "1"],
    "compression": ["--records", "100", "--most", "500", "--rounds", "1"],
    "compaction": ["--objects", "10", "--records", "100", "--runs", "1"],
    "typed": ["--objects", "4", "--records", "500", "--runs", "1"],
    "night-scale": ["--objects", "1440"],
}
"""What `--quick` adds: of two equal options the last one counts."""
_WITHOUT_JSON: Final = frozenset({"compaction"})


def main(arguments: list[str]) -> int:
    """Run them; 1 when one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks suite", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder (default .bench, with --quick .bench/quick)")
    parser.add_argument("--quick", action="store_true", help="each of them as small as it gets")
    parser.add_argument("--only", nargs="*", choices=tuple(SUITE), default=tuple(SUITE))
    parser.add_argument("--bento", type=Path, help="a peer for the whole path")
    options = parser.parse_args(arguments)
    out = options.out or Path(".bench/quick" if options.quick else ".bench")
    out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.only:
        words = [*SUITE[name], *(QUICK[name] if options.quick else ())]
        sys.stdout.write(f"\n## {name}: python -m benchmarks {shlex.join(words)}\n\n")
        sys.stdout.flush()
        if words[0] not in _WITHOUT_JSON:
            words += ["--json", str(out / f"{name}.json")]
        if words[0] == "whole_path" and options.bento is not None:
            words += ["--bento", str(options.bento)]
        begun = _CLOCK.monotonic()
        with (out / f"{name}.md").open("w") as table:
            process = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, "-m", "benchmarks", *words], stdout=subprocess.PIPE, text=True
            )
            for line in process.stdout or ():
                sys.stdout.write(line)
                table.write(line)
        if process.wait() != 0:
            failed.append(name)
        sys.stdout.write(f"\n{_CLOCK.monotonic() - begun:.0f} s\n")
        sys.stdout.flush()
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0
