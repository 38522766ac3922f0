"""What is demanded of the histories of a mode: its promises kept, and that its seeds decide everything."""

from tests.simulation.chosen import CHOSEN
from tests.simulation.histories.must_happen import missing
from tests.simulation.modes import Mode
from tests.simulation.search import play, replay

_CHUNK = 50


def demand_promises(mode: Mode) -> None:
    """Play the chosen histories of a mode; what must have happened in them is looked at, too.

    While something has not happened, further ones are played: see `tests.simulation.chosen`.

    Raises:
        AssertionError: a promise was broken, with the command that shows where; or something never happened.
    """
    chosen = CHOSEN[mode]
    result = play((mode, chosen.seeds))
    for first in range(chosen.first, chosen.most, _CHUNK):
        assert not result.findings, "".join(map(str, result.findings))
        if not missing(result.tally, (mode,)):
            break
        more = play((mode, range(first, min(first + _CHUNK, chosen.most))))
        result = more._replace(tally=result.tally + more.tally)
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
