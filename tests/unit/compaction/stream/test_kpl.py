"""De-aggregation of KPL records, against an independent writer of the format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.stream.kinesis import user_records
from minutebook.format.aggregate import MAGIC, UserRecord, deaggregate
from tests.fakes.aggregates import SHAPES
from tests.witness.aggregate import aggregate


@given(st.lists(st.tuples(st.text(min_size=1, max_size=20), st.binary(max_size=300)), min_size=1, max_size=20))
def test_an_aggregate_comes_apart_as_it_was_put_together(records: list[tuple[str, bytes]]) -> None:
    """Keys, payloads and order come back; sub-sequence numbers count from 0."""
    expected = [UserRecord(sub, key, data) for sub, (key, data) in enumerate(records)]
    assert user_records("ignored", aggregate(records)) == expected


@given(st.binary(max_size=200))
def test_anything_else_is_a_plain_record(data: bytes) -> None:
    """Bytes that are no aggregate are one record, whole."""
    assert user_records("key", data) == [UserRecord(0, "key", data)]
    assert user_records("key", MAGIC + data) == [UserRecord(0, "key", MAGIC + data)]


@pytest.mark.parametrize("cut", [1, 5, 16, 20])
def test_a_damaged_aggregate_is_a_plain_record(cut: int) -> None:
    """A digest that does not fit means that the producer did not aggregate: nothing is guessed."""
    data = aggregate([("a", b"1"), ("b", b"2")])[:-cut]
    assert user_records("key", data) == [UserRecord(0, "key", data)]


@pytest.mark.parametrize("name", SHAPES)
def test_the_audit_counts_what_kcl_delivers_and_what_it_withholds(name: str) -> None:
    """Under the numbers that KCL gives, so that a loss inside KCL has a position."""
    shape = SHAPES[name]
    delivery = deaggregate("key", shape.data)
    found = user_records("key", shape.data)
    assert [user.sub for user in found] == list(range(len(found)))
    assert [user for user in found if user not in delivery.withheld] == delivery.delivered
