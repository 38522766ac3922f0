"""Seconds that count pauses which a machine's monotonic clock misses."""

import itertools

import pytest

from minutebook.clock import PauseCountingClock
from tests.fakes.clock import ManualClock


def test_a_suspend_and_a_pause_count_once() -> None:
    """The monotonic clock counts a suspend; the wall clock alone a pause of the virtual machine."""
    machine = ManualClock()
    clock = PauseCountingClock(machine)
    begun = clock.monotonic()
    machine.advance(1000)
    machine.jump_wall(500)
    assert clock.monotonic() - begun == pytest.approx(1500)
    assert clock.monotonic() - begun == pytest.approx(1500)


@pytest.mark.parametrize("step_seconds", [-0.05, -3600])
def test_a_wall_clock_that_trembles_or_steps_back_changes_nothing(step_seconds: float) -> None:
    """The two clocks are not read at the same moment: hundreds of looks add up to nothing."""
    machine = ManualClock()
    clock = PauseCountingClock(machine)
    begun = clock.monotonic()
    for step in itertools.islice(itertools.cycle([step_seconds, abs(step_seconds) % 1]), 400):
        machine.jump_wall(step)
        assert clock.monotonic() == begun


def test_a_step_back_hides_no_later_pause() -> None:
    """Each pause counts whole, also one that only makes up for a step back."""
    machine = ManualClock()
    clock = PauseCountingClock(machine)
    begun = clock.monotonic()
    for step_seconds in (7200, -7200, 3600, -86_400, 3600):
        machine.jump_wall(step_seconds)
        clock.monotonic()
    assert clock.monotonic() - begun == pytest.approx(7200 + 3600 + 3600)
