"""A local Spark from its start to its end: what its workers hold beforehand, and what is left of it."""

import gc
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from compaction.spark import session
from compaction.spark.engine import LazySpark, SparkEngine
from compaction.tasks.progress import no_progress
from minutebook.errors import FormatError
from tests.witness.waiting import PATIENCE_SECONDS

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
        life,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "TMPDIR": str(tmp_path)},
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
def test_a_jvm_that_does_not_stop_or_dies_is_followed_by_another() -> None:
    """Three in one process, because each takes seconds: a platform's session, which hangs, one that dies, a new one.

    Workers of a platform's session import nothing of their folder while it is ours. They are told with each job,
    and whoever uses the session afterwards has it as it was. A JVM that does not answer is killed when the time is
    up. One that died is one stream's matter: a night over a folder starts Spark anew for the next; one that lives
    is kept.
    """
    context, log = session.start_spark("local[1]")
    process = context._gateway.proc
    try:
        before = dict(context.environment)
        with SparkEngine() as engine:
            assert engine.each(safe_path, [1]) == ["1"]
        assert (context.environment, "PYTHONSAFEPATH" in before) == (before, False)
    finally:
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.warns(RuntimeWarning, match="Unable to cleanly shutdown"):
            session.stop(context, seconds=1)
        log.unlink()
    assert process.poll() is not None
    with ExitStack() as stack:
        engine = LazySpark(stack, "local[1]", lambda: None, lambda: nullcontext(no_progress))
        assert engine.spread(str, [7]) == ["7"]
        first = engine._engine
        engine.forget_gone()
        assert engine._engine is first
        assert first is not None
        process = first._context._gateway.proc
        process.kill()
        process.wait()
        with pytest.raises((OSError, session.SparkFailed)):
            engine.spread(str, [7])
        engine.forget_gone()
        assert engine.spread(str, [8]) == ["8"]
