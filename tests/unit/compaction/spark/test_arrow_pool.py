"""Whose memory Arrow takes in a worker."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("environment", "pool"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")]
)
def test_a_worker_takes_the_systems_memory_unless_told_otherwise(environment: dict[str, str], pool: str) -> None:
    """What a task needs is imported as a worker does it: our choice must come before Arrow."""
    code = "import compaction.spark, pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == pool
