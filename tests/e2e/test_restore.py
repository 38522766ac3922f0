"""The lease tables are lost, `minutebook restore` rebuilds the rows, and the real daemon goes on from them.

s0 |--records--split| s2 |--records----- stop, tables deleted, 20 records put, restore, start
                    | s3 |(no record)--- stop ..........
s1 |--records, an aggregate------------- stop ..........
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from consumer.status.report import StatusReport
from demo.readback import Verdict
from minutebook.apply_option import UNCHANGED
from minutebook.clock import SystemClock
from tests.e2e.commands import Answer, counting_worker, restore, settled_status, status
from tests.e2e.harness import Application
from tests.e2e.leases import LeaseRow
from tests.witness.readback import assert_exactly_once

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

_CLOCK = SystemClock()
_LEADER_LOCK_SECONDS = 120
"""How long KCL waits for a dead leader. The tests print the time from a worker's start to its first commit."""


@dataclass(kw_only=True)
class Story:
    """What was seen."""

    app: Application
    folder: Path
    shards: tuple[str, str, str, str]
    """s0 to s3 of the picture."""
    alive: StatusReport
    """While the worker runs, everything archived."""
    lost: StatusReport
    """Without tables, 20 records behind."""
    while_alive: Answer
    dry: Answer
    after_dry: list[str]
    """Tables after the plan."""
    restored: Answer
    again: Answer
    rows: dict[str, LeaseRow]
    rows_again: dict[str, LeaseRow]
    tails: dict[str, str]
    """Shard -> last position archived before the tables were lost."""
    objects: dict[str, str]
    opened: dict[str, str]
    """Shard -> where the new processor went on."""
    seconds_to_commit: float
    delivered: int
    objects_after: dict[str, str]
    verdict: Verdict


@pytest.fixture(scope="module")
def story(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Play it."""
    folder = tmp_path_factory.mktemp("restore")
    app = Application(embedded_aws, folder, shards=2, flushSeconds=1, checkpointIntervalSeconds=0, compression="zstd")
    s0, s1 = app.open_shards()
    app.seed_leases(dict.fromkeys((s0, s1), "w1"))
    with app.consume() as worker:
        app.producer.put_numbered(40)
        app.producer.put_numbered_aggregate(12, key=app.key_of(s1))
        for shard in (s0, s1):
            worker.events.wait("shard_opened", shard=shard)
        s2, s3 = app.split(s0)
        app.producer.put_numbered(20, key=app.key_of(s2))
        worker.events.wait("shard_opened", shard=s3)
        for shard in (s1, s2):
            position = str(app.producer.last()[shard])
            worker.events.wait("checkpoint_written", shard=shard, position=position)
        alive = settled_status(app)
        while_alive = restore(app, "--apply")
        worker.terminate()
        assert worker.wait() == 0
    tails = {shard: str(position) for shard, position in app.producer.last().items()}
    objects = app.objects()
    app.drop_lease_tables()
    for shard in (s1, s2):
        app.producer.put_numbered(10, key=app.key_of(shard))
    lost = status(app)
    dry = restore(app)
    names = embedded_aws.dynamodb_client().list_tables()["TableNames"]
    after_dry = [name for name in names if name.startswith(app.name)]
    restored, rows = restore(app, "--apply"), app.leases()
    again, rows_again = restore(app, "--apply"), app.leases()
    counts = folder / "counts"
    with counting_worker(app, "w2", folder, counts) as worker:
        begun = _CLOCK.monotonic()
        worker.events.wait("segment_committed")
        seconds = _CLOCK.monotonic() - begun
        opened = {shard: worker.events.wait("shard_opened", shard=shard)["after"] for shard in (s1, s2, s3)}
        for shard in (s1, s2):
            position = str(app.producer.last()[shard])
            worker.events.wait("checkpoint_written", shard=shard, position=position)
    # Leaving the block is a SIGKILL: rows keep their owner, and the leader's row stays.
    return Story(
        app=app,
        folder=folder,
        shards=(s0, s1, s2, s3),
        alive=alive,
        lost=lost,
        while_alive=while_alive,
        dry=dry,
        after_dry=after_dry,
        restored=restored,
        again=again,
        rows=rows,
        rows_again=rows_again,
        tails=tails,
        objects=objects,
        opened=opened,
        seconds_to_commit=seconds,
        delivered=sum(int(line) for line in counts.read_text().split()),
        objects_after=app.objects(),
        verdict=app.verdict(),
    )


@dataclass(kw_only=True)
class Mended:
    """The second life: the tables are there, with a dead leader, dead owners and one checkpoint that is wrong."""

    restored: Answer
    rows: dict[str, LeaseRow]
    expected: dict[str, str]
    seconds_to_commit: float
    delivered: int
    verdict: Verdict


@pytest.fixture(scope="module")
def mended(embedded_aws: "EmbeddedAws", story: Story) -> Mended:
    """Spoil a row, restore, and go on."""
    app = story.app
    _, s1, s2, s3 = story.shards
    expected = {shard: str(app.producer.last()[shard]) for shard in (s1, s2)} | {s3: "TRIM_HORIZON"}
    embedded_aws.dynamodb_client().update_item(
        TableName=app.name,
        Key={"leaseKey": {"S": s1}},
        UpdateExpression="SET checkpoint = :start, checkpointSubSequenceNumber = :zero",
        ExpressionAttributeValues={":start": {"S": "TRIM_HORIZON"}, ":zero": {"N": "0"}},
    )
    app.producer.put_numbered(10, key=app.key_of(s1))
    restored, rows = restore(app, "--apply"), app.leases()
    counts = story.folder / "counts-3"
    with counting_worker(app, "w3", story.folder, counts) as worker:
        begun = _CLOCK.monotonic()
        worker.events.wait("segment_committed")
        seconds = _CLOCK.monotonic() - begun
        position = str(app.producer.last()[s1])
        worker.events.wait("checkpoint_written", shard=s1, position=position)
    return Mended(
        restored=restored,
        rows=rows,
        expected=expected,
        seconds_to_commit=seconds,
        delivered=sum(int(line) for line in counts.read_text().split()),
        verdict=app.verdict(),
    )


def test_wrong_rows_are_mended(story: Story, mended: Mended) -> None:
    """The spoilt checkpoint is at the archive's end again, and no row has an owner."""
    assert mended.restored.code == 0, mended.restored.text
    found = {shard: row for shard, row in mended.rows.items() if shard in story.shards[1:]}
    assert {shard: (row.checkpoint, row.owner) for shard, row in found.items()} == {
        shard: (checkpoint, None) for shard, checkpoint in mended.expected.items()
    }


def test_a_dead_leader_does_not_hold_the_start_up(mended: Mended) -> None:
    """KCL would wait two minutes for its lock; the figure is printed."""
    print("seconds to the first commit after a SIGKILL and restore:", round(mended.seconds_to_commit, 1))  # noqa: T201
    assert mended.seconds_to_commit < _LEADER_LOCK_SECONDS


def test_mended_rows_repeat_nothing(mended: Mended) -> None:
    """Only the 10 new records are delivered; everything is archived once."""
    assert mended.delivered == 10
    assert_exactly_once(mended.verdict)


def test_status_shows_a_living_workers_leases(story: Story) -> None:
    """Held, by name, renewed within the failover time; the parent of the split is done."""
    s0, *others = story.shards
    leases = {shard.shard: (shard.lease, shard.owner) for shard in story.alive.shards}
    assert leases == {s0: ("done", leases[s0][1]), **dict.fromkeys(others, ("held", "w1"))}
    assert all((shard.lease_age_seconds or 0) < 10 for shard in story.alive.shards)


def test_status_shows_an_archive_that_is_not_behind(story: Story) -> None:
    """Checkpoints and tails agree, and nothing lies behind them in the stream."""
    for shard in story.alive.shards:
        assert (shard.behind_seconds, shard.gaps, shard.notes) == (0, [], [])
        assert shard.tail == story.tails.get(shard.shard)


def test_status_shows_the_split(story: Story) -> None:
    """Children and parents, open and closed."""
    s0, s1, s2, s3 = story.shards
    family = {shard.shard: (shard.state, shard.parents, shard.children) for shard in story.alive.shards}
    assert family == {
        s0: ("closed", [], [s2, s3]),
        s1: ("open", [], []),
        s2: ("open", [s0], []),
        s3: ("open", [s0], []),
    }


def test_status_works_without_tables(story: Story) -> None:
    """It says that they are missing, and how old the oldest record is that waits."""
    _, s1, s2, _ = story.shards
    assert "there is none" in story.lost.problems[0].sentence
    behind = {shard.shard: shard.behind_source for shard in story.lost.shards if shard.behind_seconds}
    assert behind == {s1: "record", s2: "record"}


def test_it_refuses_while_a_worker_is_alive(story: Story) -> None:
    """Exit code 6: the lease counters move."""
    assert (story.while_alive.code, "renewed" in story.while_alive.text) == (6, True)


def test_a_plan_writes_nothing(story: Story) -> None:
    """It shows the rows, says last that nothing was changed, and there is still no table."""
    assert UNCHANGED in story.dry.text
    assert (story.dry.code, story.after_dry) == (0, [])
    assert all(shard in story.dry.text for shard in story.shards)


def test_every_listed_shard_gets_its_row(story: Story) -> None:
    """Tails, a proven end, and the trim horizon of a child without a record."""
    s0, s1, s2, s3 = story.shards
    assert story.restored.code == 0, story.restored.text
    assert {shard: row.checkpoint for shard, row in story.rows.items()} == {
        s0: "SHARD_END",
        s1: story.tails[s1],
        s2: story.tails[s2],
        s3: "TRIM_HORIZON",
    }


def test_a_tail_inside_an_aggregate_keeps_its_sub_sequence(story: Story) -> None:
    """The last record archived of s1 is the last user record of an aggregate."""
    assert story.rows[story.shards[1]].checkpoint.endswith(":11")


def test_it_may_be_run_again(story: Story) -> None:
    """The second run writes no row."""
    assert (story.again.code, story.rows_again) == (0, story.rows)
    assert "0 rows written" in story.again.text


def test_the_daemon_goes_on_from_the_rows(story: Story) -> None:
    """Another worker id: nobody's rows, assigned at once."""
    _, s1, s2, s3 = story.shards
    assert story.opened == {s1: story.tails[s1], s2: story.tails[s2], s3: "TRIM_HORIZON"}


def test_the_daemon_goes_on_at_once(story: Story) -> None:
    """No wait for an empty table, no wait for a dead leader; the figure is printed."""
    print("seconds from the start of the worker to its first commit:", round(story.seconds_to_commit, 1))  # noqa: T201
    assert story.seconds_to_commit < _LEADER_LOCK_SECONDS


def test_the_stream_is_not_read_again(story: Story) -> None:
    """Counted between daemon and processor: the 20 records put meanwhile, of 92 in all."""
    assert story.delivered == 20


def test_nothing_that_was_archived_is_touched(story: Story) -> None:
    """The objects from before keep key and ETag."""
    assert story.objects.items() <= story.objects_after.items()


def test_every_record_is_archived_once(story: Story) -> None:
    """Nothing lost, nothing twice, whole chains, over the loss of the tables."""
    assert_exactly_once(story.verdict)
