"""A worker that has stopped gives its leases, and its leader lock, to those who live, and never fails over it."""

import random
import threading
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from structlog.testing import capture_logs

from consumer.leases.hand_over import (
    LONGEST_SECONDS,
    HandedCounts,
    HandOver,
    Leaving,
    plan_hand_over,
    release_own_lock,
    reporting_workers,
    take_only_lease,
)
from consumer.leases.rows import Lease, LeaseRows, hand_over_request
from consumer.leases.table import DynamoDBLeaseTable
from minutebook.errors import TableRefused, TableUnavailable
from minutebook.format.position import Position
from tests.fakes.clock import ManualClock
from tests.fakes.lease_table import MemoryLeaseTable

_LEASE = Lease("shardId-000000000001", Position(10**55, 3), 7, "w1")


def _lease(number: int, owner: str | None = "w1") -> Lease:
    return Lease(f"shardId-{number:012d}", Position(100 + number), 7, owner)


def _leaving(table: MemoryLeaseTable, clock: ManualClock) -> Leaving:
    return Leaving(table, "w1", clock)


def _rows(table: MemoryLeaseTable) -> LeaseRows:
    rows = table.read()
    assert rows is not None
    return rows


def _owners(table: MemoryLeaseTable) -> dict[str, str | None]:
    return {shard[-1]: lease.owner for shard, lease in _rows(table).leases.items()}


@pytest.mark.parametrize(("age", "is_living"), [(0, True), (60, True), (61, False)])
def test_a_worker_lives_whose_last_report_is_at_most_the_second_last_due(age: int, is_living: bool) -> None:  # noqa: FBT001 - cases
    """As KCL's leader has it; we do not count."""
    assert reporting_workers({"w1": 1000, "w2": 1000 - age}, "w1", 1000) == (["w2"] if is_living else [])


def test_leases_go_to_whoever_has_the_fewest() -> None:
    """Each one counts at once."""
    leases = {lease.shard_id: lease for lease in (_lease(0), _lease(1), _lease(2), _lease(3, "w2"), _lease(4, "w2"))}
    plan = plan_hand_over(leases, "w1", ["w2", "w3"])
    assert [each.next_owner for each in plan] == ["w3", "w3", "w2"]


def test_the_streams_of_a_fleet_are_dealt_out_together() -> None:
    """Each has a table of its own with one lease: by that alone, all would go to the worker that is first by name."""
    handed = HandedCounts()
    plans = [handed.plan({"s": _lease(0)}, "w1", ["w2", "w3"], most=None) for _ in range(4)]
    assert [step.next_owner for plan in plans for step in plan] == ["w2", "w3", "w2", "w3"]


def test_leases_that_others_have_of_another_stream_count() -> None:
    """As far as they were seen."""
    handed = HandedCounts()
    theirs = (_lease(0, "w2"), _lease(1, "w2"))
    handed.plan({lease.shard_id: lease for lease in theirs}, "w1", ["w2", "w3"], most=None)
    (step,) = handed.plan({"s": _lease(0)}, "w1", ["w2", "w3"], most=None)
    assert step.next_owner == "w3"


def test_nobody_gets_more_than_one_may_hold() -> None:
    """What is left belongs to nobody."""
    leases = {lease.shard_id: lease for lease in (_lease(0), _lease(1), _lease(2, "w2"))}
    assert [each.next_owner for each in plan_hand_over(leases, "w1", ["w2"], most=2)] == ["w2", None]


def test_finished_shards_and_other_workers_leases_stay() -> None:
    """Nobody has to read the one, and the others are read."""
    leases = [_lease(0)._replace(checkpoint="SHARD_END"), _lease(1, "w2"), _lease(2, None)]
    assert plan_hand_over({lease.shard_id: lease for lease in leases}, "w1", ["w2"]) == []


def test_the_leases_the_report_and_the_lock_are_given_up() -> None:
    """All that the others would have to wait for."""
    clock = ManualClock()
    table = MemoryLeaseTable(_lease(0), _lease(1, "w2"))
    table.reported = {"w1": clock.now_ms() // 1000, "w2": clock.now_ms() // 1000}
    table.leader_owner = "w1"
    with capture_logs() as logs:
        _leaving(table, clock).finish()
    assert _owners(table) == {"0": "w2", "1": "w2"}
    assert (table.reported.keys(), table.leader_owner) == ({"w2"}, None)
    assert [log["event"] for log in logs] == ["leader_lock_released", "leases_released"]
    assert logs[1]["heirs"] == {"shardId-000000000000": "w2"}


def test_the_report_is_withdrawn_when_the_stop_begins() -> None:
    """Workers that are stopped together do not name each other."""
    table = MemoryLeaseTable(_lease(0))
    table.reported = {"w1": 1}
    leaving = _leaving(table, ManualClock())
    leaving.begin()
    leaving.finish()
    assert table.reported == {}


def test_without_another_worker_nobody_owns_the_lease() -> None:
    """The next leader gives it away in its first run, instead of waiting until it has expired."""
    table = MemoryLeaseTable(_lease(0))
    _leaving(table, ManualClock()).finish()
    assert _owners(table) == {"0": None}


@pytest.mark.parametrize(
    "theirs",
    [
        _lease(0, "w2")._replace(counter=8),
        _lease(0)._replace(counter=8),
        _lease(0, "w2"),
        _lease(0)._replace(checkpoint=Position(200)),
    ],
)
def test_a_lease_that_moves_meanwhile_is_left_alone(theirs: Lease) -> None:
    """The leader gave it away, or a daemon of the same name renewed it, or checkpointed."""
    table = MemoryLeaseTable(_lease(0))
    table.before_put = lambda _: table.seed(theirs)
    with capture_logs() as logs:
        _leaving(table, ManualClock()).finish()
    rows = table.read()
    assert rows is not None
    assert rows.leases[theirs.shard_id] == theirs
    assert [(log["event"], log["kept"]) for log in logs] == [("leases_released", 1)]


@pytest.mark.parametrize("error", [TableUnavailable("the answer was lost"), TableRefused("not allowed")])
def test_a_hand_over_without_an_answer_is_left_and_told(error: TableUnavailable | TableRefused) -> None:
    """It is not asked again, nor is anything after it: the leases expire."""
    table = MemoryLeaseTable(_lease(0), _lease(1))
    asked: list[str] = []

    def fail(shard: str) -> None:
        asked.append(shard)
        raise error

    table.before_put = fail
    with capture_logs() as logs:
        _leaving(table, ManualClock()).finish()
    assert asked == ["shardId-000000000000"]
    assert [log["event"] for log in logs] == ["leases_kept", "leases_released"]
    assert logs[0]["next_step"]


def test_an_unreachable_table_is_told_once() -> None:
    """And raises nothing, neither at the beginning nor at the end."""
    table = MemoryLeaseTable(_lease(0))
    table.unavailable = True
    leaving = _leaving(table, ManualClock())
    leaving.begin()
    with capture_logs() as logs:
        leaving.finish()
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["leases_kept"]


def test_whoever_stops_us_does_not_wait_for_long() -> None:
    """A table that answers slowly keeps what is left."""
    clock = ManualClock()
    table = MemoryLeaseTable(*(_lease(number) for number in range(5)))
    table.before_put = lambda _: clock.sleep(LONGEST_SECONDS / 2)
    _leaving(table, clock).finish()
    assert list(_owners(table).values()).count(None) == 2


def test_a_table_that_answers_page_after_page_holds_nobody_up() -> None:
    """Each request may take its time, and a large table takes many: the whole is bounded."""
    table, answered = MemoryLeaseTable(_lease(0)), threading.Event()
    table.on_ask = lambda: answered.wait(10) and None
    before = {*threading.enumerate()}
    with capture_logs() as logs:
        Leaving(table, "w1", ManualClock(), longest_seconds=0.05).finish()
    answered.set()
    for left in {*threading.enumerate()} - before:
        left.join()  # else it logs into the next test's capture
    assert [log["event"] for log in logs] == ["leases_kept"]


def test_a_defect_while_leaving_is_raised() -> None:
    """Nothing is swallowed by the thread."""

    def fail() -> None:
        raise ValueError("a report without a time")

    table = MemoryLeaseTable(_lease(0))
    table.on_ask = fail
    with pytest.raises(ValueError, match="without a time"):
        _leaving(table, ManualClock()).finish()


def test_no_table_is_nothing_to_leave() -> None:
    """The daemon ended before it had made one."""
    with capture_logs() as logs:
        _leaving(MemoryLeaseTable(), ManualClock()).finish()
    assert logs == []


def test_a_hand_over_names_the_lease_as_it_was_seen() -> None:
    """Its counter and its checkpoint are the condition."""
    (each,) = plan_hand_over({"s": _lease(0)}, "w1", [])
    assert each == HandOver(_lease(0), None)


def _table(leader: str | None) -> MemoryLeaseTable:
    table = MemoryLeaseTable()
    table.leader_owner = leader
    return table


def test_the_own_lock_is_released() -> None:
    """Else shards without a reader wait for two minutes after every crash of the leader."""
    table = _table("w1")
    with capture_logs() as logs:
        release_own_lock(table, "w1")
    assert (table.leader_owner, [log["event"] for log in logs]) == (None, ["leader_lock_released"])


@pytest.mark.parametrize("leader", ["w2", None])
def test_nobody_elses_lock_is_touched(leader: str | None) -> None:
    """And nothing is said of it."""
    table = _table(leader)
    with capture_logs() as logs:
        release_own_lock(table, "w1")
    assert (table.leader_owner, logs) == (leader, [])


def test_an_unreachable_table_prevents_no_start() -> None:
    """The lock runs out by itself."""
    table = _table("w1")
    table.unavailable = True
    with capture_logs() as logs:
        release_own_lock(table, "w1")
    assert [log["event"] for log in logs] == ["leader_lock_kept"]


@pytest.mark.parametrize("reported", [{}, {"w1": 900}, {"w2": 939}])
def test_the_only_free_lease_is_taken(reported: dict[str, int]) -> None:
    """KCL would wait six seconds for it. A finished shard is nobody's, and a worker that is silent has gone."""
    table = MemoryLeaseTable(_lease(0)._replace(checkpoint="SHARD_END", owner=None), _lease(1, None))
    table.reported = dict(reported)
    with capture_logs() as logs:
        take_only_lease(table, _rows(table), "w1", ManualClock(1_000_000))
    assert (_owners(table), [log["event"] for log in logs]) == ({"0": None, "1": "w1"}, ["lease_taken"])


@pytest.mark.parametrize(
    ("leases", "reported"),
    [
        ([_lease(1, None)], {"w2": 940}),
        ([_lease(1, None), _lease(2, None)], {}),
        ([_lease(1, None), _lease(2, "w2")], {}),
        ([_lease(1, "w2")], {}),
        ([_lease(1)], {}),
    ],
)
def test_what_others_may_want_is_left_to_the_leader(leases: list[Lease], reported: dict[str, int]) -> None:
    """Workers that start together share the shards."""
    table = MemoryLeaseTable(*leases)
    table.reported = reported
    before = _owners(table)
    with capture_logs() as logs:
        take_only_lease(table, _rows(table), "w1", ManualClock(1_000_000))
    assert (_owners(table), logs) == (before, [])


def test_a_free_lease_that_moves_meanwhile_is_left_alone() -> None:
    """The leader was faster."""
    table = MemoryLeaseTable(_lease(1, None))
    table.before_put = lambda _: table.seed(_lease(1, "w2")._replace(counter=8))
    with capture_logs() as logs:
        take_only_lease(table, _rows(table), "w1", ManualClock(1_000_000))
    assert (_owners(table), logs) == ({"1": "w2"}, [])


def test_a_lease_that_cannot_be_taken_prevents_no_start() -> None:
    """KCL's leader assigns it."""
    table = MemoryLeaseTable(_lease(1, None))
    rows, table.unavailable = _rows(table), True
    with capture_logs() as logs:
        take_only_lease(table, rows, "w1", ManualClock(1_000_000))
    assert [log["event"] for log in logs] == ["lease_left_to_kcl"]


def test_a_free_lease_is_taken_while_it_is_free() -> None:
    """DynamoDB has no owner to compare."""
    request = hand_over_request(_LEASE._replace(owner=None), "w2")
    assert request["ConditionExpression"].startswith("attribute_not_exists(leaseOwner) AND leaseCounter = :counter ")
    assert ":owner" not in request["ExpressionAttributeValues"]


def test_each_thing_that_was_seen_is_a_condition() -> None:
    """Owner, counter and checkpoint; and that KCL has not begun a hand-over of its own."""
    request = hand_over_request(_LEASE, None)
    assert request["ConditionExpression"].split(" AND ") == [
        "leaseOwner = :owner",
        "leaseCounter = :counter",
        "checkpoint = :checkpoint",
        "checkpointSubSequenceNumber = :sub",
        "attribute_not_exists(checkpointOwner)",
    ]
    assert request["ExpressionAttributeValues"] == {
        ":owner": {"S": "w1"},
        ":counter": {"N": "7"},
        ":checkpoint": {"S": f"{10**55}"},
        ":sub": {"N": "3"},
        ":one": {"N": "1"},
    }


@pytest.mark.parametrize("checkpoint", ["TRIM_HORIZON", "AT_TIMESTAMP"])
def test_a_shard_without_a_checkpoint_is_handed_over_too(checkpoint: Any) -> None:  # noqa: ANN401 - a literal
    """Nothing was delivered yet."""
    values = hand_over_request(_LEASE._replace(checkpoint=checkpoint), "w2")["ExpressionAttributeValues"]
    assert (values[":checkpoint"], values[":sub"]) == ({"S": checkpoint}, {"N": "0"})


class _Failing:
    """A client whose answers are lost."""

    def __init__(self) -> None:
        self.sent = 0

    def update_item(self, **_: object) -> None:
        self.sent += 1
        raise ClientError(
            {"Error": {"Code": "InternalServerError"}, "ResponseMetadata": {"HTTPStatusCode": 500}},  # type: ignore[typeddict-item] # the part that is read
            "UpdateItem",
        )


def test_it_is_sent_once() -> None:
    """Nobody can tell whether it was applied, nothing depends on it, and nobody asks again."""
    client = _Failing()
    table = DynamoDBLeaseTable(cast("Any", client), "t", "c", ManualClock(), random.Random(1))
    with pytest.raises(TableUnavailable):
        table.hand_over(HandOver(_LEASE, "w2"))
    assert client.sent == 1
