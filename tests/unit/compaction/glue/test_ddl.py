"""Athena's DDL of the published days, and that it says what registered days say."""

from pathlib import Path

import pyarrow as pa
import pytest

from archive.format.day import Day
from archive.store.places import StorePrefix
from archive.store.storage import Address
from compaction.ddl import ddl_of
from tests.unit.compaction.glue.test_register import DAY, NARROW, WIDE, Site, evolve


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a day that is published, and an empty catalog."""
    made = Site(tmp_path)
    made.shelf.publish(DAY, "a")
    return made


def listed(site: Site, today: Day) -> list[tuple[str, str]]:
    """Return the columns of the DDL."""
    text = ddl_of(site.shelf.publisher(DAY).storage, site.shelf.place, "events.raw", today)
    lines = (line.strip().removesuffix(",").split(maxsplit=1) for line in text.splitlines() if line[:3] == "  `")
    return [(name.strip("`"), kind) for name, kind in lines]


def test_the_ddl_has_the_types_of_the_registered_days(site: Site) -> None:
    """Of typed days that evolved, with the time of events: each column has the same type, whichever way it came."""
    inner = [("a", pa.int32())]
    narrow = {"who": pa.array([{"a": 1}], pa.struct(inner)), "tags": pa.array([["x"]])}
    wide = {
        "who": pa.array([{"a": 1}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        "event_time": pa.array([0], pa.timestamp("us", "UTC")),
        "at": pa.array([0], pa.timestamp("us")),
        "ok": pa.array([True]),
        "x": pa.array([0.5]),
    }
    for number, columns in enumerate((NARROW | narrow, WIDE | wide, NARROW | {"_unfit": pa.array(["n: no"])})):
        evolve(site, DAY.shift(number), columns)
        assert site.register(DAY.shift(number)) == "created"

    assert sorted(listed(site, DAY.shift(9))) == sorted(site.columns)
    assert dict(site.columns)["who"] == "struct<a:bigint,b:string>"
    assert len(site.columns) == 8 + 10


def test_the_ddl_has_the_typed_columns_of_all_days(site: Site) -> None:
    """The newest day's first, each as wide as any day needs; what no type holds is told."""
    evolve(site, DAY, NARROW)
    evolve(site, DAY.shift(1), WIDE)
    evolve(site, DAY.shift(2), {"price": pa.array(["1.5"]), "n": pa.array([1], pa.int32())})
    storage = site.shelf.publisher(DAY).storage
    text = ddl_of(storage, site.shelf.place, "events.raw", DAY.shift(9))

    assert text.startswith(
        "-- column price is string here, and decimal(12,2) on 2026-11-21: leave it out there\n"
        "-- column price is string here, and decimal(5,2) on 2026-11-20: leave it out there\n"
        "CREATE EXTERNAL TABLE"
    )
    listed = [line.split()[1].rstrip(",") for line in text.splitlines() if line.startswith("  `")]
    assert listed[8:] == ["string", "bigint", "date", "string"]


def test_the_ddl_says_the_same_and_computes_its_partitions(site: Site) -> None:
    """From the oldest published day on; the columns are the newest day's."""
    site.shelf.publish(DAY.shift(2), "b", ())
    storage = site.shelf.publisher(DAY).storage
    text = ddl_of(storage, site.shelf.place, "events.raw", DAY.shift(9))

    assert text.startswith("CREATE EXTERNAL TABLE `events`.`raw` (\n  `shard_id`            string,\n")
    assert "PARTITIONED BY (`dt` string)" in text
    assert f"LOCATION '{site.location}'" in text
    assert "'projection.dt.range' = '2026-11-20,NOW'" in text
    assert f"'storage.location.template' = '{site.location}dt=${{dt}}/'" in text
    assert "2026-11-29,NOW" in ddl_of(storage, StorePrefix(Address(None), "none/"), "a.b", DAY.shift(9))
