"""A run goes by the time of the service whose objects it judges: by a wrong clock it would miss days."""

import random
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from compaction.job.context import AuditOptions
from compaction.job.service_time import TOLERATED_MS, by_service
from compaction.night.due import find_due
from minutebook.errors import StoreError, StoreRefused
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStorage
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import PREFIX
from tests.fakes.clock import ManualClock, SkewedClock
from tests.lives.store import StampedDirectory


@pytest.fixture
def service() -> ManualClock:
    """Return the time of the service: ten hours after the end of the day."""
    return ManualClock()


def archive(service: ManualClock, root: Path) -> RetryingStorage:
    """Return an archive whose service has its own time."""
    return RetryingStorage(
        StampedDirectory(root, service), lambda: Backoff(service, random.Random(1), budget_seconds=0)
    )


@pytest.mark.parametrize("hours", [-48, -11, 30])
def test_a_host_whose_clock_is_wrong_names_the_days_that_are_settled(
    tmp_path: Path, service: ManualClock, hours: int
) -> None:
    """By its own clock yesterday is not over, or today is; and it says so."""
    desk, host = Desk(tmp_path), SkewedClock(service, hours * 3_600_000)
    with capture_logs() as logs:
        clock = by_service(host, archive(service, desk.raw), PREFIX)
    assert [(log["event"], log["late_seconds"]) for log in logs] == [("host_clock_wrong", -hours * 3600)]
    due = find_due(desk.context()._replace(clock=clock), desk.out, AuditOptions(), 1)
    assert [each.day for each in due.days] == [DAY]
    before = clock.monotonic()
    clock.sleep(5)
    assert (clock.now_ms(), clock.monotonic()) == (service.now_ms(), before + 5)


@pytest.mark.parametrize("late_ms", [-TOLERATED_MS, 0, TOLERATED_MS])
def test_a_clock_that_is_right_is_left_alone(tmp_path: Path, service: ManualClock, late_ms: int) -> None:
    """The service tells whole seconds."""
    host = SkewedClock(service, late_ms)
    assert by_service(host, archive(service, tmp_path), PREFIX) is host


def test_a_service_that_cannot_be_asked_ends_nothing(tmp_path: Path, service: ManualClock) -> None:
    """An audit of an archive that cannot be read is `unknown`, as before."""

    class Refusing(StampedDirectory):
        def now_ms(self, prefix: str) -> int:
            error: StoreError = StoreRefused(f"LIST {prefix}: AccessDenied")
            raise error

    refused = RetryingStorage(
        Refusing(tmp_path, service), lambda: Backoff(service, random.Random(1), budget_seconds=0)
    )
    assert by_service(service, refused, PREFIX) is service
