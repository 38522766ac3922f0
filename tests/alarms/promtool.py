"""promtool, which comes with Prometheus, evaluates alerting rules and queries over series of our choosing."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
RULES: Final = CHECKOUT / "deploy" / "grafana" / "alarms.yaml"
DASHBOARD: Final = RULES.with_name("minutebook.json")
MISSING: Final = (
    "promtool is missing: `make alarms` fetches it on Debian; or leave this ring out: --ignore tests/alarms"
)
_FETCHED: Final = CHECKOUT / ".cache" / "promtool" / "promtool"
_ALARM: Final = re.compile(r"\{([^{}]*alertname=[^{}]*)\}")
_ROW: Final = re.compile(r"\{([^{}]*)\} ")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


def find_promtool() -> str | None:
    """Return the program: of PATH, or what `make alarms` fetched."""
    return shutil.which("promtool") or (str(_FETCHED) if _FETCHED.is_file() else None)


def firing(folder: Path, series: Mapping[str, str], minutes: Sequence[int]) -> list[list[dict[str, str]]]:
    """Return the labels of the alarms that fire at each of these minutes, by the rules that are shipped.

    `series` maps a selector to its values, a minute apart, in promtool's notation.
    """
    found = _ask(folder, series, [('ALERTS{alertstate="firing"}', minute) for minute in minutes], [str(RULES)])
    return [[dict(_LABEL.findall(labels)) for labels in _ALARM.findall(found.get(minute, ""))] for minute in minutes]


def answers(
    folder: Path, series: Mapping[str, str], queries: Sequence[str], *, since: int
) -> list[list[dict[str, str]]]:
    """Return the labels of each row of each query's answer; each is asked a minute after the one before it."""
    found = _ask(folder, series, [(query, since + number) for number, query in enumerate(queries)], [])
    rows = [_ROW.findall(found.get(since + number, "")) for number in range(len(queries))]
    return [[dict(_LABEL.findall(labels)) for labels in some] for some in rows]


def _ask(
    folder: Path, series: Mapping[str, str], questions: Sequence[tuple[str, int]], rules: Sequence[str]
) -> dict[int, str]:
    """Return what each query of a minute answers, by its minute; not those that answer nothing."""
    # promtool only compares. It is told that there is no answer, and objects with those that there are.
    asked = [{"expr": query, "eval_time": f"{minute}m"} for query, minute in questions]
    rows = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": rows, "promql_expr_test": asked}
    file = folder / "questions.yaml"
    file.write_text(json.dumps({"rule_files": list(rules), "evaluation_interval": "1m", "tests": [test]}))
    code, said = _run("test", "rules", str(file))
    found = dict(_objections(said))
    assert bool(found) == bool(code), said
    assert found.keys() <= {minute for _, minute in questions}, said
    return found


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
