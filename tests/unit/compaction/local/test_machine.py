"""How many processes a machine or a container has room for."""

import os
from pathlib import Path

import pytest

from compaction.local.machine import workers_here


def machine(root: Path, *, available_mib: int = 1 << 20, limit: str = "max", quota: str = "max 100000") -> Path:
    """Make the files that tell of a machine."""
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable:   {available_mib << 10} kB\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/memory.max").write_text(f"{limit}\n")
    (root / "sys/fs/cgroup/cpu.max").write_text(f"{quota}\n")
    return root


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process eight cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


def test_a_machine_runs_one_a_core(tmp_path: Path) -> None:
    """Without limits."""
    assert workers_here(machine(tmp_path)) == 8


@pytest.mark.parametrize(("quota", "count"), [("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1)])
def test_a_container_has_its_share_of_time(tmp_path: Path, quota: str, count: int) -> None:
    """A part of a core is one process."""
    assert workers_here(machine(tmp_path, quota=quota)) == count


@pytest.mark.parametrize(("mib", "count"), [(100, 1), (1024, 1), (2048, 3), (4096, 7), (8192, 8)])
def test_memory_bounds_them(tmp_path: Path, mib: int, count: int) -> None:
    """Half a gigabyte each, and as much for this process; the container's limit, or what the machine has left."""
    (tmp_path / "container").mkdir()
    (tmp_path / "machine").mkdir()
    assert workers_here(machine(tmp_path / "container", limit=str(mib << 20))) == count
    assert workers_here(machine(tmp_path / "machine", available_mib=mib)) == count


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    """Its cores count alone."""
    assert workers_here(tmp_path) == 8
