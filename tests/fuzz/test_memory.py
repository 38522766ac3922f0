"""Endless input in bounded memory: measured in a process of its own, under limits of memory and CPU time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from consumer.processor.protocol import MAX_MESSAGE_BYTES
from minutebook.format.keys import segment_key
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.store.objects import PutOutcome
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.model import body_of

ROOT = Path(__file__).parents[2]
MIB = 1 << 20


@pytest.mark.parametrize(
    ("case", "outcome", "most_mib"),
    [
        ("one line of 1 GiB", "FormatError", 100),
        ("a body that holds it", "FormatError", 100),
        ("256 MiB of lines", f"{MIB // 4} lines", 20),
        ("a header without end", "FormatError", 20),
        ("a message of 1 GiB", "DeliveryDoubt", MAX_MESSAGE_BYTES // MIB + 20),
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


def test_a_day_of_interleaved_cuts_is_merged_in_flat_memory(tmp_path: Path) -> None:
    """Two writers whose cuts overlap from end to end, 100 MiB of lines: a few blocks of two or three objects."""
    storage = open_storage(Address(None, str(tmp_path)))
    lines, objects = 2000, 25
    for writer in range(2):
        for number in range(objects):
            first = lines * number + lines // 2 * writer
            records = [
                Record(str(10**20 + at), 0, "p", 60_000 * number, b"%d" % at + b"x" * 950)
                for at in range(first, first + lines)
            ]
            key = segment_key("raw/", "shardId-000000000000", number, Position(10**20 + first))
            body = body_of("shardId-000000000000", number, records)
            assert storage.put_if_absent(key, body, {}, "application/gzip") is PutOutcome.CREATED
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.measured_merge", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=200,
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    measured = json.loads(done.stdout)
    assert (measured["rows"], measured["surplus"]) == (51_000, 49_000)
    assert measured["grown_mib"] <= 64
