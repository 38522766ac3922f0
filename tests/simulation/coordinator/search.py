"""Play many histories, or show one."""

from collections import Counter
from collections.abc import Iterable

from tests.simulation.coordinator.history import History
from tests.simulation.search import silence
from tests.simulation.world import Violation


def search(seeds: Iterable[int], tally: Counter[str]) -> dict[int, str]:
    """Return what went wrong, by seed; `tally` counts what was done to whom."""
    silence()
    found = {}
    for seed in seeds:
        text = _play(History(seed, tally))
        if text:
            found[seed] = text
    return found


def replay(seed: int) -> tuple[list[str], str]:
    """Return the timeline of a history, and what went wrong."""
    silence()
    history = History(seed, Counter(), is_traced=True)
    text = _play(history)
    return history.trace or [], text


def _play(history: History) -> str:
    try:
        history.run()
    except Violation as exc:
        return str(exc)
    return ""
