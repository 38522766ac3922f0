"""Aggregates that no KPL wrote, among good records: nothing good is lost, and the shard goes on.

KCL takes aggregates apart in Java, out of our sight: docs/decisions/0015-poison-aggregates.md.
"""

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from demo.readback import Verdict
from minutebook.format.aggregate import DeliveredAggregate, Fault
from tests.e2e.harness import Application
from tests.fakes.aggregates import BOMB, field, poison_aggregate, random_aggregate, record, seal
from tests.witness.events import EventLog
from tests.witness.readback import assert_exactly_once

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

MALFORMED = 1_000
_LARGE = seal(field(1, b"k" * 20_000) + b"".join(record(b"%d" % number) for number in range(1_000)))
"""Below our bound, and more than one slice."""
_ROUNDS = 20


@dataclass(kw_only=True)
class Story:
    """What was seen."""

    aggregates: list[DeliveredAggregate]
    events: EventLog
    exit_code: int
    verdict: Verdict


@pytest.fixture(scope="module")
def story(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Put it all before the daemon starts, so that good and bad records share every batch; then some more.

    The daemon gets the memory that a small container gives it.
    """
    app = Application(embedded_aws, tmp_path_factory.mktemp("poison"), flushSeconds=1, checkpointIntervalSeconds=1)
    (shard,) = app.open_shards()
    rng = random.Random(15)
    aggregates: list[DeliveredAggregate] = []
    for _ in range(_ROUNDS):
        app.producer.put_numbered(50)
        for draw in (lambda: poison_aggregate(rng, "poison"), lambda: random_aggregate(rng)):
            batch = [("outer", draw()) for _ in range(MALFORMED // _ROUNDS // 2)]
            aggregates += app.producer.put_undeclared(batch)
    app.producer.put_undeclared([("outer", BOMB), ("outer", _LARGE)])
    app.producer.put_numbered(50)
    app.seed_leases({shard: "w1"})
    with app.consume(environment={"JAVA_TOOL_OPTIONS": "-Xmx512m"}) as worker:
        worker.events.wait("shard_opened", shard=shard)
        for _ in range(2):
            position = str(app.producer.last()[shard])
            worker.events.wait("checkpoint_written", shard=shard, position=position)
            app.producer.put_numbered(50)
        position = str(app.producer.last()[shard])
        worker.events.wait("checkpoint_written", shard=shard, position=position)
        worker.terminate()
        code = worker.wait()
    return Story(
        aggregates=aggregates,
        events=worker.events,
        exit_code=code,
        verdict=app.verdict(),
    )


def test_no_good_record_is_lost(story: Story) -> None:
    """Every plain record is archived once, and of every aggregate what can be delivered."""
    assert_exactly_once(story.verdict)


def test_the_daemon_goes_on(story: Story) -> None:
    """Without a restart: a poison aggregate costs nobody else anything."""
    assert (story.exit_code, len(story.events.all("daemon_started"))) == (0, 1)


def test_each_rest_that_kcl_drops_is_told(story: Story) -> None:
    """Once, with the record that holds it."""
    malformed = [delivery for delivery in story.aggregates if delivery.fault is Fault.MALFORMED]
    told = story.events.all("kcl_skipped", skipped="aggregate_rest", level="error")
    assert len({event["sequence_number"] for event in told}) == len(told) == len(malformed) > MALFORMED // 2
    assert story.events.all("kcl_skipped", skipped="batch") == []
