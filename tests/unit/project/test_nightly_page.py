"""The page on platforms: what it tells platforms to pass is what the job understands, and what it tells exists."""

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

from compaction.report.metric_line import METRICS, NIGHT_METRICS
from compaction.spark_submit import arguments
from minutebook.cli import app

CHECKOUT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = (CHECKOUT / "docs" / "how-to" / "nightly.md").read_text()
_BLOCKS: Final = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
_PYTHON: Final = "./environment/bin/python"


def _block(name: str) -> Any:  # noqa: ANN401 - JSON
    (found,) = [block for block in _BLOCKS if name in block]
    return found


def _understood(words: list[str]) -> list[str]:
    """Return the words as the command line parses them: no option that is not there, no value that is missing."""
    line = arguments(words)
    group: Any = __import__("typer").main.get_command(app)
    group.commands[line[0]].make_context(line[0], line[1:])
    return line


def _is_due(line: list[str]) -> bool:
    """Return whether the command does what is due, and names what it leaves when its time is over."""
    return {"--due=14d", "--budget=3h"} <= set(line)


def test_emr_is_told_what_the_job_understands() -> None:
    """And both driver and executors run the packed Python."""
    submit = _block("jobDriver")["jobDriver"]["sparkSubmit"]
    words = _understood(submit["entryPointArguments"])
    assert (words[0], _is_due(words)) == ("compact", True)
    conf = dict(word.split("=", 1) for word in shlex.split(submit["sparkSubmitParameters"]) if word != "--conf")
    assert conf["spark.archives"].endswith("#environment")
    assert {value for name, value in conf.items() if "PYSPARK" in name} == {_PYTHON}
    assert submit["entryPoint"].endswith("/spark_submit.py")


def test_glue_is_told_what_the_job_understands() -> None:
    """Glue adds a name, and passes all of its arguments on."""
    given = _block("DefaultArguments")["DefaultArguments"]
    words = [word for pair in {**given, "--JOB_NAME": "night"}.items() for word in pair]
    line = _understood(words)
    assert line[:2] == ["compact", "s3://CODE/minutebook/my.properties"]
    assert _is_due(line)


def test_step_functions_are_told_what_the_job_understands() -> None:
    """With whatever is due: the machine needs no input."""
    submit = _block("Compact")["Compact"]["Parameters"]["JobDriver"]["SparkSubmit"]
    assert _is_due(_understood(submit["EntryPointArguments"]))


def test_airflow_is_told_what_the_job_understands() -> None:
    """With whatever is due, whatever day the run is for: a backfill names its days."""
    (text,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    lists = [ast.literal_eval(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.List)]
    (words,) = [found for found in lists if "--command" in found]
    line = _understood(words)
    assert "--fail-on=defects" in line
    assert _is_due(line)


def test_no_platform_ends_a_run_before_its_budget_has() -> None:
    """A run that the platform kills names no day; its budget leaves the last day it began time to end."""
    (budget,) = set(re.findall(r"--budget[\"', ]+(\d+)h", PAGE))
    limits = [
        _block("jobDriver")["executionTimeoutMinutes"],
        _block("DefaultArguments")["Timeout"],
        _block("Compact")["Compact"]["TimeoutSeconds"] // 60,
    ]
    assert all(minutes >= 2 * 60 * int(budget) for minutes in limits)


def test_every_metric_is_explained() -> None:
    """And no other, each with its unit."""
    rows = re.findall(r"^\| ((?:`Days?\w+`(?:, )?)+) \| (\w+) \|", PAGE, re.MULTILINE)
    told = {name: unit for names, unit in rows for name in re.findall(r"`(\w+)`", names)}
    assert told == {name: unit for name, (unit, _) in {**METRICS, **NIGHT_METRICS}.items()}
