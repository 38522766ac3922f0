"""What `spark-submit` gets: the same commands as on the command line, on the platform's session.

    spark-submit --py-files minutebook.whl spark_submit.py compact FILE.properties --date 2026-11-20

docs/spark.md has tested arguments for platforms.
"""

import sys

from minutebook import main as minutebook

_FROM_PLATFORMS = ("--JOB_NAME", "--JOB_ID", "--JOB_RUN_ID", "--job-bookmark-option", "--TempDir")
"""Arguments that Glue adds, each with a value."""


def arguments(given: list[str]) -> list[str]:
    """Return the arguments that are ours."""
    kept: list[str] = []
    skip = False
    for word in given:
        if skip:
            skip = False
        elif word in _FROM_PLATFORMS:
            skip = True
        elif word.partition("=")[0] not in _FROM_PLATFORMS:
            kept.append(word)
    return kept


if __name__ == "__main__":
    sys.argv[1:] = arguments(sys.argv[1:])
    minutebook()
