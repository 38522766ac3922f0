"""Start and stop a local Spark with its JVM, and check its Java."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from compaction.tasks.failures import TRIES
from minutebook.class_archive import Making, archive_folder, filled, use_options
from minutebook.clock import SystemClock
from minutebook.errors import MinutebookError, SettingsError

_ENOUGH_JAVA = 17
_OLD_JAVA = 8
_STOP_SECONDS = 20
_ANSWER_SECONDS = 30
"""How long a Java may take to say its version."""
_LOOK_SECONDS = 0.01
_LOCAL = re.compile(r"local(?:\[([0-9]+|\*)\])?")
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms128m")
"""The heap starts small and grows with live data; Java would start with and fill a 64th of the machine's memory.

Its limit is `spark.driver.memory`, 1 GB by default.
"""
_RETAINED = {"jobs": 100, "stages": 200, "tasks": 4_000}
"""Finished work (tasks: of each stage) that the JVM keeps for its UI, which is not shown."""


class SparkFailed(MinutebookError):  # noqa: N818 - the name says what happened, as in minutebook.errors
    """Spark failed for a reason outside of Minutebook."""


def submitted() -> bool:
    """Return whether the JVM already runs: started by spark-submit or the notebook."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return True
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None  # noqa: SLF001 - no other way


def check_java() -> None:
    """Raise SettingsError unless a Java that Spark supports can be run."""
    java = spark_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME={home} holds no bin/java" if home else "there is no java on PATH"
        raise SettingsError(
            f"compaction needs Java {_ENOUGH_JAVA} or newer to run Spark, and {where}",
            next_step="install a JRE (Debian: openjdk-17-jre-headless) or set JAVA_HOME; --engine local runs without",
        )
    version = _java_version(_said_of_version(java))
    needed = _OLD_JAVA if _pyspark_version() < (4, 0) else _ENOUGH_JAVA
    if version is None or version < needed:
        raise SettingsError(
            f"compaction needs Java {needed} or newer to run Spark, and {java} is "
            f"{'not a Java' if version is None else f'Java {version}'}",
            next_step="install a newer JRE (Debian: openjdk-17-jre-headless) or set JAVA_HOME to it",
        )


def _said_of_version(java: str) -> str:
    try:
        output = subprocess.run(  # noqa: S603 - found on PATH or by JAVA_HOME
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return output.stderr + output.stdout


def spark_java() -> str | None:
    """Return the Java that Spark starts: of JAVA_HOME, else of PATH; None: there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def _java_version(text: str) -> int | None:
    """Return 17 for `openjdk version "17.0.15"`, 8 for `"1.8.0_452"`."""
    _, _, quoted = text.partition('version "')
    parts = quoted.partition('"')[0].replace("-", ".").split(".")
    numbers = [int(part) for part in parts[:2] if part.isdigit()]
    if not numbers:
        return None
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _pyspark_version() -> tuple[int, int]:
    import pyspark  # noqa: PLC0415 - an extra, which whoever asks for Spark has looked for

    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def start_spark(master: str, *, making: Making | None = None) -> tuple[Any, Path]:
    """Start a local Spark; return its context and the log file of its JVM and workers. Raises SparkFailed.

    The JVM uses the class archive of this installation, or is `making` it. No SparkSession is made: it would load
    Spark SQL, which takes a second.
    """
    # By default workers run `python3` from PATH, which does not find our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - an extra

    options = use_options(class_archive_folder()) if making is None else making.options
    handle, name = tempfile.mkstemp(prefix="minutebook-spark-", suffix=".log")
    os.close(handle)
    log = Path(name)
    settings = {
        "spark.scheduler.mode": "FAIR",  # concurrent days share it; the jobs of one day run one by one
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(f'"{option}"' for option in [*_JVM, *options]),
        **{f"spark.ui.retained{what.title()}": str(count) for what, count in _RETAINED.items()},
    }
    if "SPARK_HOME" not in os.environ:  # otherwise Spark's PySpark may differ from the one installed here
        settings["spark.python.daemon.module"] = "compaction.spark.worker_daemon"
    conf = SparkConf().setMaster(with_tries(master)).setAppName("minutebook").setAll(list(settings.items()))
    with _stderr_into(log):
        try:
            return SparkContext(conf=conf), log
        except Exception as exc:  # py4j and pyspark raise many kinds; the log has details
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-3:]
            raise SparkFailed(
                f"Spark does not start: {last_line(exc)}: {' / '.join(lines)}", next_step=f"read {log}"
            ) from exc


def use_safe_path(context: Any) -> dict[str, str]:  # noqa: ANN401 - pyspark is untyped here
    """Keep Python workers from importing modules of their working directory; return the environment sent before.

    The JVM starts them by `python -m`, which puts that directory first in the path: a user's `compaction.py` there
    would replace our package. PySpark sends the environment with each job, like `spark.executorEnv`.
    """
    before: dict[str, str] = context.environment
    context.environment = {"PYTHONSAFEPATH": "1", **before}
    return before


def with_tries(master: str) -> str:
    """Return a local master that retries tasks, as clusters do by default."""
    local = _LOCAL.fullmatch(master)
    return master if local is None else f"local[{local[1] or 1},{TRIES}]"


def class_archive_folder() -> Path:
    """Return the folder of the class archive of this PySpark on this Java."""
    import pyspark  # noqa: PLC0415 - an extra

    parts = [pyspark.__version__.encode(), pyspark.__file__.encode()]
    return archive_folder("spark", Path(spark_java() or "java"), parts)


def stop(context: Any, *, seconds: float = _STOP_SECONDS) -> None:  # noqa: ANN401 - pyspark is untyped here
    """Stop the context of `start_spark` and its JVM within `seconds`.

    PySpark's own stop waits for the JVM's accumulator connection, which it polls once a second, so it runs in a
    thread while the JVM is ended here.
    """
    gateway = context._gateway  # noqa: SLF001 - we started the JVM and must end it
    process = gateway.proc
    was_gone = process.poll() is not None
    clock = SystemClock()
    until = clock.monotonic() + seconds
    if context._accumulatorServer is not None:  # noqa: SLF001 - as above
        # It reports that the JVM is gone, as intended, by a traceback on stderr.
        context._accumulatorServer.handle_error = lambda *_: None  # noqa: SLF001 - as above
    with ThreadPoolExecutor(1, thread_name_prefix="spark-stop") as pool:
        stopping = pool.submit(context.stop)
        while context._jsc is not None and not stopping.done() and clock.monotonic() < until:  # noqa: SLF001 - gone once the JVM's side has stopped
            wait([stopping], _LOOK_SECONDS)
        gateway.shutdown()
        process.stdin.close()  # the JVM exits at end of input
        try:
            process.wait(timeout=max(_LOOK_SECONDS, until - clock.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        try:
            stopping.result()
        except Exception:
            if not was_gone:  # otherwise nobody is there who could be told to stop
                raise
    _forget_gateway()


_DUMP_SECONDS: Final = 180


def prepare_spark() -> Path:
    """Make the class archive of Spark's JVM for this installation; return its path.

    Raises SettingsError without a suitable Java, and MinutebookError if the folder or Spark fails.
    """
    check_java()
    with filled(folder := class_archive_folder()):
        making = Making(folder)
    context, log = start_spark("local[2]", making=making)
    try:
        context.setJobGroup("prepare", "what a night does: work, a look at it, and a shuffle")
        pairs = context.parallelize([(number % 2, number) for number in range(10)], 2)
        pairs.partitionBy(2, int).mapPartitions(list).collect()
        context.statusTracker().getJobIdsForGroup("prepare")
    finally:
        stop(context, seconds=_DUMP_SECONDS)
    log.unlink(missing_ok=True)
    return making.keep(Path(spark_java() or "java"))


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """Redirect file descriptor 2 to `log` while the JVM starts; the JVM and its workers inherit it."""
    sys.stderr.flush()
    stderr = os.dup(2)
    target = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(target, 2)
    os.close(target)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _forget_gateway() -> None:
    """Let the next start in this process launch a new JVM."""
    from pyspark import SparkContext  # noqa: PLC0415 - an extra

    SparkContext._active_spark_context = None  # noqa: SLF001 - left where the JVM was gone before it was stopped
    SparkContext._gateway = None  # noqa: SLF001 - pyspark never resets it
    SparkContext._jvm = None  # noqa: SLF001 - same


def last_line(error: BaseException) -> str:
    """Return the most informative line of a Java error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    known = [line for line in lines if "Error" in line or "Exception" in line]
    return (known or lines or [type(error).__name__])[-1][:300]
