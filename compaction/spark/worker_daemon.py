"""Fork the Python workers of a local session: PySpark's daemon, started faster (`spark.python.daemon.module`).

Spark's JVM puts its `pyspark.zip` first in the path of workers. A zip stores no bytecode, so compiling some eighty
modules took a second before the first task. The installed package is the same, and compiled.

Workers are forked with the modules of tasks loaded. PySpark collects garbage after each task; freezing these modules
saves 0.05 to 0.1 s each time.
"""

import gc
import os
import sys


def main() -> None:
    """Serve the JVM until it closes the pipe."""
    sys.path.sort(key=lambda entry: entry.endswith(".zip"))  # a stable sort: only zips move
    # structlog renders tracebacks with rich where it finds it; workers log JSON.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type] # None makes the import fail (importlib)
    # pyarrow loads numpy, whose algebra would start a thread for each core, before the fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from pyspark.daemon import manager  # noqa: PLC0415 - after the change of the path

    import compaction.spark.shuffle  # noqa: PLC0415 - loaded before workers are forked
    import compaction.spark.spark_groups  # noqa: PLC0415, F401 - the same

    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
