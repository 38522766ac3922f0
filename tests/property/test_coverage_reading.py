"""Coverage as it is read from a bucket: names first, and only what the scope rests on. It must find what is there."""

from typing import Final

import pytest

from minutebook.coverage.verdict import State
from minutebook.format.day import Day
from minutebook.proof.reading import JudgedScope
from tests.property.coverage_audit import Audit, Looked, View
from tests.property.coverage_history import ALL, CALM, Faults, History
from tests.property.coverage_store import StoredHistory
from tests.property.coverage_stream import MINUTE
from tests.searching import IS_DEEP

HISTORIES: Final = 1000 if IS_DEEP else 8
CHUNKS: Final = 4


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("faults", [ALL, ALL._replace(stream_audits=0.0)], ids=["all", "without stream"])
def test_a_day_is_judged_as_if_all_there_is_had_been_read(chunk: int, faults: Faults) -> None:
    """Late, and in the night behind it: the same state as by the whole archive, and never covered over a loss.

    A comparison with the stream may name a segment far behind the day, which nobody looks for.
    """
    for seed in range(chunk, HISTORIES, CHUNKS):
        history = History(seed, faults)
        late = Audit(history, history.until, View())
        stored = StoredHistory(history, history.until, late.sources)
        for day, looked in late.days():
            _compare(faults, stored.judge(late, day.number), looked, (seed, "late", str(day)))
            night_ms = day.end_ms + 30 * MINUTE
            night = Audit(history, night_ms, View())
            seen = next((one for other, one in night.days() if other == day), None)
            if seen is not None:
                found = StoredHistory(history, night_ms, night.sources).judge(night, day.number)
                _compare(faults, found, seen, (seed, "night", str(day)))


def _compare(faults: Faults, found: JudgedScope | None, looked: Looked, where: tuple[object, ...]) -> None:
    assert found is not None
    is_covered = found.verdict.state is State.COVERED
    assert not (is_covered and looked.missing), where
    if faults.stream_audits:
        assert not (is_covered and not looked.is_covered), (where, looked.verdict)
    else:
        assert found.verdict.state is looked.verdict.state, (where, found.verdict, looked.verdict)


def test_calm_days_are_covered() -> None:
    """A shard that was quiet for longer than the search goes back, too."""
    for seed in range(HISTORIES // 4):
        history = History(seed, CALM)
        late = Audit(history, history.until, View())
        stored = StoredHistory(history, history.until, late.sources)
        for day, looked in late.days():
            found = stored.judge(late, day.number)
            assert found is not None
            assert looked.is_covered
            assert found.verdict.state == "covered", (seed, str(Day(day.number)), found.verdict)
