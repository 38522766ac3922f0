"""Backoff: waits within a budget."""

import random

import pytest

from minutebook.retry import Backoff
from tests.fakes.clock import ManualClock


def backoff(clock: ManualClock, budget_seconds: float) -> Backoff:
    """Return waits with one seed."""
    return Backoff(clock, random.Random(1), budget_seconds=budget_seconds, first_seconds=0.1, ceiling_seconds=10)


def test_the_budget_is_never_exceeded() -> None:
    """All waits together end with the budget, and not before."""
    clock = ManualClock()
    waits = backoff(clock, 60)
    while waits.wait():
        pass
    assert sum(clock.slept) == pytest.approx(60)


def test_waits_grow_and_stay_below_the_ceiling() -> None:
    """Doubling with jitter: between half of the step and the step."""
    clock = ManualClock()
    waits = backoff(clock, 1000)
    for _ in range(20):
        waits.wait()
    steps = [min(10, 0.1 * 2**n) for n in range(20)]
    assert all(step / 2 <= slept <= step for step, slept in zip(steps, clock.slept, strict=True))


def test_a_spent_budget_waits_no_more() -> None:
    """No sleep, and the answer no."""
    clock = ManualClock()
    waits = backoff(clock, 5)
    clock.advance(5)
    assert not waits.wait()
    assert clock.slept == []


def test_a_paused_process_does_not_get_its_time_back() -> None:
    """A suspend of an hour spends the budget."""
    clock = ManualClock()
    waits = backoff(clock, 300)
    assert waits.wait()
    clock.advance(3600)
    assert not waits.wait()


def test_a_wall_clock_that_jumps_changes_nothing() -> None:
    """The budget lies on the monotonic clock."""
    clock = ManualClock()
    waits = backoff(clock, 300)
    clock.jump_wall(86_400)
    assert waits.wait()


def test_a_budget_below_zero_is_spent() -> None:
    """A buffer that is too old already gets no retry."""
    assert not backoff(ManualClock(), -1).wait()
