"""Endless input in bounded memory: measured in a process of its own, under limits of memory and CPU time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from consumer.processor.protocol import MAX_MESSAGE_BYTES

ROOT = Path(__file__).parents[2]
MIB = 1 << 20


@pytest.mark.parametrize(
    ("case", "outcome", "most_mib"),
    [
        ("one line of 1 GiB", "FormatError", 100),
        ("a body that holds it", "FormatError", 100),
        ("256 MiB of lines", f"{MIB // 4} lines", 20),
        ("a header without end", "FormatError", 20),
        # Python joins the pieces of a line: twice its length.
        ("a message of 1 GiB", "DeliveryDoubt", 2 * MAX_MESSAGE_BYTES // MIB + 50),
        ("10 MiB of objects", "no id", 40),
        ("almost 1 MiB of objects", "no id", 60),
    ],
)
def test_endless_input_takes_bounded_memory(case: str, outcome: str, most_mib: int) -> None:
    """And ends in a named error, or is read to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.measured", case],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    measured = json.loads(done.stdout)
    assert measured["outcome"] == outcome
    assert measured["grown_mib"] <= most_mib
