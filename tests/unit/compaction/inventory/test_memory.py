"""What a loop leaves while the cyclic collector is paused."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from compaction.inventory.memory import Turns, collector_paused


class _Cycle:
    """An object that names itself, as py4j's do."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    """Leave nothing put aside: the collector is the whole process's."""
    yield
    gc.unfreeze()


def test_a_long_loop_keeps_no_cycles_while_the_collector_is_paused() -> None:
    """A night that polled Spark for hours held 1 MB more with each minute."""
    made = []
    with collector_paused():
        turns = Turns(5)
        for _ in range(23):
            made.append(weakref.ref(_Cycle()))
            turns.turn()
        living = sum(cycle() is not None for cycle in made)
    assert living == 3


def test_the_collector_stays_paused() -> None:
    """What a turn collects is young; who paused it has its reasons."""
    with collector_paused():
        Turns(1).turn()
        assert not gc.isenabled()
