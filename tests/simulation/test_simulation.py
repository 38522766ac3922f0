"""Ten or twenty thousand histories of each mode, decided by their seeds: no promise may be broken in any of them.

One that breaks a promise is shown in full by the command in the failure's text.
"""

from collections import Counter

import pytest

from tests.simulation.history import History
from tests.simulation.kinds import KINDS, Kind
from tests.simulation.modes import MODES
from tests.simulation.report import missing, replay, search, silence

HISTORIES = {"plain": 20_000, "claims": 10_000, "watermark": 10_000, "operations": 10_000}
"""What two cores get through in three minutes; `make simulate` searches twice as many of the others."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", MODES)
def test_no_history_breaks_a_promise(mode: str) -> None:
    """Exactly once, byte for byte, chains unbroken or the break reported, checkpoints legal and never ahead.

    Beyond plain archiving: each event that producers sent twice is kept once, copies that are dropped name an event
    that is kept, and what operators do to lease tables and old days loses and doubles nothing.
    """
    result = search(0, HISTORIES[mode], workers=2, modes=(mode,))
    assert not result.findings, "\n".join(f"{finding.text}\n  {finding.command}" for finding in result.findings)
    assert not missing(result.tally, (mode,)), f"never happened: {missing(result.tally, (mode,))}"


@pytest.mark.parametrize("mode", MODES)
def test_a_seed_decides_everything(mode: str) -> None:
    """The same seed gives the same timeline, line for line."""
    for seed in range(len(KINDS)):
        first, _ = replay(seed, mode)
        assert first == replay(seed, mode)[0]
        assert len(first) > 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.healthy], ids=lambda kind: kind.name)
def test_a_healthy_history_ends_no_processor(kind: Kind) -> None:
    """Without faults nobody dies, nobody doubts, and nothing is reported."""
    silence()
    tally: Counter[str] = Counter()
    for seed in range(50):
        History(seed, tally, kind=kind).run()
    assert not [what for what in tally if what.startswith("died of")]
