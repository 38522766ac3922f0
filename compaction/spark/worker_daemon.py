"""What forks the Python workers of a session of ours: PySpark's own daemon, out of the installation.

Spark's JVM puts its `pyspark.zip` first in the path of workers. A zip keeps no bytecode, so each run compiled some
eighty modules anew before its first task: a second. The installed package beside it is the same, and compiled.
Spark runs this as `python -m` instead of `pyspark.daemon` (`spark.python.daemon.module`).
"""

import sys


def main() -> None:
    """Serve the JVM until it closes the pipe."""
    sys.path.sort(key=lambda entry: entry.endswith(".zip"))  # stable: nothing else changes its place
    from pyspark.daemon import manager  # noqa: PLC0415 - from where the line above says

    manager()


if __name__ == "__main__":
    main()
