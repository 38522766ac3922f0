"""The page on waiting for an hour: its pieces run against doubles, and ask for the keys that the workers write.

What the doubles take is what Airflow 3.3 and Dagster 1.13 take: the pieces were run there, too (the page says how).
"""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest
import typer

from minutebook.cli import app
from minutebook.format.boundaries import marker_key, success_key
from tests.unit.project.test_docs_text import CHECKOUT, blocks

_PAGE: Final = CHECKOUT / "docs" / "how-to" / "wait-for-an-hour.md"
_KEY_SENSOR, _BASH_SENSOR, _DAGSTER, _ = blocks(_PAGE, "python")
_PATTERN, _MACHINE = map(json.loads, blocks(_PAGE, "json"))
_PREFIX: Final = "flights/"
_HOUR: Final = datetime(2026, 11, 21, 10, tzinfo=UTC)
_SUCCESS_KEY: Final = success_key(_PREFIX, int(_HOUR.timestamp() * 1000))
_SECONDS: Final = frozenset({"task_id", "mode", "poke_interval", "timeout"})


class _Sensor:
    """A sensor of Airflow: it takes its own parameters and those of all sensors, and no others."""

    own: frozenset[str]

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - whatever the page gives
        assert given.keys() <= _SECONDS | self.own
        self.given = given


class _KeySensor(_Sensor):
    own = frozenset({"bucket_key", "bucket_name", "wildcard_match", "deferrable"})


class _BashSensor(_Sensor):
    own = frozenset({"bash_command", "env", "retry_exit_code"})


class _Timetable(NamedTuple):
    cron: str
    timezone: str


class _Dag:
    def __init__(self, dag_id: str, *, schedule: _Timetable, start_date: datetime, catchup: bool) -> None:
        self.schedule = schedule
        assert (dag_id, start_date.tzinfo, catchup) == ("load_hour", UTC, False)

    def __enter__(self) -> None:
        """Collect nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class _RunRequest(NamedTuple):
    run_key: str
    tags: dict[str, str]


def _sensor(*, job: object, minimum_interval_seconds: int) -> Callable[[Any], Any]:
    assert callable(job)
    assert minimum_interval_seconds > 0
    return lambda function: function


@pytest.fixture(autouse=True)
def _doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, dict[str, object]] = {
        "airflow": {},
        "airflow.sdk": {"DAG": _Dag, "CronDataIntervalTimetable": _Timetable},
        "airflow.providers": {},
        "airflow.providers.amazon": {},
        "airflow.providers.amazon.aws": {},
        "airflow.providers.amazon.aws.sensors": {},
        "airflow.providers.amazon.aws.sensors.s3": {"S3KeySensor": _KeySensor},
        "airflow.providers.standard": {},
        "airflow.providers.standard.sensors": {},
        "airflow.providers.standard.sensors.bash": {"BashSensor": _BashSensor},
        "dagster": {"RunRequest": _RunRequest, "job": lambda job: job, "op": lambda op: op, "sensor": _sensor},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)


def _run(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, str(_PAGE), "exec"), names)  # noqa: S102 - our own page
    return names


def _rendered(template: str) -> str:
    """Return a template of Airflow for the run of an hour."""
    interval = {"data_interval_start": _HOUR, "data_interval_end": _HOUR + timedelta(hours=1)}
    return re.sub(r"\{\{(.*?)\}\}", lambda found: str(eval(found[1].strip(), {}, interval)), template)  # noqa: S307 - as above


def test_airflows_sensor_waits_for_the_hour_of_its_run() -> None:
    """The run's interval is that hour, so the timetable must be one of intervals."""
    given = _run(_KEY_SENSOR)["hour_is_complete"].given
    assert _rendered(given["bucket_key"]) == f"s3://minutes/{_SUCCESS_KEY}"
    assert "schedule=CronDataIntervalTimetable(" in _KEY_SENSOR


def test_airflows_wait_is_what_the_command_understands() -> None:
    """Once for each poke; the code for "not yet" pokes again."""
    given = _run(_BASH_SENSOR)["hour_is_complete"].given
    words = shlex.split(_rendered(given["bash_command"]))
    command: Any = typer.main.get_command(app)
    context = command.commands[words[1]].make_context("wait", words[2:])
    assert words[:2] == ["minutebook", "wait"]
    assert (context.params["from_"], context.params["until"]) == (
        "2026-11-21T10:00:00+00:00",
        "2026-11-21T11:00:00+00:00",
    )
    assert (context.params["once"], given["retry_exit_code"]) == (True, 7)


def test_dagsters_sensor_names_each_hour_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of today and of the two days before, in which a gap may still be healed; markers are no hours."""
    now = datetime.now(UTC).replace(  # noqa: TID251 - the page's own clock
        minute=0, second=0, microsecond=0
    )
    hours = [now - timedelta(hours=back) for back in (49, 25, 1)]
    stored = [key for hour in hours for key in _keys_of(int(hour.timestamp() * 1000))]

    class S3:
        def list_objects_v2(self, *, Bucket: str, Prefix: str) -> dict[str, Any]:  # noqa: N803 - boto3's names
            assert Bucket == "minutes"
            found = [{"Key": key} for key in stored if key.startswith(Prefix)]
            return {"Contents": found} if found else {}

    monkeypatch.setattr("boto3.client", lambda _service: S3())
    requests: Iterator[_RunRequest] = _run(_DAGSTER)["complete_hours"]()
    within = [hour for hour in hours if (now.date() - hour.date()).days <= 2]
    assert [request.run_key for request in requests] == [f"{hour:%Y-%m-%dT%H}" for hour in within]


def _keys_of(hour_ms: int) -> list[str]:
    """Return what is stored when an hour is complete."""
    return [marker_key(_PREFIX, hour_ms + 3_600_000), success_key(_PREFIX, hour_ms)]


def test_the_rule_matches_finished_hours_alone() -> None:
    """Each boundary has a marker beside them, and each would start the state machine."""
    (wildcard,) = (key["wildcard"] for key in _PATTERN["detail"]["object"]["key"])
    marker, success = _keys_of(int(_HOUR.timestamp() * 1000))
    assert fnmatchcase(success, wildcard)
    assert not fnmatchcase(marker, wildcard)


def test_the_page_says_where_its_pieces_were_run() -> None:
    """What is not run here."""
    assert "## What was run" in _PAGE.read_text()
    assert Path(CHECKOUT / "tests" / "integration" / "project" / "test_wait_page.py").exists()
