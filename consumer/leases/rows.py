"""KCL's lease rows: parsed strictly, written as KCL writes them, and compared to detect living workers.

The table holds one row per shard. Since KCL 3.5 it also holds the leader's row, workers' statistics and the migration
state, distinguished by `entityType`; before, those were in two other tables
(DynamoDBLeaseSerializer.java, EntityType.java in amazon-kinesis-client). Only rows without `entityType`, or with
`LEASE`, are leases.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from minutebook.errors import FormatError
from minutebook.format.position import Position, is_sequence_number

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

Item = Mapping[str, Any]
"""A row in DynamoDB's JSON: attribute name -> {type: value}."""

Sentinel = Literal["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END"]
_SENTINELS: Final[Mapping[str, Sentinel]] = {
    "TRIM_HORIZON": "TRIM_HORIZON",
    "LATEST": "LATEST",
    "AT_TIMESTAMP": "AT_TIMESTAMP",
    "SHARD_END": "SHARD_END",
}
Checkpoint = Position | Sentinel
_LEASE: Final = "LEASE"


class Lease(NamedTuple):
    """One lease row. `counter` moves with every renewal; `owner` is a worker id, None for a free lease.

    Hash keys are decimal text; KCL fills them in from ListShards when they are missing, so they may be empty.
    """

    shard_id: str
    checkpoint: Checkpoint
    counter: int = 0
    owner: str | None = None
    parents: frozenset[str] = frozenset()
    children: frozenset[str] = frozenset()
    starting_hash_key: str = ""
    ending_hash_key: str = ""


class LeaseRows(NamedTuple):
    """One read of the table: the leases by shard, and the errors in rows that KCL ignores."""

    leases: Mapping[str, Lease]
    unreadable: tuple[str, ...] = ()

    @property
    def has_timestamp_rows(self) -> bool:
        """Return whether KCL needs a timestamp in its configuration to start from every row."""
        return any(lease.checkpoint == "AT_TIMESTAMP" for lease in self.leases.values())


class LeaderLock(NamedTuple):
    """The leader's row: its owner, and the version that the owner changes every 30 s."""

    owner: str
    version: str


class LeaseTable(Protocol):
    """The lease table as the commands use it.

    Every method raises `TableUnavailable` when its retries are spent, or `TableRefused`.
    """

    def read(self) -> LeaseRows | None:
        """Return every lease by consistent reads; None if there is no such table."""
        ...

    def create(self) -> None:
        """Create the table unless it exists, and wait until it is active."""
        ...

    def put(self, lease: Lease, seen: Lease | None) -> bool:
        """Write the whole row if it still is as `seen`; return False if not. See `put_condition`."""
        ...

    def release_leader(self, owner: str | None = None, version: str | None = None) -> bool:
        """Delete the leader's row, which would delay a new leader by two minutes; return whether there was one.

        Without `owner`, call it only when no worker lives. With `owner` the row is deleted only if it names this
        worker, and with `version` only if its owner has not changed it since.
        """
        ...


def parse_rows(items: Iterable[Item]) -> LeaseRows:
    """Parse a scan of the table: skip rows of other kinds, report unreadable ones."""
    leases: dict[str, Lease] = {}
    unreadable: list[str] = []
    for item in items:
        if item.get("entityType", {"S": _LEASE}) != {"S": _LEASE}:
            continue
        try:
            lease = parse_lease(item)
        except FormatError as exc:
            unreadable.append(str(exc))
        else:
            leases[lease.shard_id] = lease
    return LeaseRows(dict(sorted(leases.items())), tuple(sorted(unreadable)))


def parse_lease(item: Item) -> Lease:
    """Parse one row; raises FormatError if an attribute that KCL requires is missing, or one does not parse."""
    row = _Attributes(item)
    shard_id = row.text("leaseKey")
    row.number("ownerSwitchesSinceCheckpoint")
    return Lease(
        shard_id=shard_id,
        checkpoint=_parse_checkpoint(row),
        counter=row.number("leaseCounter"),
        owner=row.text("leaseOwner") if "leaseOwner" in item else None,
        parents=row.names("parentShardId"),
        children=row.names("childShardIds"),
        starting_hash_key=row.text("startingHashKey") if "startingHashKey" in item else "",
        ending_hash_key=row.text("endingHashKey") if "endingHashKey" in item else "",
    )


def lease_item(lease: Lease, *, single_table: bool) -> dict[str, "AttributeValueTypeDef"]:
    """Return the row as KCL itself would create it.

    An attribute without a value is left out: DynamoDB has no empty string sets, and KCL reads an absent owner as a
    free lease. `single_table` adds the `entityType` of KCL 3.5 and later; older versions ignore it.
    """
    position = lease.checkpoint if isinstance(lease.checkpoint, Position) else None
    item: dict[str, AttributeValueTypeDef] = {
        "leaseKey": {"S": lease.shard_id},
        "leaseCounter": {"N": str(lease.counter)},
        "ownerSwitchesSinceCheckpoint": {"N": "0"},
        "checkpoint": {"S": str(position.sequence) if position else str(lease.checkpoint)},
        "checkpointSubSequenceNumber": {"N": str(position.sub if position else 0)},
    }
    texts = {
        "leaseOwner": lease.owner,
        "startingHashKey": lease.starting_hash_key,
        "endingHashKey": lease.ending_hash_key,
        "entityType": _LEASE if single_table else None,
    }
    item |= {name: {"S": text} for name, text in texts.items() if text}
    sets = {"parentShardId": lease.parents, "childShardIds": lease.children}
    item |= {name: {"SS": sorted(names)} for name, names in sets.items() if names}
    return item


def create_request(table: str, *, protected: bool) -> dict[str, Any]:
    """Return the CreateTable request for a table with the index that KCL would otherwise add itself."""
    by_owner = ("leaseOwner", "leaseKey")
    return {
        "TableName": table,
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in by_owner],
        "KeySchema": [{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "LeaseOwnerToLeaseKeyIndex",
                "KeySchema": [
                    {"AttributeName": name, "KeyType": kind}
                    for name, kind in zip(by_owner, ("HASH", "RANGE"), strict=True)
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
        "BillingMode": "PAY_PER_REQUEST",
        "DeletionProtectionEnabled": protected,
    }


def put_condition(seen: Lease | None) -> tuple[str, dict[str, "AttributeValueTypeDef"]]:
    """Return the condition under which a row may be written, and its values.

    we read           a worker                our put
    ---------         ------                  -------
    no row            creates the row         attribute_not_exists fails: the worker's row stays
    counter 7         renews: counter 8       leaseCounter = 7 fails: the worker keeps its lease
    counter 7         is dead                 leaseCounter = 7 holds: replaced, with counter 8, so that
                                              requests of the dead worker that arrive later fail

    (Condition expressions: Amazon DynamoDB Developer Guide.)
    """
    if seen is None:
        return "attribute_not_exists(leaseKey)", {}
    return "leaseCounter = :seen", {":seen": {"N": str(seen.counter)}}


def hand_over_request(seen: Lease, next_owner: str | None) -> dict[str, Any]:
    """Return the UpdateItem that gives a free lease or one of a stopped owner to `next_owner`, or releases it (None).

    we read               meanwhile                          our update
    --------              ---------                          ----------
    w1, counter 7         -                                  holds: counter 8, owned by the next owner or free
    w1, counter 7         the leader gives it to w2          leaseOwner = w1 fails: w2 keeps it
    w1, counter 7         a daemon of the same name renews   leaseCounter = 7 fails: it keeps its lease
    w1, counter 7         the row is deleted                 fails: no partial row is created
    w1, counter 7         KCL begins its own hand-over       checkpointOwner exists: fails, and KCL's goes on
    nobody, counter 7     -                                  holds: counter 8, owned by the next owner
    nobody, counter 7     the leader gives it to w2          leaseOwner exists: fails, w2 keeps it

    Only the owner changes, as when KCL assigns or evicts a lease (DynamoDBLeaseSerializer.java). The counter is
    incremented, so that later requests of the old owner fail; all other attributes stay.
    """
    position = seen.checkpoint if isinstance(seen.checkpoint, Position) else None
    owner: dict[str, AttributeValueTypeDef] = {} if seen.owner is None else {":owner": {"S": seen.owner}}
    values: dict[str, AttributeValueTypeDef] = {
        **owner,
        ":counter": {"N": str(seen.counter)},
        ":checkpoint": {"S": str(position.sequence) if position else str(seen.checkpoint)},
        ":sub": {"N": str(position.sub if position else 0)},
        ":one": {"N": "1"},
    }
    change = "REMOVE leaseOwner ADD leaseCounter :one"
    if next_owner is not None:
        change = "SET leaseOwner = :next_owner ADD leaseCounter :one, ownerSwitchesSinceCheckpoint :one"
        values[":next_owner"] = {"S": next_owner}
    return {
        "Key": {"leaseKey": {"S": seen.shard_id}},
        "UpdateExpression": change,
        "ConditionExpression": f"{'leaseOwner = :owner' if owner else 'attribute_not_exists(leaseOwner)'} "
        "AND leaseCounter = :counter AND checkpoint = :checkpoint AND checkpointSubSequenceNumber = :sub "
        "AND attribute_not_exists(checkpointOwner)",
        "ExpressionAttributeValues": values,
    }


def signs_of_life(before: LeaseRows | None, after: LeaseRows | None) -> list[str]:
    """Compare two reads more than `failoverTimeMillis` apart; return the changes that only a living worker makes.

    A worker renews each of its leases every third of that time, so the owner of a counter that did not move may not
    checkpoint any more. A worker without leases is not detected: it can do no harm before it takes one, and then the
    condition of the put protects its row.
    """
    old = before.leases if before else {}
    new = after.leases if after else {}
    signs = []
    for shard_id in sorted(old.keys() | new.keys()):
        was, now = old.get(shard_id), new.get(shard_id)
        if was is None:
            signs.append(f"a row appeared for {shard_id}")
        elif now is None:
            signs.append(f"the row of {shard_id} went away")
        elif now.counter != was.counter:
            signs.append(f"{now.owner or was.owner or 'a worker'} renewed {shard_id}")
        elif now != was:
            signs.append(f"the row of {shard_id} changed")
    return signs


def _parse_checkpoint(row: "_Attributes") -> Checkpoint:
    text = row.text("checkpoint")
    if text in _SENTINELS:
        return _SENTINELS[text]
    if not is_sequence_number(text):
        raise FormatError(f"lease row of {row.name}: checkpoint {text!r} is not a position")
    sub = row.number("checkpointSubSequenceNumber") if row.has("checkpointSubSequenceNumber") else 0
    return Position(int(text), sub)


class _Attributes:
    """Strict access to a row's attributes, with errors that name row and attribute."""

    def __init__(self, item: Item) -> None:
        self._item = item
        self.name = str(item.get("leaseKey", {}).get("S", "without leaseKey"))

    def has(self, name: str) -> bool:
        return name in self._item

    def text(self, name: str) -> str:
        value = self._item.get(name, {}).get("S")
        if not isinstance(value, str) or not value:
            raise FormatError(f"lease row of {self.name}: {name} is missing or not a text")
        return value

    def number(self, name: str) -> int:
        value = self._item.get(name, {}).get("N")
        if not isinstance(value, str) or not (value.isascii() and value.isdigit()):
            raise FormatError(f"lease row of {self.name}: {name} is missing or not a number")
        return int(value)

    def names(self, name: str) -> frozenset[str]:
        value = self._item.get(name, {}).get("SS", [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise FormatError(f"lease row of {self.name}: {name} is not a set of names")
        return frozenset(value)
