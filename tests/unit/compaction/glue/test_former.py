"""A column that somebody dropped in Glue's catalog and a day brings again, against partitions that still have it."""

import copy
from pathlib import Path

import pyarrow as pa
import pytest

from compaction.publish.conflicts import Conflict
from tests.unit.compaction.glue.scene import DAY, Site, evolve

INT, LONG, TEXT = pa.array([1], pa.int32()), pa.array([1], pa.int64()), pa.array(["x"])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return three registered days with a typed column that somebody dropped from the table since."""
    made = Site(tmp_path)
    for number in range(3):
        evolve(made, DAY.shift(number), {"price": INT if number else LONG})
        made.register(DAY.shift(number))
    drop(made)
    return made


def drop(site: Site) -> None:
    """Take the last column out of the table; partitions keep theirs."""
    del site.glue.tables["events", "raw"]["StorageDescriptor"]["Columns"][-1]


def test_a_dropped_column_that_comes_with_another_type_is_held(site: Site) -> None:
    """Athena fails on partitions whose type is not the table's: nothing is changed, and it is told."""
    evolve(site, DAY.shift(3), {"price": TEXT})
    before = copy.deepcopy((site.glue.tables, site.glue.partitions))
    done = site.whole(DAY.shift(3))
    has = "partitions of other days with bigint in it"
    assert done is not None
    assert (done.state, done.conflicts) == ("held", (Conflict("price", has, "string"),))
    assert (site.glue.tables, site.glue.partitions) == before
    evolve(site, DAY.shift(3), {"price": INT})
    assert site.register(DAY.shift(3)) == "created"


def test_a_dropped_column_comes_back_as_wide_as_any_partition_has_it(site: Site) -> None:
    """A narrower type would not hold what other days have; upper case is the same column."""
    evolve(site, DAY.shift(3), {"Price": INT})
    assert site.register(DAY.shift(3)) == "created"
    assert site.columns[8:] == [("Price", "bigint")]


def test_partitions_of_all_days_are_looked_at(site: Site) -> None:
    """The one that does not fit is on the last page."""
    for number in range(2):
        columns = site.glue.partitions["events", "raw", str(DAY.shift(number))]["StorageDescriptor"]["Columns"]
        del columns[-1]
    evolve(site, DAY.shift(3), {"price": TEXT})
    assert site.register(DAY.shift(3)) == "held"


def test_the_days_own_partition_is_no_hindrance(tmp_path: Path) -> None:
    """It is registered anew with the type that the day has now."""
    site = Site(tmp_path)
    evolve(site, DAY, {"price": INT})
    site.register()
    drop(site)
    evolve(site, DAY, {"price": TEXT})
    assert site.register() == "updated"
    assert site.columns[8:] == [("price", "string")]


def test_partitions_are_asked_for_where_a_column_is_new_alone(site: Site) -> None:
    """Most nights bring none."""
    site.shelf.publish(DAY.shift(3), "plain")
    site.register(DAY.shift(3))
    assert site.glue.asked["GetPartitions"] == 0
