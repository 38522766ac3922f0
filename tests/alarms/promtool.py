"""promtool, which comes with Prometheus, evaluates alerting rules over series of our choosing."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
RULES: Final = CHECKOUT / "deploy" / "grafana" / "alarms.yaml"
MISSING: Final = (
    "promtool is missing: `make alarms` fetches it on Debian; or leave this ring out: --ignore tests/alarms"
)
_FETCHED: Final = CHECKOUT / ".cache" / "promtool" / "promtool"
_ALARM: Final = re.compile(r"\{([^{}]*alertname=[^{}]*)\}")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


def find_promtool() -> str | None:
    """Return the program: of PATH, or what `make alarms` fetched."""
    return shutil.which("promtool") or (str(_FETCHED) if _FETCHED.is_file() else None)


def check_rules(rules: Path) -> None:
    """Let promtool read a file of rules; raises AssertionError with what it says against them."""
    code, said = _run("check", "rules", str(rules))
    assert code == 0, said


def firing(folder: Path, series: Mapping[str, str], minutes: Sequence[int]) -> list[list[dict[str, str]]]:
    """Return the labels of the alarms that fire at each of these minutes, by the rules that are shipped.

    `series` maps a selector to its values, a minute apart, in promtool's notation.
    """
    # promtool only compares. It is told that no alarm fires, and objects with those that do.
    questions = [{"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{minute}m"} for minute in minutes]
    rows = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": rows, "promql_expr_test": questions}
    file = folder / "alarms-test.yaml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    code, said = _run("test", "rules", str(file))
    found = dict(_objections(said))
    assert bool(found) == bool(code), said
    assert found.keys() <= {*minutes}, said
    return [[dict(_LABEL.findall(labels)) for labels in _ALARM.findall(found.get(minute, ""))] for minute in minutes]


def _objections(said: str) -> Iterator[tuple[int, str]]:
    """Yield the minute of each question to which there are alarms, and what promtool says of them."""
    for part in said.split("expr: ")[1:]:
        time = re.search(r"time: (?:(\d+)h)?(?:(\d+)m)?", part)
        assert time is not None, said
        yield int(time[1] or 0) * 60 + int(time[2] or 0), part.partition("got:")[2]


def _run(*arguments: str) -> tuple[int, str]:
    program = find_promtool()
    assert program is not None, MISSING
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr
