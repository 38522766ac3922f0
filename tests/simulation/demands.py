"""What is demanded of the histories of a mode: its promises kept, and that its seeds decide everything."""

import os

from tests.simulation.histories.must_happen import missing
from tests.simulation.modes import Mode
from tests.simulation.search import replay, search


def demand_promises(mode: Mode, histories: int) -> None:
    """Search the first histories of a mode; what must have happened in them is looked at, too.

    pytest-xdist runs one file on each core, so a search keeps to one process there.

    Raises:
        AssertionError: a promise was broken, with the command that shows where; or something never happened.
    """
    workers = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
    result = search(0, histories, workers, modes=(mode,))
    assert not result.findings, "".join(map(str, result.findings))
    never = missing(result.tally, (mode,))
    assert not never, f"never happened: {never}"


def demand_one_timeline(mode: Mode, histories: int = 15) -> None:
    """Play some seeds twice.

    Raises:
        AssertionError: their timelines differ.
    """
    for seed in range(histories):
        first, _ = replay(seed, mode)
        assert first == replay(seed, mode)[0]
        assert len(first) > 1
