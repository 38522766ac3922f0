"""Lease rows: what is read, what is refused, what is written, and what betrays a living worker."""

from typing import Any

import pytest

from consumer.leases.rows import Lease, LeaseRows, lease_item, parse_lease, parse_rows, put_condition, signs_of_life
from minutebook.errors import FormatError
from minutebook.format.position import Position

ROW: dict[str, Any] = {
    "leaseKey": {"S": "shardId-000000000001"},
    "leaseCounter": {"N": "42"},
    "leaseOwner": {"S": "w1"},
    "ownerSwitchesSinceCheckpoint": {"N": "0"},
    "checkpoint": {"S": "4968"},
    "checkpointSubSequenceNumber": {"N": "3"},
    "parentShardId": {"SS": ["shardId-000000000000"]},
    "childShardIds": {"SS": ["shardId-000000000002", "shardId-000000000003"]},
    "startingHashKey": {"S": "0"},
    "endingHashKey": {"S": "99"},
    "throughputKBps": {"N": "0.5"},
}
LEASE = Lease(
    "shardId-000000000001",
    Position(4968, 3),
    42,
    "w1",
    frozenset({"shardId-000000000000"}),
    frozenset({"shardId-000000000002", "shardId-000000000003"}),
    "0",
    "99",
)


def test_a_row_of_kcl_is_read_whole() -> None:
    """Every attribute that matters, whatever else is in the row."""
    assert parse_lease(ROW) == LEASE


def test_a_row_without_an_owner_is_unowned() -> None:
    """KCL leaves the attribute out."""
    assert parse_lease({name: value for name, value in ROW.items() if name != "leaseOwner"}).owner is None


@pytest.mark.parametrize("sentinel", ["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END"])
def test_a_sentinel_is_no_position(sentinel: str) -> None:
    """It stays text."""
    assert parse_lease({**ROW, "checkpoint": {"S": sentinel}}).checkpoint == sentinel


@pytest.mark.parametrize("name", ["leaseKey", "leaseCounter", "ownerSwitchesSinceCheckpoint", "checkpoint"])
def test_a_mandatory_attribute_must_be_there(name: str) -> None:
    """KCL ignores a row without it, so a tool may not believe the row either."""
    with pytest.raises(FormatError, match=name):
        parse_lease({key: value for key, value in ROW.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("checkpoint", {"S": "0123"}),
        ("checkpoint", {"S": "SHARD-END"}),
        ("checkpoint", {"N": "4968"}),
        ("leaseCounter", {"N": "-1"}),
        ("leaseCounter", {"S": "42"}),
        ("checkpointSubSequenceNumber", {"N": "1.5"}),
        ("parentShardId", {"SS": "shardId-000000000000"}),
        ("leaseOwner", {"S": ""}),
    ],
)
def test_a_value_that_does_not_parse_is_refused(name: str, value: dict[str, Any]) -> None:
    """Never a default in its place."""
    with pytest.raises(FormatError):
        parse_lease({**ROW, name: value})


def test_rows_of_other_kinds_are_no_leases() -> None:
    """KCL 3.5 keeps the leader, the workers and the migration in the lease table."""
    others = [{"leaseKey": {"S": kind}, "entityType": {"S": kind}} for kind in ("LEADER", "WORKER_METRIC_STATS", "X")]
    marked = {**ROW, "entityType": {"S": "LEASE"}}
    assert parse_rows([*others, marked]) == LeaseRows({LEASE.shard_id: LEASE})


def test_an_unreadable_row_is_named() -> None:
    """And the others are read."""
    rows = parse_rows([ROW, {"leaseKey": {"S": "shardId-000000000009"}}])
    assert list(rows.leases) == [LEASE.shard_id]
    assert "shardId-000000000009" in rows.unreadable[0]


@pytest.mark.parametrize("checkpoint", [Position(4968, 3), "TRIM_HORIZON", "SHARD_END"])
@pytest.mark.parametrize("single_table", [True, False])
def test_a_written_row_reads_back(checkpoint: Any, single_table: bool) -> None:  # noqa: ANN401, FBT001 - cases
    """In both layouts."""
    lease = LEASE._replace(checkpoint=checkpoint)
    assert parse_lease(lease_item(lease, single_table=single_table)) == lease


def test_a_row_for_the_single_table_is_marked() -> None:
    """KCL 3.5 tells leases by it."""
    assert lease_item(LEASE, single_table=True)["entityType"] == {"S": "LEASE"}
    assert "entityType" not in lease_item(LEASE, single_table=False)


def test_what_has_no_value_is_left_out() -> None:
    """DynamoDB has no empty set, and an empty owner would be a worker without a name."""
    names = lease_item(Lease("shardId-000000000001", "TRIM_HORIZON"), single_table=False).keys()
    assert not names & {"leaseOwner", "parentShardId", "childShardIds", "startingHashKey", "endingHashKey"}


def test_a_new_row_may_replace_nothing() -> None:
    """The condition of a first put."""
    assert put_condition(None) == ("attribute_not_exists(leaseKey)", {})


def test_a_row_may_be_replaced_only_as_it_was_seen() -> None:
    """The condition names the counter that a living worker would have moved."""
    assert put_condition(LEASE) == ("leaseCounter = :seen", {":seen": {"N": "42"}})


def look(*leases: Lease) -> LeaseRows:
    """Return one look at the table."""
    return LeaseRows({lease.shard_id: lease for lease in leases})


def test_a_standing_table_shows_no_life() -> None:
    """Dead owners' rows included; a missing table as well."""
    assert signs_of_life(look(LEASE), look(LEASE)) == []
    assert signs_of_life(None, None) == []


@pytest.mark.parametrize(
    "after",
    [
        look(LEASE._replace(counter=43)),
        look(LEASE._replace(checkpoint=Position(4969))),
        look(LEASE._replace(owner="w2")),
        look(LEASE, LEASE._replace(shard_id="shardId-000000000009")),
        look(),
        None,
    ],
)
def test_every_change_is_a_sign_of_life(after: LeaseRows | None) -> None:
    """Renewal, checkpoint, another owner, a row that came or went."""
    assert signs_of_life(look(LEASE), after)


def test_a_renewal_names_the_worker() -> None:
    """So that a person knows what to stop."""
    assert signs_of_life(look(LEASE), look(LEASE._replace(counter=43))) == ["w1 renewed shardId-000000000001"]
