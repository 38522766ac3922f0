"""What a followed table may not show, each case once."""

from collections.abc import Sequence
from typing import Final

import pytest

from tests.chaos.followed import Name, Shown, judge

_A: Final[Name] = ("shardId-000000000000", "7", 0)
_B: Final[Name] = ("shardId-000000000000", "8", 0)
_RECORDS: Final = {_A: b"a", _B: b"b"}
_DAY: Final = "2026-11-20"


def _shown(*names: Name, said: int | None = None, bytes_of: bytes | None = None) -> Shown:
    rows = [(name, bytes_of or _RECORDS[name]) for name in names]
    return Shown({_DAY: rows}, _DAY, len(rows) if said is None else said)


def test_rows_that_come_and_stay_are_right() -> None:
    """Each snapshot shows those of the one before it."""
    assert judge([_shown(_A), _shown(_A), _shown(_A, _B)], _RECORDS) == []


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ([_shown(_A, _B), _shown(_A, _A, _B)], "snapshot 2 shows 1 rows twice"),
        ([_shown(_A), _shown(_B), _shown(_A, _B)], f"snapshot 2 lacks 1 rows of the one before it, {_A}"),
        ([_shown(_A, _B, bytes_of=b"c"), _shown(_A, _B)], f"snapshot 1 shows 2 rows that no segment has, {_A}"),
        ([_shown(_A, said=2), _shown(_A, _B)], f"snapshot 1 says 2 rows of {_DAY}: 1"),
        ([_shown(_A)], f"the last snapshot lacks 1 records, {_B}"),
        ([], f"the last snapshot lacks 2 records, {_A}"),
    ],
)
def test_a_row_twice_gone_strange_miscounted_or_missing_is_wrong(shown: Sequence[Shown], said: str) -> None:
    """And said of the snapshot."""
    assert judge(shown, _RECORDS) == [said]
