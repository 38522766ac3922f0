"""A local Spark from its start to its end: what its workers hold beforehand, and what is left of it."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compaction.spark import session
from compaction.spark.engine import SparkEngine
from minutebook.errors import FormatError

_LIFE = """
import sys
from pathlib import Path
from compaction.spark.engine import SparkEngine
from tests.integration.compaction.test_spark_life import refuse, seen_by_a_worker

with SparkEngine("local[2]") as engine:
    for line in engine.each(seen_by_a_worker, [1, 2, 3]):
        print(line)
    try:
        engine.each(refuse, [1])
    except Exception as exc:
        print(type(exc).__name__)
    print(engine._context._gateway.proc.pid)
with SparkEngine("local[2]") as engine:  # the same process can have another
    print(engine.each(str, [7]))
"""


def seen_by_a_worker(_: int) -> str:
    """Return what a worker holds when its first task begins, as a test reads it."""
    return f"{'compaction.tasks.task' in sys.modules} {gc.get_freeze_count() > 1000} {gc.isenabled()}"


def refuse(_: int) -> None:
    """Fail as no second try helps: what tells the driver is an accumulator."""
    raise FormatError("refused")


@pytest.mark.usefixtures("aws_environment")
def test_a_whole_life(tmp_path: Path) -> None:
    """Workers are forked with what tasks need; nothing is said on stderr, and the JVM is gone when Spark is."""
    life = [sys.executable, "-c", _LIFE]
    done = subprocess.run(
        life, capture_output=True, text=True, check=True, timeout=120, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    *workers, error, process, again = done.stdout.splitlines()
    assert workers == ["True True True"] * 3
    assert (error, again) == ("FormatError", "['7']")
    assert done.stderr == ""
    assert not Path("/proc", process).exists()
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".log"] == []


def safe_path(_: int) -> str | None:
    """Return what tells Python to leave its folder out of its path."""
    return os.environ.get("PYTHONSAFEPATH")


@pytest.mark.usefixtures("aws_environment")
def test_a_platforms_session_imports_nothing_of_its_folder_while_it_is_ours() -> None:
    """Its workers are told with each job; whoever uses the session afterwards has it as it was."""
    context, log = session.start_spark("local[1]")
    try:
        before = dict(context.environment)
        with SparkEngine() as engine:
            assert engine.each(safe_path, [1]) == ["1"]
        assert (context.environment, "PYTHONSAFEPATH" in before) == (before, False)
    finally:
        session.stop(context)
        log.unlink()


@pytest.mark.usefixtures("aws_environment")
def test_a_jvm_that_does_not_stop_is_killed() -> None:
    """It does not answer: the process goes on when the time is up, and the JVM is gone."""
    context, log = session.start_spark("local[1]")
    process = context._gateway.proc
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.warns(RuntimeWarning, match="Unable to cleanly shutdown"):
        session.stop(context, seconds=1)
    assert process.poll() is not None
    log.unlink()
    with SparkEngine("local[1]") as engine:
        assert engine.each(str, [7]) == ["7"]
