"""`minutebook follow --once` says whether everything that is archived is in the table."""

from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from compaction.commands.follow import _once
from compaction.follow.follower import Follower, Tick

WHOLE = Tick(1_000, 0.1, 1_000, 0, 1, 1, 0, is_behind=False)
BEHIND = WHOLE._replace(rows_until_ms=0, is_behind=True)
CHANGED = WHOLE._replace(rows_until_ms=0)
"""An object was another one, or gone, when it was read."""


class Ticks:
    """A follower whose ticks are given; the last one goes on for ever."""

    def __init__(self, ticks: Sequence[Tick]) -> None:
        self._ticks: Iterator[Tick] = iter(ticks)
        self._last = ticks[-1]
        self.count = 0

    def tick(self) -> Tick:
        """Return the next one."""
        self.count += 1
        return next(self._ticks, self._last)


@pytest.mark.parametrize(
    ("ticks", "code", "count", "text"),
    [
        ([WHOLE], 0, 1, "rows until 1970-01-01T00:00:01"),
        ([BEHIND, BEHIND, WHOLE], 0, 3, "rows until"),
        ([CHANGED, CHANGED, WHOLE], 0, 3, "rows until"),
        ([CHANGED], 4, 4, "the table is not up to date"),
        ([WHOLE._replace(left_out=2)], 4, 1, "2 segment(s) left out"),
        ([BEHIND, CHANGED._replace(exit_code=5)], 5, 2, "the table is not up to date"),
    ],
)
def test_it_ends_with_0_only_when_everything_is_in_the_table(
    ticks: Sequence[Tick], code: int, count: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An object that changes each time that it is read is looked for three times more."""
    follower, told = Ticks(ticks), list[Tick]()
    assert _once(cast("Follower", follower), lambda tick, _: told.append(tick)) == code
    assert (follower.count, len(told)) == (count, count)
    assert text in capsys.readouterr().out
