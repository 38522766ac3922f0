"""The page on platforms: what it tells platforms to pass is what the job understands, and what it tells exists."""

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

from compaction.report.metric_line import METRICS
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


def test_emr_is_told_what_the_job_understands() -> None:
    """And both driver and executors run the packed Python."""
    submit = _block("jobDriver")["jobDriver"]["sparkSubmit"]
    assert _understood(submit["entryPointArguments"])[0] == "compact"
    conf = dict(word.split("=", 1) for word in shlex.split(submit["sparkSubmitParameters"]) if word != "--conf")
    assert conf["spark.archives"].endswith("#environment")
    assert {value for name, value in conf.items() if "PYSPARK" in name} == {_PYTHON}
    assert submit["entryPoint"].endswith("/spark_submit.py")


def test_glue_is_told_what_the_job_understands() -> None:
    """Glue adds a name, and passes all of its arguments on."""
    given = _block("DefaultArguments")["DefaultArguments"]
    words = [word for pair in {**given, "--JOB_NAME": "night"}.items() for word in pair]
    assert _understood(words)[:2] == ["compact", "s3://CODE/minutebook/my.properties"]


def test_step_functions_are_told_what_the_job_understands() -> None:
    """With the day of the machine's input."""
    submit = _block("Compact")["Compact"]["Parameters"]["JobDriver"]["SparkSubmit"]
    words = re.findall(r"'([^']*)'|(\$\.date)", submit["EntryPointArguments.$"])
    assert "--date=2026-11-20" in _understood([text or "2026-11-20" for text, _ in words])


def test_airflow_is_told_what_the_job_understands() -> None:
    """With the day of the run."""
    (text,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    lists = [ast.literal_eval(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.List)]
    (words,) = [found for found in lists if "--command" in found]
    assert "--fail-on=defects" in _understood([word.replace("{{ ds }}", "2026-11-20") for word in words])


def test_every_metric_is_explained() -> None:
    """And no other, each with its unit."""
    rows = re.findall(r"^\| ((?:`Day\w+`(?:, )?)+) \| (\w+) \|", PAGE, re.MULTILINE)
    told = {name: unit for names, unit in rows for name in re.findall(r"`(\w+)`", names)}
    assert told == {name: unit for name, (unit, _) in METRICS.items()}
