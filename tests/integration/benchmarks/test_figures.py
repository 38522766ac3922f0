"""What is made of the numbers: tables and pictures."""

import os
from typing import Any

import pytest

from benchmarks.compaction import Run, Written
from benchmarks.heap import cpu_of_jvm
from benchmarks.pictures import PICTURES, thinned
from benchmarks.processes import KINDS, Use
from benchmarks.typed import table_rows

_SAMPLES = [{"seconds": float(at), KINDS[0]: 100.0 + at % 7} for at in range(1000)]
_NUMBERS: dict[str, dict[str, Any]] = {
    "large-day": {"raw": {"samples": _SAMPLES, "phases": [[60, "read and write", 0, 9]], "gigabytes": 40}},
    "night-scale": {"rows": [{"objects": 1440 * n, "driver": 1, "jvm": 2, "worker": 3} for n in (1, 100)]},
    "processor-growth": {
        name: {"payload_bytes": 10**9, "minutebook": [{"seconds": 9.0, "peak_rss_mib": 70.0}]}
        for name in ("as it is", "batches x 10")
    },
    "growth": {
        "rows": [
            {"shards": n, "rate": 10, "processors": n, "cpu_seconds": 1, "minutes": 2, "uss_mb": [12.0] * n}
            for n in (8, 80)
        ]
    },
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_from_the_numbers(name: str) -> None:
    """Each that the command knows, and small."""
    draw, numbers = PICTURES[name]
    drawn = draw(*(_NUMBERS[each] for each in numbers))
    assert drawn.startswith("<svg")
    assert len(drawn) < 60_000


def test_a_curve_keeps_its_peaks() -> None:
    """Fewer points than samples, and the highest among them."""
    points = thinned([*_SAMPLES, {"seconds": 1000.0, KINDS[0]: 999.0}], KINDS[0])
    assert len(points) < 300
    assert max(mib for _, mib in points) == 999.0


def test_ratios_are_those_within_a_round() -> None:
    """The median of each round's ratio: a round in which everything was slow does not count for more."""

    def run(cpu: float) -> Run:
        return Run(cpu, cpu, cpu, "", Use(0, 0, cpu), Written(1, 1, 1, 1, is_sorted=True))

    found = {
        ("minutebook", "envelope"): [run(1), run(10)],
        ("minutebook", "typed"): [run(3), run(30)],
        ("polars", "typed"): [run(6), run(60)],
    }
    ours, typed, polars = table_rows(found, rows=1_000_000)
    assert "cpu_ratio" not in ours
    assert typed["columns_us"] == 11
    assert polars["cpu_ratio"] == 2


def test_a_collectors_threads_are_a_part_of_the_process() -> None:
    """This process has used the processor, and collects no garbage in threads."""
    whole, collector = cpu_of_jvm(os.getpid())
    assert whole > 0
    assert collector == 0
