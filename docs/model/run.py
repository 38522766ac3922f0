#!/usr/bin/env python3
"""Check the model of the commit protocol: exhaustively as it is, and that each broken variant is caught.

    python docs/model/run.py                 the table; exit 0 only when every row is as expected
    python docs/model/run.py --trail NO_HEAD the shortest history that breaks one variant
    python docs/model/run.py --records 2     the protocol alone, of another size
    python docs/model/run.py --all           the table, and the rules that stand behind another rule

Needs spin and a C compiler, and nothing of Minutebook.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

MODEL: Final = Path(__file__).with_name("commit.pml")
MISSING: Final = "{} is missing: the model is checked by spin and a C compiler (Debian: apt-get install spin gcc)"
MEMORY_MB: Final = 4000
TABLE_BITS: Final = {True: 22, False: 25}
"""Size of spin's table of states, as a power of two: for a counterexample, for a whole search."""


class Variant(NamedTuple):
    """One row: what is switched, how large, and what must come out.

    `expected` is the name of the promise that breaks, None when every history must keep all three.
    """

    kind: str
    name: str
    meaning: str
    defines: tuple[str, ...]
    records: int
    expected: str | None


def _rule(name: str, meaning: str, records: int, expected: str, *others: str) -> Variant:
    return Variant("broken", name, meaning, (name, *others), records, expected)


def _assumption(name: str, meaning: str, records: int, expected: str) -> Variant:
    return Variant("assumption", name, meaning, (name,), records, expected)


TWICE: Final = "stored_twice"
BROKEN: Final = "chain_broken"
AHEAD: Final = "checkpoint_ahead"

VARIANTS: Final = (
    Variant("protocol", "-", "all rules", (), 3, None),
    _rule("LATEST", "starts at LATEST", 3, TWICE),
    _rule("FIRST_LAST_KEYS", "keys name the first and the last record", 2, TWICE),
    _rule("NO_HEAD", "412 taken for success, no HEAD", 2, AHEAD),
    _rule("NO_AGE_GUARD", "old buffers are committed", 2, TWICE),
    _rule("CHECKPOINT_FIRST", "checkpoint before the commit", 2, AHEAD),
    _rule("NO_LIST", "no LIST of stored ranges", 3, TWICE),
    _rule(
        "NO_LIST_WITHOUT_CHECKPOINT", "neither LIST nor marker after a lost lease table", 2, TWICE, "NO_START_MARKER"
    ),
    _rule("NO_START_MARKER", "the start is not compared", 3, BROKEN),
    _rule("NO_DOUBT", "no doubt at a stored range before the start", 3, BROKEN),
    _rule("REUSED_WRITER_ID", "one writer id for many commits", 2, AHEAD),
    _rule("GUESSED_APPLIED", "an unknown outcome taken for success", 2, AHEAD),
    _rule("OVERTAKEN", "reads on after retention has passed it", 3, BROKEN),
    _rule("NO_SILENCE", "goes on after its lease is lost", 3, BROKEN),
    _assumption("SLOW_REQUEST", "a request on its way for longer than retention", 2, TWICE),
    _assumption("EARLY_EXPIRY", "objects deleted before retention has passed", 2, TWICE),
)

FENCES: Final = (
    Variant(
        "fence", "-", "no LIST after a lost lease table, marker compared", ("NO_LIST_WITHOUT_CHECKPOINT",), 3, None
    ),
)
"""Rules whose loss another rule catches; they take a search of everything, so only `--all` runs them."""


class Result(NamedTuple):
    """What spin found. `violated` is the promise, None when it searched everything and found nothing."""

    violated: str | None
    states: int
    depth: int
    seconds: float
    history: tuple[str, ...]


class ModelError(Exception):
    """Spin or the compiler did not do what was asked; the message is theirs."""


def missing_tool() -> str | None:
    """Return the sentence about a missing program, None when all are here."""
    for names in (("spin",), ("gcc", "cc")):
        if not any(map(shutil.which, names)):
            return MISSING.format(names[0])
    return None


def check(variant: Variant, memory_mb: int = MEMORY_MB) -> Result:
    """Search every history of a variant, shortest first, until a promise breaks.

    Raises:
        ModelError: a tool failed, or the search ended early for want of memory.
    """
    defines = [f"-D{name}" for name in variant.defines] + [f"-DRECORDS={variant.records}"]
    with tempfile.TemporaryDirectory(prefix="minutebook-model-") as name:
        folder = Path(name)
        shutil.copy(MODEL, folder)
        began = time.monotonic()  # noqa: TID251 - how long a tool took, for the table
        _run(["spin", *defines, "-a", MODEL.name], folder)
        compiler = shutil.which("gcc") or "cc"
        # A whole search goes depth first, which takes half the memory; a counterexample is wanted short, and is found
        # sooner than any optimizing compiler is done.
        order = ["-DBFS"] if variant.expected else []
        _run(
            [
                compiler,
                "-O0" if variant.expected else "-O2",
                "-w",
                "-DSAFETY",
                *order,
                f"-DMEMLIM={memory_mb}",
                "-o",
                "pan",
                "pan.c",
            ],
            folder,
        )
        output = _run(["./pan", "-n", "-m1000000", f"-w{TABLE_BITS[bool(order)]}"], folder)
        seconds = time.monotonic() - began  # noqa: TID251 - as above
        violated = re.search(r"assertion violated\s+!\((\w+)\)", output)
        history = _run(["spin", *defines, "-t", MODEL.name], folder) if violated else ""
    if not violated and ("errors: 0" not in output or "Search not completed" in output):
        raise ModelError(f"{variant.name}: the search is not complete:\n{output}")
    return Result(
        violated[1] if violated else None,
        _number(r"(\d+) states, stored", output),
        _number(r"depth reached (\d+)", output),
        seconds,
        tuple(line.strip().removeprefix("SAY ") for line in history.splitlines() if line.strip().startswith("SAY ")),
    )


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - fixed commands
    if done.returncode:
        raise ModelError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _number(pattern: str, output: str) -> int:
    found = re.search(pattern, output)
    if found is None:
        raise ModelError(f"spin did not say {pattern!r}:\n{output}")
    return int(found[1])


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _table(variants: Sequence[Variant], memory_mb: int) -> int:
    row = "{:<11} {:<27} {:<47} {:>7} {:>10} {:>6} {:>7}  {:<17} {:<17} {}"
    _say(
        row.format(
            "", "switch", "what is different", "records", "states", "depth", "seconds", "expected", "found", ""
        )
    )
    wrong = 0
    for variant in variants:
        result = check(variant, memory_mb)
        good = result.violated == variant.expected
        wrong += not good
        _say(
            row.format(
                variant.kind,
                variant.name,
                variant.meaning,
                variant.records,
                f"{result.states:,}",
                result.depth,
                f"{result.seconds:.1f}",
                variant.expected or "nothing",
                result.violated or "nothing",
                "ok" if good else "WRONG",
            ).rstrip()
        )
    _say(f"{len(variants) - wrong} of {len(variants)} as expected")
    return 1 if wrong else 0


def main() -> int:
    """Parse the arguments and do one of the three things."""
    parser = argparse.ArgumentParser(description="Check the model of the commit protocol.")
    parser.add_argument("--trail", metavar="SWITCH", choices=[one.name for one in VARIANTS if one.expected])
    parser.add_argument("--records", type=int, help="check the protocol alone, with this many records")
    parser.add_argument("--minutes", type=int, help="and this many minutes (default 2)")
    parser.add_argument("--memory-mb", type=int, default=MEMORY_MB, help=f"default {MEMORY_MB}")
    parser.add_argument("--all", action="store_true", help="check the rules that stand behind another rule, too")
    arguments = parser.parse_args()
    if sentence := missing_tool():
        sys.stderr.write(f"make model: {sentence}\n")
        return 2
    if arguments.trail:
        variant = next(one for one in VARIANTS if one.name == arguments.trail)
        result = check(variant, arguments.memory_mb)
        _say("\n".join([f"{variant.name}: {variant.meaning}", *result.history, f"-> {result.violated}"]))
        return 0
    variants: Sequence[Variant] = VARIANTS + FENCES * arguments.all
    if arguments.records or arguments.minutes:
        minutes = () if arguments.minutes is None else (f"MINUTES={arguments.minutes}",)
        variants = [VARIANTS[0]._replace(records=arguments.records or 3, defines=minutes)]
    try:
        return _table(variants, arguments.memory_mb)
    except ModelError as exc:
        sys.stderr.write(f"make model: {exc}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
