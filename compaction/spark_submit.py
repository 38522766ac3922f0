"""The script for `spark-submit`: the commands of the command line, on the platform's session.

    spark-submit spark_submit.py compact FILE.properties --date 2026-11-20 --dry-run
    spark-submit spark_submit.py --command compact --file s3://code/my.properties --date yesterday --dry-run true

The second form is for platforms such as Glue, which pass keys and values only: every argument is `--key value`, and a
flag takes true or false. A platform's own arguments are ignored; unknown ones are rejected. docs/how-to/nightly.md
lists arguments by platform.
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
"""Glue's own arguments, each with a value or an empty one ("Using job parameters in AWS Glue jobs")."""
_COMMAND, _FILE = "--command", "--file"
_FLAGS: Final = ("true", "false")


def arguments(argv: Sequence[str]) -> list[str]:
    """Return the command line that the platform's arguments stand for; raises SettingsError."""
    names = [command.__name__ for command in COMMANDS]
    if argv and not argv[0].startswith("--"):
        return _without_platform(argv)
    pairs = _pairs(argv)
    if not pairs:  # prints the help
        return []
    command = pairs.pop(_COMMAND, None)
    if command not in names:
        raise SettingsError(
            f"{_COMMAND} is missing" if command is None else f"{_COMMAND}: {command!r} is not one of them",
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
    options = [param for param in group.commands[command].params if param.param_type_name == "option"]
    return {name: option.is_flag for option in options for name in option.opts if name not in {"-h", "--help"}}


def _pairs(argv: Sequence[str]) -> dict[str, str]:
    """Return keys and values, without the platform's own."""
    pairs: dict[str, str] = {}
    words = list(reversed(argv))
    while words:
        key, separator, value = words.pop().partition("=")
        if not key.startswith("--"):
            raise SettingsError(f"{key!r} follows no --key", next_step="write every argument as --key value")
        if not separator and words and not words[-1].startswith("--"):
            value = words.pop()
        if key in PLATFORM:
            continue
        if key in pairs:
            raise SettingsError(f"{key} is given twice", next_step="keep one")
        pairs[key] = value
    return pairs


def _words(key: str, value: str, options: dict[str, bool]) -> list[str]:
    """Return an option in the form of the command line."""
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


def _without_platform(argv: Sequence[str]) -> list[str]:
    """Return a command line without the platform's arguments and their values."""
    words: list[str] = []
    is_value = False
    for word in argv:
        if is_value and not word.startswith("--"):
            is_value = False
        elif word.partition("=")[0] in PLATFORM:
            is_value = "=" not in word
        else:
            is_value = False
            words.append(word)
    return words


def main() -> None:
    """Run the command. Success raises nothing: some platforms take `SystemExit: 0` for a failure."""
    try:
        minutebook(lambda: arguments(sys.argv[1:]))
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    main()
