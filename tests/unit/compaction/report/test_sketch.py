"""What the pictures are drawn from, of many shards whose minutes are packed."""

import random
from array import array
from statistics import median_high

import numpy as np
import pytest

from compaction.audit.shards.minutes import MinuteCounts, Minutes
from compaction.report.sketch import sketch
from minutebook.format.day import MINUTES_A_DAY

_LONG = 2**31 - 1


def _counted(seed: int) -> MinuteCounts:
    """Return a shard that holds nothing in a third of its minutes, and was very late in some."""
    rng = random.Random(seed)
    records, lags = array("i", [0] * MINUTES_A_DAY), array("i", [-1] * MINUTES_A_DAY)
    for minute in range(MINUTES_A_DAY):
        if rng.random() < 2 / 3:
            records[minute] = rng.choice([0, rng.randrange(70_000), _LONG])
            lags[minute] = rng.choice([0, 7, rng.randrange(600), _LONG])
    return MinuteCounts(records, lags)


@pytest.fixture(scope="module")
def shards() -> dict[str, MinuteCounts]:
    """Return a handful of shards, two of them empty."""
    empty = MinuteCounts(array("i", [0] * MINUTES_A_DAY), array("i", [-1] * MINUTES_A_DAY))
    return {"none": empty, **{f"s{number}": _counted(number) for number in range(6)}, "nothing": empty}


def test_what_is_packed_comes_back(shards: dict[str, MinuteCounts]) -> None:
    """Every number, the largest too."""
    assert {name: Minutes.packed_of(of).counted() for name, of in shards.items()} == shards


def test_a_busy_shard_is_small() -> None:
    """Some 1,000 records a minute that come within 20 seconds: a driver has one of these for each shard."""
    rng = random.Random(1)
    records = array("i", [rng.randrange(900, 1_100) for _ in range(MINUTES_A_DAY)])
    lags = array("i", [rng.randrange(20, 200) for _ in range(MINUTES_A_DAY)])
    assert len(Minutes.packed_of(MinuteCounts(records, lags)).packed) < 3_500


def test_all_shards_count_and_few_are_kept(shards: dict[str, MinuteCounts]) -> None:
    """The shown ones by themselves, the others in one row; nothing is lost between them."""
    drawn = sketch({name: Minutes.packed_of(of) for name, of in shards.items()}, {"s1", "s4", "none"})
    assert set(drawn.records) == set(drawn.segments) == {"s1", "s4", "none"}
    assert drawn.records["s4"].tolist() == shards["s4"].records.tolist()
    assert drawn.segments["s1"].tolist() == [lag >= 0 for lag in shards["s1"].lag_tenths]
    assert drawn.rest.tolist() == [
        sum(shards[name].records[minute] for name in ("s0", "s2", "s3", "s5")) for minute in range(MINUTES_A_DAY)
    ]
    assert drawn.total.tolist() == [
        sum(of.records[minute] for of in shards.values()) for minute in range(MINUTES_A_DAY)
    ]


def test_delays_are_those_of_all_shards(shards: dict[str, MinuteCounts]) -> None:
    """Of those that hold something in the minute, shown or not; never below what a logarithmic scale can show."""
    drawn = sketch({name: Minutes.packed_of(of) for name, of in shards.items()}, {"s1"})
    for minute in range(MINUTES_A_DAY):
        lags = [max(1, of.lag_tenths[minute]) / 10 for of in shards.values() if of.lag_tenths[minute] >= 0]
        assert (minute in drawn.minutes) == bool(lags)
        expected = (max(lags), median_high(lags)) if lags else (np.nan, np.nan)
        assert (drawn.slowest[minute], drawn.middle[minute]) == pytest.approx(expected, nan_ok=True)


def test_a_day_without_shards_is_empty() -> None:
    """Nothing in, nothing out."""
    drawn = sketch({}, ())
    assert (drawn.minutes, drawn.records, drawn.total.sum()) == ([], {}, 0)
