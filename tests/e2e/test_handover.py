"""Another KCL application goes on behind a cut of the archive: the real daemon gives it exactly what the cut leaves.

s0 |--records--split| s3 |--records----|----records---- ...
                    | s4 |(no record)--|----records---- ...
s1 |--records--------------------------|--merge|
s2 |--an aggregate, records------------|--records--merge| s5 |--records-- ...
                                       T
The cut is made later: s1 had its last record before T and has ended since, s2 is divided, s5 lies behind it.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from consumer.daemon.prepared.classes import find_classes
from consumer.daemon.prepared.jvm_flags import jvm_flags
from consumer.daemon.process import daemon_command
from consumer.preflight.java import find_jars, find_java
from demo.ledger import RecordRef
from minutebook.clock import SystemClock
from minutebook.cut import Cut, read_cut
from minutebook.format.day import day_of_ms
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position
from tests.e2e import recording_processor
from tests.e2e.commands import run
from tests.e2e.harness import LOGBACK, QUICK, Application
from tests.e2e.worker import Worker
from tests.searching import IS_DEEP
from tests.witness.readback import assert_exactly_once
from tests.witness.waiting import wait_until

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

_CLOCK = SystemClock()
_POSITIONS = ("LATEST", "AT_TIMESTAMP") if IS_DEEP else ("LATEST",)


class Story(NamedTuple):
    """An archive that a worker still writes, its cut, and the shards of the picture."""

    app: Application
    folder: Path
    file: Path
    cut: Cut
    shards: list[str]
    at_ms: int


@pytest.fixture(scope="module")
def story(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Archive records before and after a time, prove it, and cut there."""
    folder = tmp_path_factory.mktemp("handover")
    app = Application(embedded_aws, folder, shards=3, flushSeconds=1, checkpointIntervalSeconds=0)
    s0, s1, s2 = app.open_shards()
    app.seed_leases(dict.fromkeys((s0, s1, s2), "w1"))
    with app.consume() as worker:
        app.producer.put_numbered(40)
        app.producer.put_numbered_aggregate(9, key=app.key_of(s2))
        s3, s4 = app.split(s0)
        app.producer.put_numbered(10, key=app.key_of(s3))
        at_ms = (_CLOCK.now_ms() // MINUTE_MS + 1) * MINUTE_MS
        wait_until(lambda: _CLOCK.now_ms() > at_ms, "the minute is over")
        for shard in (s2, s3, s4):
            app.producer.put_numbered(10, key=app.key_of(shard))
        s5 = app.merge(s1, s2)
        app.producer.put_numbered(10, key=app.key_of(s5))
        worker.events.wait("segment_committed", shard=s5)
        for shard in (s1, s2):
            worker.events.wait("shard_end_proven", shard=shard)
        wait_until(lambda: _CLOCK.now_ms() > at_ms + 62_000, "what arrived before the time can be proven")
        day = str(day_of_ms(at_ms))
        proven = run(app, "audit", "--date", day, "--so-far", iso_time(at_ms), "--level", "stream")
        assert proven.code == 0, proven.text
        file = folder / "cut.json"
        made = run(app, "cut", "--at", iso_time(at_ms), "--out", str(file))
        assert made.code == 0, made.text
        yield Story(app, folder, file, read_cut(file), [s0, s1, s2, s3, s4, s5], at_ms)


def _recorder(story: Story, name: str, position: str) -> Worker:
    """Start the real daemon of the other application."""
    script = [sys.executable, recording_processor.__file__, str(story.folder / f"{name}.records")]
    begins = (
        {"initialPositionInStream": "LATEST"}
        if position == "LATEST"
        else {"initialPositionInStreamExtended": str(story.at_ms // 1000)}
    )
    values = {**QUICK, **story.app.endpoints(), "applicationName": name, "workerId": "other", **begins}
    path = story.folder / f"{name}.properties"
    path.write_text(
        "".join(f"{key} = {value}\n" for key, value in (*values.items(), ("executableName", " ".join(script))))
    )
    java = find_java(os.environ).program
    environment = story.app.environment()
    command = daemon_command(java, jvm_flags(environment), find_classes(java, find_jars()), path, LOGBACK)
    return Worker(command, environment, story.folder / f"{name}.log")


def _records(path: Path) -> list[RecordRef]:
    lines = path.read_text().splitlines() if path.exists() else []
    parts = (line.split() for line in lines)
    return [RecordRef(shard, Position(int(sequence), int(sub))) for shard, sequence, sub in parts]


def _before(story: Story) -> list[RecordRef]:
    """Return what `cat --before` shows."""
    shown = run(story.app, "cat", "--before", str(story.file), "--format", "json")
    assert shown.code == 0, shown.text
    rows = map(json.loads, shown.text.splitlines())
    return [
        RecordRef(row["shard_id"], Position(int(row["sequence_number"]), row["sub_sequence_number"])) for row in rows
    ]


def test_the_cut_divides_what_the_picture_says(story: Story) -> None:
    """Ended before it, ended behind it with all records before it, divided, not begun."""
    s0, s1, s2, s3, s4, s5 = story.shards
    assert {name: story.cut.shards.get(name, "NONE") for name in (s0, s1, s4, s5)} == {
        s0: "END",
        s1: "END",
        s4: "NONE",
        s5: "NONE",
    }
    assert set(story.cut.positions) == {s2, s3}


@pytest.mark.parametrize("position", _POSITIONS)
def test_each_record_is_on_exactly_one_side(story: Story, position: str) -> None:
    """Wherever the other application would begin by itself: the rows say where it goes on."""
    app, name = story.app, f"{story.app.name}-{position.lower()}"
    words = ("handover", "--cut", str(story.file), "--application", name)
    planned = run(app, *words)
    assert (planned.code, "nothing was changed" in planned.text) == (0, True), planned.text
    written = run(app, *words, "--apply")
    assert written.code == 0, written.text
    before = _before(story)
    with _recorder(story, name, position):
        for shard in app.open_shards():
            app.producer.put_numbered(5, key=app.key_of(shard))
        behind = set(app.producer.ledger) - set(before)
        path = story.folder / f"{name}.records"
        wait_until(lambda: len(_records(path)) >= len(behind), "the other application has read the rest")
    delivered = _records(path)
    assert sorted([*before, *delivered]) == sorted(app.producer.ledger)
    again = run(app, *words, "--apply")
    assert (again.code, "rows already" in again.text) == (6, True), again.text


def test_the_archive_holds_each_record_once(story: Story) -> None:
    """The other application took nothing of it away."""
    wait_until(lambda: not story.app.verdict().lost, "the worker has archived what came last")
    assert_exactly_once(story.app.verdict())
