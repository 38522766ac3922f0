"""Columns that are joined from Python's values are those that Arrow would make."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.columns.arrow_columns import bytes_column, constant_column, long_column, text_column, with_gaps

texts = st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=30)
blobs = st.lists(st.binary(max_size=8), max_size=30)
longs = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30)


@given(texts)
def test_texts(values: list[str]) -> None:
    """ASCII or not, empty or not."""
    column = text_column(values)
    column.validate(full=True)
    assert column.equals(pa.array(values, pa.string()))


@given(st.text(st.characters(codec="utf-8"), max_size=8), st.integers(0, 20))
def test_one_text_again_and_again(value: str, count: int) -> None:
    """Empty or not."""
    column = constant_column(value, count)
    column.validate(full=True)
    assert column.equals(pa.array([value] * count, pa.string()))


@given(blobs)
def test_bytes(values: list[bytes]) -> None:
    """Any bytes."""
    column = bytes_column(values)
    column.validate(full=True)
    assert column.equals(pa.array(values, pa.binary()))


@given(longs)
def test_longs(values: list[int]) -> None:
    """All that 64 bits hold."""
    column = long_column(values)
    column.validate(full=True)
    assert column.equals(pa.array(values, pa.int64()))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_larger_number_is_an_error(value: int) -> None:
    """Never another number."""
    with pytest.raises(OverflowError):
        long_column([value])


@given(st.lists(st.one_of(st.none(), st.binary(max_size=8)), min_size=1, max_size=40))
def test_gaps(values: list[bytes | None]) -> None:
    """Nulls stand where they should, at every length."""
    column = with_gaps(bytes_column([value or b"" for value in values]), [value is not None for value in values])
    column.validate(full=True)
    assert column.equals(pa.array(values, pa.binary()))
