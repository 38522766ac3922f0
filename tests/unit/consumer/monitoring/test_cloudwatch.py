"""Lines for CloudWatch: valid by its own schema, counters as what was added, gauges as the worst of all shards."""

import io
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from consumer.child_logs.kcl_log import KclEvent, Skipped
from consumer.child_logs.processor_log import ProcessorEvent
from consumer.monitoring.cloudwatch import COUNTED, GAUGES, LATENCY, OF_STREAM, EmfLines
from consumer.monitoring.health_file import HealthFile
from consumer.monitoring.labels import StreamLabels
from consumer.monitoring.outputs import HealthWriter, MetricLines
from consumer.monitoring.watch import Watch
from tests.fakes.clock import START_MS, ManualClock

_UNITS = "Seconds|Microseconds|Milliseconds|Bytes|Kilobytes|Megabytes|Gigabytes|Percent|Count|Count/Second|None"
_METRIC = {
    "type": "object",
    "required": ["Name"],
    "properties": {
        "Name": {"type": "string", "minLength": 1, "maxLength": 1024},
        "Unit": {"type": "string", "pattern": f"^({_UNITS})$"},
        "StorageResolution": {"enum": [1, 60]},
    },
    "additionalProperties": False,
}
_DIMENSIONS = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "array", "maxItems": 30, "items": {"type": "string", "minLength": 1, "maxLength": 250}},
}
_DIRECTIVE = {
    "type": "object",
    "required": ["Namespace", "Dimensions", "Metrics"],
    "properties": {
        "Namespace": {"type": "string", "minLength": 1, "maxLength": 1024},
        "Dimensions": _DIMENSIONS,
        "Metrics": {"type": "array", "maxItems": 100, "items": _METRIC},
    },
}
EMF_SCHEMA = {
    "type": "object",
    "required": ["_aws"],
    "properties": {
        "_aws": {
            "type": "object",
            "required": ["Timestamp", "CloudWatchMetrics"],
            "properties": {
                "Timestamp": {"type": "integer"},
                "CloudWatchMetrics": {"type": "array", "items": _DIRECTIVE},
            },
        }
    },
}
"""As the CloudWatch user guide gives it, "Embedded metric format schema"."""


LABELS: Final = StreamLabels("app", "flights")


class Scene:
    """A task that writes a line each minute."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.watch = Watch(self.clock, labels=LABELS)
        self.sink = io.BytesIO()
        lines = MetricLines(EmfLines(LABELS, "w1"), self.sink, 60)
        self.writer = HealthWriter(self.watch, [HealthFile(folder / "w1.health", self.clock)], self.clock, lines)
        self.watch.daemon_started(polls_leases=False)

    def say(self, event: str, shard: str, **fields: Any) -> None:  # noqa: ANN401 - any field
        """Say a processor's line."""
        self.watch.note(ProcessorEvent(event=event, shard=shard, **fields))

    def next(self) -> dict[str, Any]:
        """Return the line of the next minute."""
        begin = self.sink.tell()
        self.clock.advance(60)
        self.writer.step()
        (line,) = self.sink.getvalue()[begin:].splitlines()
        entry = json.loads(line)
        assert isinstance(entry, dict)
        return entry


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return a task with two shards, one of which has something to say."""
    found = Scene(tmp_path)
    for shard in ("s-1", "s-2"):
        found.say("shard_opened", shard)
    found.say("progress", "s-1", oldest_ms=START_MS - 5000, buffer_bytes=100)
    found.say("progress", "s-2", oldest_ms=START_MS, buffer_bytes=11, behind_ms=3000)
    return found


def test_a_line_is_valid_and_complete(scene: Scene) -> None:
    """By CloudWatch's schema; each metric of the directive is in the line as a number, each dimension as a text."""
    scene.say("segment_committed", "s-2", records=3, commit_seconds=0.2, covered_until_ms=START_MS)
    scene.watch.note_complete(START_MS - 240_000)
    line = scene.next()
    Draft202012Validator(EMF_SCHEMA).validate(line)
    directive, of_stream = line["_aws"]["CloudWatchMetrics"]
    names = [metric["Name"] for metric in directive["Metrics"]]
    assert sorted(names) == sorted([*GAUGES, *(counted.name for counted in COUNTED), LATENCY])
    for name in names:
        values = line[name] if isinstance(line[name], list) else [line[name]]
        assert all(isinstance(value, int | float) for value in values)
        assert 0 < len(values) <= 100
    assert directive["Dimensions"] == [["Application"]]
    assert of_stream["Dimensions"] == [["Application", "Stream"]]
    assert (directive["Namespace"], of_stream["Namespace"]) == ("Minutebook", "Minutebook")
    assert (line["Application"], line["Stream"], line["Worker"]) == ("app", "flights", "w1")
    assert line["_aws"]["Timestamp"] == START_MS + 60_000
    assert (line["event"], line["level"], line["timestamp"]) == ("metrics", "info", "2026-11-21T10:17:00.000Z")


def test_the_age_of_the_newest_boundary_is_left_out_until_one_is_known(scene: Scene) -> None:
    """A 0 would be the best value of all."""
    assert "CompleteAgeSeconds" not in scene.next()
    scene.watch.note_complete(START_MS)
    assert scene.next()["CompleteAgeSeconds"] == 120


def test_a_stream_has_four_metrics_by_itself(scene: Scene) -> None:
    """Those that say that it is not archived: each combination of dimensions is charged for, by the stream."""
    scene.say("segment_committed", "s-2", records=3, commit_seconds=0.2, covered_until_ms=START_MS)
    line = scene.next()
    units = {metric["Name"]: metric["Unit"] for metric in line["_aws"]["CloudWatchMetrics"][1]["Metrics"]}
    assert units == {
        "Healthy": "Count",
        "BehindSeconds": "Seconds",
        "CoveredAgeSeconds": "Seconds",
        "ShardsWithoutReader": "Count",
    }


def test_gauges_are_the_worst_of_all_shards(scene: Scene) -> None:
    """And the line names each shard's own age."""
    scene.watch.note_readers(frozenset({"s-3"}), None)
    line = scene.next()
    assert (line["BehindSeconds"], line["StreamBehindSeconds"], line["BufferBytes"]) == (65, 3, 111)
    assert (line["Shards"], line["ShardsWithoutReader"], line["DaemonUp"], line["Healthy"]) == (2, 1, 1, 0)
    assert (line["shards"], line["unread"]) == ({"s-1": 65, "s-2": 60}, ["s-3"])


def test_what_nobody_knows_is_no_metric(scene: Scene) -> None:
    """An age of fifty years would be the worst of all."""
    line = scene.next()
    assert not {LATENCY, "CoveredAgeSeconds", "LastCommitAgeSeconds"} & line.keys()
    told = [metric["Name"] for metric in line["_aws"]["CloudWatchMetrics"][1]["Metrics"]]
    assert told == [name for name in OF_STREAM if name != "CoveredAgeSeconds"]
    scene.say("segment_committed", "s-1", commit_seconds=1.5, covered_until_ms=START_MS)
    line = scene.next()
    assert (line["CoveredAgeSeconds"], line["LastCommitAgeSeconds"], line[LATENCY]) == (120, 60, [1.5])


def test_counters_are_what_was_added_since_the_last_line(scene: Scene) -> None:
    """Over all shards; the next line begins at 0."""
    for shard in ("s-1", "s-2"):
        scene.say("segment_committed", shard, records=3, payload_bytes=30, body_bytes=20, attempts=2)
    scene.say("slot_lost", "s-1")
    scene.say("id_conflict", "s-1", records=4)
    scene.say("checkpoint_written", "s-1")
    scene.say("processor_failed", "", exit_code=5)
    scene.watch.skipped(KclEvent(Skipped.BATCH, "", shard="s-1"))
    scene.watch.killed()
    scene.watch.restarted()
    line = scene.next()
    assert {counted.name: line[counted.name] for counted in COUNTED} == {
        "Segments": 2,
        "Records": 6,
        "PayloadBytes": 60,
        "BodyBytes": 40,
        "PutAttempts": 4,
        "SlotsLost": 1,
        "IdConflicts": 4,
        "Checkpoints": 1,
        "KclSkipped": 1,
        "ProcessorFailures": 1,
        "ProcessorsKilled": 1,
        "DaemonRestarts": 1,
    }
    after = scene.next()
    assert {after[counted.name] for counted in COUNTED} == {0}


def test_there_is_one_line_an_interval_and_one_at_the_end(scene: Scene) -> None:
    """What was counted last is not lost with the task."""
    with scene.writer:
        scene.clock.advance(59)
        scene.writer.step()
        assert scene.sink.getvalue() == b""
        scene.say("slot_lost", "s-1")
    (line,) = scene.sink.getvalue().splitlines()
    assert json.loads(line)["SlotsLost"] == 1


def test_a_stdout_that_nobody_reads_ends_the_lines_alone(scene: Scene) -> None:
    """Watching must not end what it watches."""
    scene.sink.close()
    with scene.writer:
        pass


def test_names_are_those_of_prometheus() -> None:
    """Each counter's source exists: `payload_bytes` is PayloadBytes."""
    for counted in COUNTED:
        name = counted.source.removeprefix("minutebook_").title().replace("_", "")
        assert counted.name == name
        assert re.fullmatch(r"[A-Z][A-Za-z]+", counted.name)
