"""What this machine, or the container, has room for."""

import os
from pathlib import Path
from typing import Final

WORKER_BYTES: Final = 512 << 20
"""Memory of a process at work on a large task."""


def workers_here(root: Path = Path("/")) -> int:
    """Return how many processes there is room for beside this one, at least one.

    By the cores that this process may use, the container's share of time (`cpu.max` of cgroup v2), its limit of
    memory, and what the machine has available.
    """
    shares = [len(os.sched_getaffinity(0)), *_cores(root / "sys/fs/cgroup/cpu.max")]
    memory = [*_limit(root / "sys/fs/cgroup/memory.max"), *_available(root / "proc/meminfo")]
    room = [size // WORKER_BYTES - 1 for size in memory]
    return max(1, min(shares + room))


def _cores(path: Path) -> list[int]:
    quota, _, period = _text(path).partition(" ")
    return [-(-int(quota) // int(period))] if quota.isdigit() and period.isdigit() else []


def _limit(path: Path) -> list[int]:
    text = _text(path)
    return [int(text)] if text.isdigit() else []


def _available(path: Path) -> list[int]:
    lines = dict(line.split(":", 1) for line in _text(path).splitlines() if ":" in line)
    kib = lines.get("MemAvailable", "").removesuffix("kB").strip()
    return [int(kib) << 10] if kib.isdigit() else []


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # another system, or another version of cgroups: nothing is known
        return ""
