"""Every alarm, by promtool, over two streams whose shards have the same ids, in one task and in two.

One stream is in trouble and the other is fine: each alarm names the one in trouble, and it alone. A shard's id begins
with shardId-000000000000 in every stream, so without the labels of its stream an alarm would take the better or the
worse of the two for both.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from ruamel.yaml import YAML

from consumer.child_logs.processor_log import ProcessorEvent
from consumer.monitoring.labels import StreamLabels
from consumer.monitoring.watch import Watch
from tests.alarms.promtool import DASHBOARD, MISSING, RULES, answers, find_promtool, firing
from tests.fakes.clock import ManualClock

SICK: Final = StreamLabels("orders-archive", "orders")
FINE: Final = StreamLabels("clicks-archive", "clicks")
SHARD: Final = "shardId-000000000000"
BREAKS: Final = 40
"""The minute of the trouble: after the half hour that the longest window of a rate looks back."""
END: Final = 600
_ONE_TASK: Final = {SICK: "10.0.0.1:9464", FINE: "10.0.0.1:9464"}
_TWO_TASKS: Final = {SICK: "10.0.0.1:9464", FINE: "10.0.0.2:9464"}

Series = Mapping[str, str]
"""Metric and further labels -> values, one a minute, in promtool's notation."""


def _times(*, ago: int) -> str:
    """Return epoch seconds that stay so many seconds ago."""
    return f"{-ago}+60x{END}"


def _frozen(*, ago: int) -> str:
    """Return epoch seconds that stand still from the trouble on."""
    return f"{-ago}+60x{BREAKS} {60 * BREAKS - ago}x{END - BREAKS}"


def _step(before: int, after: int) -> str:
    return f"{before}x{BREAKS - 1} {after}x{END - BREAKS}"


def _well() -> dict[str, str]:
    """Return the series of a stream that is fine: covered two minutes ago, complete five minutes ago."""
    return {
        "stream_up": f"1x{END}",
        "daemon_up": f"1x{END}",
        "healthy": f"1x{END}",
        "shards_without_reader": f"0x{END}",
        f'behind_seconds{{shard="{SHARD}"}}': f"30x{END}",
        f'stream_behind_seconds{{shard="{SHARD}"}}': f"1x{END}",
        f'covered_until_timestamp_seconds{{shard="{SHARD}"}}': _times(ago=120),
        "complete_until_timestamp_seconds": _times(ago=300),
        f'kcl_skipped_total{{shard="{SHARD}",skipped="batch"}}': f"3x{END}",
        f'slots_lost_total{{shard="{SHARD}"}}': f"9x{END}",
        "daemon_restarts_total": f"7x{END}",
        'processor_failures_total{exit_code="2"}': f"2x{END}",
        "processors_killed_total": f"3x{END}",
        f'id_conflicts_total{{shard="{SHARD}"}}': f"3x{END}",
        f'segments_total{{shard="{SHARD}"}}': f"0+1x{END}",
        f'put_attempts_total{{shard="{SHARD}"}}': f"0+1x{END}",
        **_commits(f"0+1x{END}"),
    }


def _commits(quick: str) -> dict[str, str]:
    """Return a shard's histogram of one commit a minute; `quick`: those within a minute."""
    slow = ("120.0", "300.0", "+Inf")
    bounds = {**dict.fromkeys(("1.0", "60.0"), quick), **dict.fromkeys(slow, f"0+1x{END}")}
    return {f'commit_seconds_bucket{{le="{le}",shard="{SHARD}"}}': values for le, values in bounds.items()}


class Trouble(NamedTuple):
    """What changes of a stream's series, at which minute we look, and which alarms must then fire."""

    changes: Series
    minute: int
    alarms: frozenset[str]
    shard: bool = False
    more: Mapping[str, str] = {}


def _trouble(alarm: str, metric: str, values: str, *, after: int, shard: bool = False, **more: str) -> Trouble:
    return Trouble({metric: values}, BREAKS + after, frozenset({alarm}), shard, more)


TROUBLES: Final = {
    "no daemon": Trouble(
        {"stream_up": _step(1, 0), "daemon_up": _step(1, 0), "healthy": _step(1, 0)},
        BREAKS + 5,
        frozenset({"MinutebookGone"}),
    ),
    "no reader": _trouble("MinutebookShardWithoutReader", "shards_without_reader", _step(0, 1), after=5),
    "behind": _trouble("MinutebookBehind", f'behind_seconds{{shard="{SHARD}"}}', _step(30, 301), after=6, shard=True),
    "catching up": _trouble(
        "MinutebookCatchingUp", f'stream_behind_seconds{{shard="{SHARD}"}}', _step(1, 3601), after=16, shard=True
    ),
    "uncovered": _trouble(
        "MinutebookUncovered",
        f'covered_until_timestamp_seconds{{shard="{SHARD}"}}',
        _frozen(ago=120),
        after=95,
        shard=True,
    ),
    "incomplete": _trouble(
        "MinutebookIncomplete",
        "complete_until_timestamp_seconds",
        _frozen(ago=300),
        after=32,
    ),
    "skipped": _trouble(
        "MinutebookKclSkipped",
        f'kcl_skipped_total{{shard="{SHARD}",skipped="batch"}}',
        _step(3, 4),
        after=2,
        shard=True,
        skipped="batch",
    ),
    "slots lost": _trouble(
        "MinutebookSlotsLost",
        f'slots_lost_total{{shard="{SHARD}"}}',
        f"9x{BREAKS} 10+1x{END - BREAKS}",
        after=25,
        shard=True,
    ),
    "restarts": _trouble("MinutebookRestarts", "daemon_restarts_total", f"7x{BREAKS} 8+1x{END - BREAKS}", after=7),
    "refused": _trouble("MinutebookRefused", 'processor_failures_total{exit_code="2"}', _step(2, 3), after=2),
    "an object in an archive tier": _trouble(
        "MinutebookRefused", 'processor_failures_total{exit_code="4"}', _step(0, 1), after=2
    ),
    "unhealthy": _trouble("MinutebookUnhealthy", "healthy", _step(1, 0), after=6),
    "slow commits": Trouble(
        _commits(f"0+1x{BREAKS} {BREAKS}x{END - BREAKS}"),
        BREAKS + 25,
        frozenset({"MinutebookSlowCommits"}),
        shard=True,
    ),
    "repeated puts": _trouble(
        "MinutebookPutsRepeated",
        f'put_attempts_total{{shard="{SHARD}"}}',
        f"0+1x{BREAKS} {BREAKS}+3x{END - BREAKS}",
        after=35,
        shard=True,
    ),
    "killed": _trouble("MinutebookProcessorsKilled", "processors_killed_total", _step(3, 4), after=2),
    "id conflict": _trouble(
        "MinutebookIdConflicts", f'id_conflicts_total{{shard="{SHARD}"}}', _step(3, 4), after=2, shard=True
    ),
}


@pytest.fixture(scope="module", autouse=True)
def promtool() -> None:
    """Fail where promtool is missing: rules that nobody evaluated must not look like evaluated ones."""
    if find_promtool() is None:
        pytest.fail(MISSING, pytrace=False)


@pytest.mark.parametrize("where", [_ONE_TASK, _TWO_TASKS], ids=["one task", "two tasks"])
@pytest.mark.parametrize("name", TROUBLES)
def test_an_alarm_fires_for_the_stream_in_trouble_and_for_it_alone(
    tmp_path: Path, name: str, where: Mapping[StreamLabels, str]
) -> None:
    """No other alarm fires, either; and before the trouble none does."""
    trouble = TROUBLES[name]
    series = _series(SICK, {**_well(), **trouble.changes}, where[SICK]) | _series(FINE, _well(), where[FINE])
    before, [alarm] = _firing(tmp_path, series, BREAKS - 1, trouble.minute)
    assert before == []
    about = {**SICK._asdict(), **({"shard": SHARD} if trouble.shard else {}), **trouble.more}
    assert alarm == {"alertname": next(iter(trouble.alarms)), **about}


def test_there_is_a_trouble_for_each_alarm() -> None:
    """One that nobody tried may never fire."""
    rules = YAML(typ="safe", pure=True).load(RULES)["groups"][0]["rules"]
    assert {alarm for trouble in TROUBLES.values() for alarm in trouble.alarms} == {rule["alert"] for rule in rules}


@pytest.mark.parametrize("where", [_ONE_TASK, _TWO_TASKS], ids=["one task", "two tasks"])
def test_a_stream_that_falls_silent_is_gone_and_the_other_is_not(
    tmp_path: Path, where: Mapping[StreamLabels, str]
) -> None:
    """Its series end: of its task nothing is heard, or the task reads it no more. It is gone for six hours."""
    series = _series(SICK, _ended(_well()), where[SICK]) | _series(FINE, _well(), where[FINE])
    gone = {"alertname": "MinutebookGone", **SICK._asdict()}
    minutes = (BREAKS - 1, BREAKS + 5, BREAKS + 355, BREAKS + 365)
    assert _firing(tmp_path, series, *minutes) == [[], [gone], [gone], []]


@pytest.mark.parametrize("where", [_ONE_TASK, _TWO_TASKS], ids=["one task", "two tasks"])
def test_a_stream_that_dies_with_its_gauges_frozen_is_gone_uncovered_and_incomplete(
    tmp_path: Path, where: Mapping[StreamLabels, str]
) -> None:
    """The task goes on to show what it last knew of it; the same metrics of the other stream are fresh."""
    dead = {
        **_well(),
        "stream_up": _step(1, 0),
        "daemon_up": _step(1, 0),
        f'covered_until_timestamp_seconds{{shard="{SHARD}"}}': _frozen(ago=120),
        "complete_until_timestamp_seconds": _frozen(ago=300),
    }
    series = _series(SICK, dead, where[SICK]) | _series(FINE, _well(), where[FINE])
    [alarms] = _firing(tmp_path, series, BREAKS + 95)
    assert [alarm["alertname"] for alarm in alarms] == [
        "MinutebookGone",
        "MinutebookIncomplete",
        "MinutebookUncovered",
    ]
    assert {(alarm["application"], alarm["stream"]) for alarm in alarms} == {SICK}


def test_a_stream_is_not_gone_while_another_task_reads_it(tmp_path: Path) -> None:
    """Two tasks read both streams. Each lacks one of them, and one shard moves to the other task."""
    first = _series(SICK, {**_well(), "stream_up": _step(1, 0)}, "10.0.0.1:9464") | _series(
        FINE, _well(), "10.0.0.1:9464"
    )
    second = _series(SICK, _well(), "10.0.0.2:9464") | _series(
        FINE, {**_well(), "stream_up": _step(1, 0)}, "10.0.0.2:9464"
    )
    assert _firing(tmp_path, first | second, BREAKS + 30) == [[]]


def test_a_stream_that_comes_back_is_no_longer_gone(tmp_path: Path) -> None:
    """As after a deploy: its new task has another address."""
    begins = {name: f"_x{BREAKS + 19} {values}" for name, values in _well().items() if name == "stream_up"}
    series = _series(SICK, _ended(_well()), "10.0.0.1:9464") | _series(FINE, _well(), "10.0.0.3:9464")
    series |= _series(SICK, begins, "10.0.0.2:9464")
    [gone], back = _firing(tmp_path, series, BREAKS + 15, BREAKS + 25)
    assert (gone["alertname"], back) == ("MinutebookGone", [])


@pytest.mark.parametrize("heard", [0, 10])
def test_where_no_stream_is_heard_of_at_all_somebody_is_told(tmp_path: Path, heard: int) -> None:
    """Never, because nothing is scraped; or not within six hours, which ends the alarm of each stream by itself."""
    series = _series(SICK, {"stream_up": f"1x{heard}" if heard else "_"}, "10.0.0.1:9464")
    assert _firing(tmp_path, series, 400) == [[{"alertname": "MinutebookGone"}]]


def test_each_alarm_says_which_stream_it_is_about() -> None:
    """The labels are in the alarm; a page on a telephone shows its summary."""
    for rule in YAML(typ="safe", pure=True).load(RULES)["groups"][0]["rules"]:
        assert rule["annotations"]["summary"].startswith("{{ $labels.stream }}"), rule["alert"]


def test_the_series_of_these_tests_are_those_of_a_task() -> None:
    """With the same labels: rules that fire on series that no task has would prove nothing."""
    watch = Watch(ManualClock(), labels=SICK)
    watch.note(ProcessorEvent(event="shard_opened", shard=SHARD))
    assert watch.metrics is not None
    real = {
        _selector(sample.name, sample.labels)
        for family in watch.metrics.registry.collect()
        for sample in family.samples
    }
    assert {name.replace(',instance="w"', "") for name in _series(SICK, _well(), "w")} - real == set()


@pytest.mark.parametrize("streams", [(SICK, FINE), (FINE,)], ids=["both", "one"])
def test_each_panel_of_the_dashboard_shows_the_streams_that_are_chosen(
    tmp_path: Path, streams: Sequence[StreamLabels]
) -> None:
    """Over all series of a task, as they are scraped. Grafana shows a broken query as an empty panel."""
    dashboard = json.loads(DASHBOARD.read_text())
    chosen = {each["name"]: each.get("allValue", "") for each in dashboard["templating"]["list"]}
    if len(streams) == 1:
        chosen |= streams[0]._asdict()
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    queries = [re.sub(r"\$(\w+)", lambda name: chosen[name[1]], target["expr"]) for target in targets]
    rows = answers(tmp_path, _scraped(SICK) | _scraped(FINE), queries, since=BREAKS)
    for target, answered in zip(targets, rows, strict=True):
        assert answered, target["expr"]
        if legend := set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))):
            assert any(legend <= row.keys() for row in answered), target["legendFormat"]
            assert {row["stream"] for row in answered} == {labels.stream for labels in streams}, target["expr"]


def _firing(folder: Path, series: Series, *minutes: int) -> list[list[dict[str, str]]]:
    """Return the alarms that fire at these minutes, each with the labels that tell it from others, by their names."""
    known = {"__name__", "alertstate", "severity"}
    return [
        sorted(
            ({name: text for name, text in alarm.items() if name not in known} for alarm in alarms),
            key=lambda alarm: sorted(alarm.items()),
        )
        for alarms in firing(folder, series, minutes)
    ]


def _ended(series: Series) -> dict[str, str]:
    """Let each series end at the trouble, as when its task is gone."""
    return {name: f"{values.replace(f'x{END}', f'x{BREAKS - 1}')} stale" for name, values in series.items()}


def _series(labels: StreamLabels, series: Series, instance: str) -> dict[str, str]:
    """Return the series of a stream as Prometheus has them of a task."""
    found = {}
    for metric, values in series.items():
        name, _, rest = metric.partition("{")
        pairs = dict(pair.split("=", 1) for pair in rest.rstrip("}").split(",") if pair)
        more = {key: text.strip('"') for key, text in pairs.items()}
        found[_selector(f"minutebook_{name}", {**labels._asdict(), **more, "instance": instance})] = values
    return found


def _scraped(labels: StreamLabels) -> dict[str, str]:
    """Return all series of a stream's task as Prometheus has them, each growing by one a minute."""
    watch = Watch(ManualClock(), labels=labels)
    watch.note(ProcessorEvent(event="shard_opened", shard=SHARD))
    assert watch.metrics is not None
    return {
        _selector(sample.name, {**sample.labels, "job": "minutebook", "instance": "10.0.0.1:9464"}): f"1+1x{END}"
        for family in watch.metrics.registry.collect()
        for sample in family.samples
    }


def _selector(name: str, labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{key}="{text}"' for key, text in sorted(labels.items()))
    return f"{name}{{{pairs}}}"
