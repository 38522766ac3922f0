"""A local Spark of our own: the Java it needs, its start without noise, and its end with its JVM."""

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
from typing import Any

from compaction.spark.failures import TRIES
from minutebook.class_archive import Making, archive_folder, use_options
from minutebook.clock import SystemClock
from minutebook.errors import MinutebookError, SettingsError

_ENOUGH_JAVA = 17
_OLD_JAVA = 8
_STOP_SECONDS = 20
_LOOK_SECONDS = 0.01
_LOCAL = re.compile(r"local(?:\[([0-9]+|\*)\])?")
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms128m")
"""The heap begins small and grows by what lives: Java would begin with a 64th of the machine, and fill that first.

What ends it is Spark's `spark.driver.memory`, 1 GB unless told.
"""
_RETAINED = {"jobs": 100, "stages": 200, "tasks": 4_000}
"""What the JVM remembers of work that is done, of a stage's tasks each; for its UI, which we do not show."""


class SparkFailed(MinutebookError):  # noqa: N818 - the name says what happened, as in minutebook.errors
    """Spark gave up on a task for a reason that is not ours."""


def submitted() -> bool:
    """Tell whether the JVM is there already: started by spark-submit, or by the notebook that we run in."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or _has_context()


def _has_context() -> bool:
    loaded = sys.modules.get("pyspark")  # who has a session has loaded it
    return loaded is not None and loaded.SparkContext._active_spark_context is not None  # noqa: SLF001 - no other way


def check_java() -> None:
    """Raise SettingsError, in one sentence, unless a Java that Spark takes can be run."""
    java = spark_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME={home} holds no bin/java" if home else "there is no java on PATH"
        raise SettingsError(
            f"compaction needs Java {_ENOUGH_JAVA} or newer to run Spark, and {where}",
            next_step="install a JRE (Debian: openjdk-17-jre-headless) or set JAVA_HOME; "
            "audit --level inventory runs without",
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - found above
    version = _java_version(said.stderr + said.stdout)
    needed = _OLD_JAVA if _pyspark_version() < (4, 0) else _ENOUGH_JAVA
    if version is None or version < needed:
        raise SettingsError(
            f"compaction needs Java {needed} or newer to run Spark, and {java} is "
            f"{'not a Java' if version is None else f'Java {version}'}",
            next_step="install a newer JRE (Debian: openjdk-17-jre-headless) or set JAVA_HOME to it",
        )


def spark_java() -> str | None:
    """Return the Java that Spark starts: JAVA_HOME's, else that of PATH; None where there is none."""
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
    try:
        import pyspark  # noqa: PLC0415 - an extra: absent in the consumer's image
    except ImportError as exc:
        raise SettingsError(
            "compaction needs PySpark, which is not installed", next_step="pip install 'minutebook[spark]'"
        ) from exc
    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def start_spark(master: str, *, making: Making | None = None) -> tuple[Any, Path]:
    """Start a local Spark; returns its context and the file with what its JVM and workers say.

    Its JVM uses the class archive of this installation, or is `making` it. A context does for work that is Python: a
    session would load Spark's SQL, for a second.

    Raises:
        SparkFailed: it does not start.
    """
    # Workers run `python3` from PATH unless told: they would not find our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - an extra

    options = use_options(class_archive_folder()) if making is None else making.options
    handle, name = tempfile.mkstemp(prefix="minutebook-spark-", suffix=".log")
    os.close(handle)
    log = Path(name)
    settings = {
        "spark.scheduler.mode": "FAIR",  # days side by side share it; the jobs of one day come in turn
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(f'"{option}"' for option in [*_JVM, *options]),
        **{f"spark.ui.retained{what.title()}": str(count) for what, count in _RETAINED.items()},
    }
    if "SPARK_HOME" not in os.environ:  # else Spark's Python need not be the one that is installed here
        settings["spark.python.daemon.module"] = "compaction.spark.worker_daemon"
    conf = SparkConf().setMaster(with_tries(master)).setAppName("minutebook").setAll(list(settings.items()))
    with _stderr_into(log):
        try:
            return SparkContext(conf=conf), log
        except Exception as exc:  # py4j and pyspark raise many kinds; the log says more
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-3:]
            raise SparkFailed(
                f"Spark does not start: {last_line(exc)}: {' / '.join(lines)}", next_step=f"read {log}"
            ) from exc


def use_safe_path(context: Any) -> dict[str, str]:  # noqa: ANN401 - pyspark is untyped here
    """Let Python's workers, on this machine or on executors, import nothing from the folder that they run in.

    The JVM starts them by `python -m`, which puts that folder first in their path: a `compaction.py` of the user's
    there would take the place of our package. What PySpark sends with each job, as `spark.executorEnv` would; returns
    what it sent before.
    """
    before: dict[str, str] = context.environment
    context.environment = {"PYTHONSAFEPATH": "1", **before}
    return before


def with_tries(master: str) -> str:
    """Return a local master that tries a task more than once, as clusters do: a local one does not by itself."""
    found = _LOCAL.fullmatch(master)
    return master if found is None else f"local[{found[1] or 1},{TRIES}]"


def class_archive_folder() -> Path:
    """Return where the class archive of this PySpark on this Java lies."""
    import pyspark  # noqa: PLC0415 - an extra

    parts = [pyspark.__version__.encode(), pyspark.__file__.encode()]
    return archive_folder("spark", Path(spark_java() or "java"), parts)


def stop(context: Any, *, seconds: float = _STOP_SECONDS) -> None:  # noqa: ANN401 - pyspark is untyped here
    """Stop what `start_spark` started, and its JVM, within so many seconds.

    PySpark's own stop ends with the JVM's connection for accumulators, which it looks at once a second: so it waits
    for that while the JVM ends.
    """
    gateway = context._gateway  # noqa: SLF001 - the JVM is ours: nobody else ends it
    process = gateway.proc
    clock = SystemClock()
    until = clock.monotonic() + seconds
    if context._accumulatorServer is not None:  # noqa: SLF001 - as above
        context._accumulatorServer.handle_error = _say_nothing  # noqa: SLF001 - it finds the JVM gone, as it shall
    with ThreadPoolExecutor(1, thread_name_prefix="spark-stop") as pool:
        stopping = pool.submit(context.stop)
        while context._jsc is not None and not stopping.done() and clock.monotonic() < until:  # noqa: SLF001 - gone once the JVM's side has stopped
            wait([stopping], _LOOK_SECONDS)
        gateway.shutdown()
        process.stdin.close()  # the JVM waits for this
        try:
            process.wait(timeout=max(_LOOK_SECONDS, until - clock.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        stopping.result()
    _forget_gateway()


def _say_nothing(request: object, client_address: object) -> None:
    """Take the place of `socketserver`'s traceback on stderr."""


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """Give file descriptor 2 to `log` while the JVM starts: it and its workers keep it, we get ours back."""
    sys.stderr.flush()
    kept = os.dup(2)
    target = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(target, 2)
    os.close(target)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _forget_gateway() -> None:
    """Let the next start of this process take a JVM of its own."""
    from pyspark import SparkContext  # noqa: PLC0415 - an extra

    SparkContext._gateway = None  # noqa: SLF001 - pyspark keeps it for ever
    SparkContext._jvm = None  # noqa: SLF001 - same


def last_line(error: BaseException) -> str:
    """Return the line of a Java error that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    known = [line for line in lines if "Error" in line or "Exception" in line]
    return (known or lines or [type(error).__name__])[-1][:300]
