"""What forks the Python workers of a session of ours: PySpark's own daemon, out of the installation.

Spark's JVM puts its `pyspark.zip` first in the path of workers. A zip keeps no bytecode, so each run compiled some
eighty modules anew before its first task: a second. The installed package beside it is the same, and compiled.
Spark runs this as `python -m` instead of `pyspark.daemon` (`spark.python.daemon.module`).

Workers are forked with what tasks need loaded: else each loads it by itself. And PySpark lets a worker collect
garbage after each task: what was loaded is kept out of that, which took 0.05 to 0.1 s.
"""

import gc
import os
import sys


def main() -> None:
    """Serve the JVM until it closes the pipe."""
    sys.path.sort(key=lambda entry: entry.endswith(".zip"))  # stable: nothing else changes its place
    # structlog renders tracebacks with rich where it finds it; workers log JSON.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type] # None makes the import fail (importlib)
    # pyarrow loads numpy, whose algebra would start a thread for each core, before the fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from pyspark.daemon import manager  # noqa: PLC0415 - from where the first line says


    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
