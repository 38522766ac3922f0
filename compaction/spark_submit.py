"""What `spark-submit` gets: the same commands as on the command line, on the platform's session.

    spark-submit spark_submit.py compact FILE.properties --date 2026-11-20 --dry-run
    spark-submit spark_submit.py --command compact --file s3://code/my.properties --date yesterday --dry-run true

The second form is for platforms that know keys and values only, as Glue: every argument is `--key value`, and a flag
takes true or false. What a platform adds is left out; what nobody knows is refused. docs/how-to/nightly.md has
arguments for platforms.
"""

import difflib
import sys
from collections.abc import Sequence
from typing import Any, Final

import typer

from compaction.commands.command_line import COMMANDS
from minutebook.cli import app
from minutebook.cli import main as minutebook
from minutebook.errors import SettingsError

PLATFORM: Final = frozenset(
    {
        "--JOB_ID",
        "--JOB_NAME",
        "--JOB_RUN_ID",
        "--RedshiftTempDir",
        "--SECURITY_CONFIGURATION",
        "--TempDir",
        "--WORKFLOW_NAME",
        "--WORKFLOW_RUN_ID",
        "--additional-python-modules",
        "--auto-scale-within-microbatch",
        "--class",
        "--conf",
        "--continuous-log-conversionPattern",
        "--continuous-log-logGroup",
        "--continuous-log-logStreamPrefix",
        "--customer-driver-env-vars",
        "--customer-executor-env-vars",
        "--datalake-formats",
        "--disable-proxy",
        "--disable-proxy-v2",
        "--enable-auto-scaling",
        "--enable-continuous-cloudwatch-log",
        "--enable-continuous-log-filter",
        "--enable-glue-datacatalog",
        "--enable-job-insights",
        "--enable-lakeformation-fine-grained-access",
        "--enable-metrics",
        "--enable-observability-metrics",
        "--enable-rename-algorithm-v2",
        "--enable-s3-parquet-optimized-committer",
        "--enable-spark-ui",
        "--encryption-type",
        "--executor-cores",
        "--extra-files",
        "--extra-jars",
        "--extra-py-files",
        "--job-bookmark-from",
        "--job-bookmark-option",
        "--job-bookmark-to",
        "--job-language",
        "--python-modules-installer-option",
        "--python-virtual-env",
        "--python-virtual-env-storage-prefix",
        "--scriptLocation",
        "--spark-event-logs-path",
        "--use-postgres-driver",
        "--user-jars-first",
        "--write-shuffle-files-to-s3",
        "--write-shuffle-spills-to-s3",
    }
)
"""Arguments of Glue's own, each with a value or an empty one ("Using job parameters in AWS Glue jobs")."""
_COMMAND, _FILE = "--command", "--file"
_FLAGS: Final = ("true", "false")


def arguments(given: Sequence[str]) -> list[str]:
    """Return the command line that is meant.

    Raises:
        SettingsError: keys and values were given, and something about them is not understood.
    """
    names = [each.__name__ for each in COMMANDS]
    if given and not given[0].startswith("--"):
        return _without_platform(given)
    pairs = _pairs(given)
    if not pairs:  # somebody tries what this is: the help says it
        return []
    command = pairs.pop(_COMMAND, None)
    if command not in names:
        raise SettingsError(
            f"{_COMMAND}: {'which one?' if command is None else f'{command!r} is not one of them'}",
            next_step=f"{_COMMAND} takes {' or '.join(names)}",
        )
    file = pairs.pop(_FILE, None)
    options = _options(command)
    words = [command, *([] if file is None else [file])]
    for key, value in pairs.items():
        words += _words(key, value, options)
    return words


def _options(command: str) -> dict[str, bool]:
    """Return the options of a command by name; True for a flag."""
    group: Any = typer.main.get_command(app)
    options = [each for each in group.commands[command].params if each.param_type_name == "option"]
    return {name: each.is_flag for each in options for name in each.opts if name not in {"-h", "--help"}}


def _pairs(given: Sequence[str]) -> dict[str, str]:
    """Return keys and values; what a platform adds is left out."""
    pairs: dict[str, str] = {}
    waiting = list(reversed(given))
    while waiting:
        key, separator, value = waiting.pop().partition("=")
        if not key.startswith("--"):
            raise SettingsError(f"{key!r} follows no --key", next_step="write every argument as --key value")
        if not separator and waiting and not waiting[-1].startswith("--"):
            value = waiting.pop()
        if key in PLATFORM:
            continue
        if key in pairs:
            raise SettingsError(f"{key} is given twice", next_step="keep one")
        pairs[key] = value
    return pairs


def _words(key: str, value: str, options: dict[str, bool]) -> list[str]:
    """Return an option as the command line has it."""
    if key not in options:
        close = difflib.get_close_matches(key, [*options, _COMMAND, _FILE], n=1)
        raise SettingsError(
            f"{key} is not an argument" + (f"; did you mean {close[0]}?" if close else ""),
            next_step=f"those of the command are {' '.join(sorted(options))}",
        )
    if options[key]:
        if value not in _FLAGS:
            raise SettingsError(
                f"{key} takes true or false, not {value!r}", next_step=f"write {key} true, or leave it"
            )
        return [key] if value == "true" else []
    if not value:
        raise SettingsError(f"{key} has no value", next_step=f"write {key} VALUE, or leave it out")
    return [f"{key}={value}"]


def _without_platform(given: Sequence[str]) -> list[str]:
    """Return a command line without what a platform added, each with its value."""
    kept: list[str] = []
    skip = False
    for word in given:
        if skip and not word.startswith("--"):
            skip = False
        elif word.partition("=")[0] in PLATFORM:
            skip = "=" not in word
        else:
            skip = False
            kept.append(word)
    return kept


def main() -> None:
    """Run the command. Success ends without an exception: some platforms take `SystemExit: 0` for a failure."""
    try:
        minutebook(lambda: arguments(sys.argv[1:]))
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    main()
