"""What a team puts on its screens: each metric that is named somewhere exists, and each that exists is explained."""

import json
import re
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from compaction.commands.follow import Gauges
from consumer.child_logs.processor_log import ProcessorEvent
from consumer.monitoring.cloudwatch import COUNTED, GAUGES, LATENCY
from consumer.monitoring.labels import LABEL_NAMES, StreamLabels
from consumer.monitoring.watch import Watch
from minutebook.settings.names import OUR_PROPERTIES
from tests.fakes.clock import ManualClock

CHECKOUT: Final = Path(__file__).resolve().parents[3]
GRAFANA: Final = CHECKOUT / "deploy" / "grafana"
WATCHING: Final = (
    (CHECKOUT / "docs" / "operations.md").read_text().partition("\n## Watching\n")[2].partition("\n## ")[0]
)
_NAME: Final = re.compile(r"\bminutebook_[a-z0-9_]+")
_GROUPS: Final = re.compile(r"by \(([a-z_, ]+)\)")
_OF_PROMETHEUS: Final = {"job", "instance"}
"""Labels of a target, which it gives to all that it reads there."""


def _samples() -> dict[str, set[str]]:
    """Return the labels of every sample that a task with a shard shows, by its name."""
    watch = Watch(ManualClock(), labels=StreamLabels("archive", "flights"))
    watch.note(ProcessorEvent(event="shard_opened", shard="s"))
    assert watch.metrics is not None
    found: dict[str, set[str]] = {}
    for family in watch.metrics.registry.collect():
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def _followed() -> dict[str, set[str]]:
    """Return the labels of each metric of `minutebook follow`."""
    gauges = Gauges(ManualClock(), 60_000, {"application": "a", "table": "t"})
    return {sample.name: {*sample.labels} for family in gauges.registry.collect() for sample in family.samples}


def _expressions() -> list[str]:
    dashboard = json.loads((GRAFANA / "minutebook.json").read_text())
    return [*(target["expr"] for panel in dashboard["panels"] for target in panel["targets"]), *_rules()]


def _rules() -> list[str]:
    groups = YAML(typ="safe", pure=True).load(GRAFANA / "alarms.yaml")["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def test_screens_and_alarms_name_metrics_that_exist() -> None:
    """A panel of a metric that was renamed is empty, and an alarm on it never rings."""
    samples = _samples() | _followed()
    expressions = _expressions()
    assert len(expressions) > 25
    named = {name for expression in expressions for name in _NAME.findall(expression)}
    assert named - samples.keys() == set()
    variables = re.findall(r"label_values\((\w+)", (GRAFANA / "minutebook.json").read_text())
    assert variables
    assert {*variables} <= samples.keys()


def test_screens_and_alarms_group_by_labels_that_exist() -> None:
    """Of the very metric: `by (shard)` of one without it would be a single line without a name."""
    samples = _samples() | _followed()
    for expression in _expressions():
        for labels in _GROUPS.findall(expression):
            known = set.union(*(samples[name] for name in _NAME.findall(expression)))
            assert set(labels.split(", ")) <= known | _OF_PROMETHEUS, expression


def test_every_metric_says_of_which_application_and_stream_it_is() -> None:
    """Shards of two streams have the same ids, and one task may read both."""
    assert {name for name, labels in _samples().items() if not labels >= {*LABEL_NAMES}} == set()


def test_no_alarm_takes_two_streams_together() -> None:
    """One that is fine would hide one that is not."""
    for expression in _rules():
        groups = _GROUPS.findall(expression)
        assert groups, expression
        assert len(groups) == len(re.findall(r"\b(?:max|min|sum|count|avg)\b", expression)), expression
        for labels in groups:
            assert set(labels.split(", ")) >= {*LABEL_NAMES} or labels == "application, table", expression


def test_the_screen_is_of_the_streams_that_were_chosen_and_draws_each_by_itself() -> None:
    """Every query has the variables; every curve is one stream's, or one shard's of it."""
    dashboard = json.loads((GRAFANA / "minutebook.json").read_text())
    chosen = [row["name"] for row in dashboard["templating"]["list"] if row["type"] == "query"]
    assert chosen == ["job", *LABEL_NAMES]
    selector = ", ".join(f'{name}=~"${name}"' for name in chosen)
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            query = target["expr"]
            assert query.count(f"{{{selector}}}") == len(_NAME.findall(query)), query
            if panel["type"] == "timeseries":
                assert _GROUPS.findall(query), query
                assert all({*labels.split(", ")} >= {*LABEL_NAMES} for labels in _GROUPS.findall(query)), query
                assert "{{stream}}" in target["legendFormat"], query


def test_every_metric_is_on_the_screen() -> None:
    """What nobody looks at need not be counted."""
    shown = {name for expression in _expressions() for name in _NAME.findall(expression)}
    bare = {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in _samples()} - bare == set()


def test_panels_do_not_overlap() -> None:
    """Each has its place, of 24 columns."""
    panels: list[dict[str, Any]] = json.loads((GRAFANA / "minutebook.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_the_chapter_on_watching_explains_every_metric() -> None:
    """Of Prometheus with the labels that not all have, of CloudWatch with its unit; and no other."""
    rows = re.findall(r"^\| `(minutebook_\w+)` \| [^|]+ \| ([^|]*)\|", WATCHING, re.MULTILINE)
    told = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    real: dict[str, set[str]] = {}
    for name, labels in _samples().items():
        real.setdefault(re.sub(r"_(bucket|count|sum)$", "", name), set()).update(labels - {"le", *LABEL_NAMES})
    assert told == real
    emf = dict(re.findall(r"^\| `([A-Z]\w+)` \| (\w+) \|", WATCHING, re.MULTILINE))
    assert emf == {**GAUGES, **{counted.name: counted.unit for counted in COUNTED}, LATENCY: "Seconds"}


def test_the_chapter_on_watching_names_settings_that_exist() -> None:
    """And all of those that are about it."""
    named = set(re.findall(r"minutebook\.([a-zA-Z]+)", WATCHING))
    assert named <= OUR_PROPERTIES.keys()
    assert named >= {"metricsPort", "metricsHost", "metrics", "metricsIntervalSeconds", "maxUncommittedSeconds"}
