"""Our reader of aggregates, held to what KCL answered on each shape; and its own promises."""

import base64
import hashlib
import json
import random
from pathlib import Path

import pytest

from minutebook.format.aggregate import Fault, HashRange, deaggregate
from tests.data.kpl.ask_kcl import OUTER_KEY, THROWN, Answer, as_kept
from tests.fakes.aggregates import SHAPES, field, random_aggregate, record, seal

_KEPT = json.loads((Path(__file__).parents[3] / "data" / "kpl" / "answers.json").read_text())


def test_every_shape_has_an_answer() -> None:
    """And every answer is to the bytes that the shape has today."""
    assert {name: kept["sha256"] for name, kept in _KEPT.items()} == {
        name: hashlib.sha256(shape.data).hexdigest() for name, shape in SHAPES.items()
    }


@pytest.mark.parametrize("name", SHAPES)
def test_we_deliver_what_kcl_delivers(name: str) -> None:
    """The same user records under the same numbers, with the same keys and data."""
    shape = SHAPES[name]
    delivery = deaggregate(OUTER_KEY, shape.data, HashRange(shape.first_hash_key, shape.last_hash_key))
    found: Answer = [
        (user.sub, user.partition_key, base64.b64encode(user.data).decode()) for user in delivery.delivered
    ]
    assert as_kept(name, found) == _KEPT[name]["answer"]


@pytest.mark.parametrize(
    ("name", "fault", "count"),
    [
        ("two records", None, 2),
        ("no record", None, 0),
        ("wrong digest", None, 1),
        ("index beyond the table", Fault.MALFORMED, 3),
        ("hash key 'x'", Fault.MALFORMED, 3),
        ("no number, then a hash key outside", Fault.MALFORMED, 3),
        ("hash key above the shard", Fault.OUTSIDE_SHARD, 3),
        ("hash key outside, then no number", Fault.OUTSIDE_SHARD, 3),
    ],
)
def test_what_is_withheld_has_a_reason(name: str, fault: Fault | None, count: int) -> None:
    """Delivered and withheld records together are all that the aggregate holds."""
    shape = SHAPES[name]
    delivery = deaggregate(OUTER_KEY, shape.data, HashRange(shape.first_hash_key, shape.last_hash_key))
    assert (delivery.fault, len(delivery.delivered) + len(delivery.withheld)) == (fault, count)
    assert bool(delivery.withheld) == (fault is not None)


def test_a_class_that_java_lost_decides_only_the_malformed_ones() -> None:
    """Without our shim KCL throws an Error on exactly those aggregates of which it withholds a rest."""
    thrown = {name for name, kept in _KEPT.items() if kept.get("without_shims") == THROWN}
    malformed = {
        name
        for name, shape in SHAPES.items()
        if deaggregate(OUTER_KEY, shape.data, HashRange(shape.first_hash_key, shape.last_hash_key)).fault
        == Fault.MALFORMED
    }
    assert thrown == malformed


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "message",
    [
        field(1, b"k") + b"\x48" + b"\xff" * 1_000_000,
        field(1, b"k") + b"\x2b" * 1_000_000,
        field(2, b"9" * 500_000) + field(1, b"k") + record(b"", hash_key=0) * 60_000,
        field(2, b"0" * 500_000 + b"5") + field(1, b"k") + record(b"", hash_key=0) * 60_000,
        field(1, b"k" * 500_000) + record(b"") * 80_000,
        field(1, b"\xed\xa0" * 250_000) + record(b"") * 80_000,
        record(b"", more=b"\x2b" * 99 + b"\x2c" * 99) * 4_000,
    ],
    ids=["varint", "groups", "digits", "zeros", "long key", "surrogates", "nested"],
)
def test_no_megabyte_takes_long(message: bytes) -> None:
    """It is the time-out that fails: anything that grows faster than the length takes minutes."""
    delivery = deaggregate(OUTER_KEY, seal(message))
    assert len(delivery.delivered) + len(delivery.withheld) in {1, 4_000}


def test_drawn_aggregates_are_numbered_without_gaps() -> None:
    """Whatever the bytes are: no exception, and every user record has its own number."""
    rng = random.Random(4)
    for _ in range(3_000):
        delivery = deaggregate(OUTER_KEY, random_aggregate(rng))
        users = [*delivery.delivered, *delivery.withheld]
        assert [user.sub for user in users] == list(range(len(users)))
