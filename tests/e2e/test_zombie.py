"""A zombie: a worker frozen for longer than its lease lives, while another one takes its shard over.

    zombie  |--commits, holds records--|SIGSTOP ...................... |SIGCONT: sends what it held --| silent
    other   |--its own shard-------------------|takes over, commits the contested slot----------------|

The processor is frozen before its daemon, with one message in its pipe: when it wakes it acts on that message
before anybody can tell it that the lease is gone. Every step waits for what it caused.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from demo.processes import Frozen
from demo.readback import Verdict
from minutebook.format.position import Position
from tests.e2e.harness import Application
from tests.e2e.worker import Worker, unread_bytes
from tests.witness.events import Event
from tests.witness.readback import assert_exactly_once
from tests.witness.waiting import wait_for_an_early_second, wait_until

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

_SHARDS = ("shardId-000000000000", "shardId-000000000001")
_FLUSH_SECONDS = 8
"""Time enough to freeze the zombie, and shorter than the fail-over: what it held is overdue when it wakes."""


@dataclass(kw_only=True)
class Story:
    """What was seen."""

    held: Position
    """The first record that the zombie held when it froze."""
    slot_lost: Event
    commits_before_silence: list[Event]
    silenced: Event
    exit_codes: list[int]
    verdict: Verdict


@pytest.fixture(scope="module")
def story(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Play it."""
    folder = tmp_path_factory.mktemp("zombie")
    app = Application(
        embedded_aws,
        folder,
        shards=2,
        maxSegmentBytes=900,
        checkpointIntervalSeconds=0,
        flushSeconds=_FLUSH_SECONDS,
    )
    app.seed_leases({})
    with app.daemon("a") as a, app.daemon("b") as b:
        workers = {"a": a, "b": b}
        for worker in workers.values():
            wait_until(worker.is_initialised, "the daemon is initialised")
        wait_until(lambda: app.leader() is not None, "a leader is elected")
        # A dead leader's lock lasts two minutes: the zombie is the other one.
        successor, name = sorted(workers, key=lambda worker: worker != app.leader())
        zombie, other = workers[name], workers[successor]
        shard = _SHARDS[1]
        _settle(app, workers, dict(zip(_SHARDS, (successor, name), strict=True)))
        held, woke = _freeze_and_take_over(app, shard, zombie, other)
        slot_lost = zombie.events.wait("slot_lost", since=woke, shard=shard)
        silenced = zombie.events.wait("lease_lost", since=woke, shard=shard)
        app.producer.put_numbered(20, size=100)
        for shard_id, last in app.producer.last().items():
            _await_checkpoint(app, shard_id, str(last))
        for worker in workers.values():
            worker.terminate()
        codes = [worker.wait() for worker in workers.values()]
        # Later ones would be those of a new processor: KCL may give the worker, now healthy, a lease again.
        commits = [
            event
            for event in zombie.events.all("segment_committed", since=woke, shard=shard)
            if event["timestamp"] <= silenced["timestamp"]
        ]
    return Story(
        held=held,
        slot_lost=slot_lost,
        commits_before_silence=commits,
        silenced=silenced,
        exit_codes=codes,
        verdict=app.verdict(),
    )


def _settle(app: Application, workers: dict[str, Worker], owners: dict[str, str]) -> None:
    """Give each shard the owner that the story wants: KCL gives all of an idle stream to one worker."""
    for shard, name in owners.items():
        wait_until(lambda shard=shard: app.leases()[shard].owner is not None, f"{shard} has an owner")  # type: ignore[misc]
        if app.leases()[shard].owner != name:
            app.assign_lease(shard, name)
        workers[name].events.wait("shard_opened", shard=shard)
    for worker in workers.values():
        wait_until(lambda worker=worker: len(worker.processors()) == 1, "one processor each")  # type: ignore[misc]


def _freeze_and_take_over(app: Application, shard: str, zombie: Worker, other: Worker) -> tuple[Position, int]:
    """Return the first position of the contested slot, and the end of the zombie's log when it woke."""
    key = app.key_of(shard)
    wait_for_an_early_second()
    places = app.producer.put_numbered(10, key=key, size=100)
    # One segment is full; the rest of the batch is held.
    cut = zombie.events.wait("segment_committed", shard=shard, reason="size")
    # Its checkpoint must be over: otherwise the pipe may hold the answer to that one.
    zombie.events.wait("checkpoint_written", shard=shard, position=cut["last"])
    (processor,) = zombie.processors()
    (daemon,) = zombie.daemons()
    with Frozen([processor.pid]) as hands:
        held = next(place.position for place in places if place.position > Position.parse(cut["last"]))
        wait_until(lambda: unread_bytes(processor) > 0, "the daemon has written the next call")
        with Frozen([daemon.pid]) as head:
            app.producer.put_numbered(10, key=key, size=100)
            other.events.wait("shard_opened", shard=shard)
            other.events.wait("segment_committed", shard=shard, first=str(held))
            woke = zombie.events.mark()
            hands.thaw()
            wait_until(lambda: unread_bytes(processor) == 0, "the zombie has read the call")
            head.thaw()
    return held, woke


def _await_checkpoint(app: Application, shard: str, position: str) -> None:
    wait_until(lambda: app.leases()[shard].checkpoint == position, f"{shard} is checkpointed at {position}")


def test_every_record_is_archived_once(story: Story) -> None:
    """Nothing lost, nothing twice, whole chains, though two writers sent the same records."""
    assert_exactly_once(story.verdict)


def test_the_late_put_loses_the_slot(story: Story) -> None:
    """The zombie did send what it held, and S3 refused it: this is no test without that."""
    assert story.slot_lost["first"] == str(story.held)


def test_the_zombie_commits_nothing_after_waking(story: Story) -> None:
    """Not at the contested slot and not behind it."""
    assert story.commits_before_silence == []


def test_the_zombie_falls_silent(story: Story) -> None:
    """It learns that its lease is gone, and drops what it holds."""
    assert story.silenced["reason"]


def test_both_workers_stop_in_order(story: Story) -> None:
    """143 is Java's code after SIGTERM: the zombie's process is healthy, it lost a lease and no more."""
    assert story.exit_codes == [143, 143]
