"""`minutebook prepare`: run in Spark what a night runs, and archive the classes that it loads."""

from pathlib import Path
from typing import Final

from compaction.spark.session import check_java, class_archive_folder, spark_java, start_spark, stop
from minutebook.class_archive import Making, filled

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
