"""The dedupe table in DynamoDB: claims on event ids, and the watermarks at each shard's tail.

    item              attributes
    e:<event id>      owner S, digest S, expires N   a claim: the position that owns this event, and its payload
    t:<stream>/<shard>  the end of the shard's chain and the producer watermarks there: `consumer.dedupe.table`

The condition of a claim, clause by clause:

    attribute_not_exists(id)    the event has no claim
    OR #owner = :me             we own it: an earlier delivery, or a request whose answer was lost
    OR expires < :now           the claim has expired; DynamoDB deletes expired items late, so we compare the time

An owner is a *position*, not a process: on every delivery and by every writer, a record claims under the same name.
So there is no lock, no in-progress state and no window (docs/decisions/0010-producer-duplicates.md).

The digest is that of the owner's payload: a record is dropped only if its payload is the same. With ids alone, any
producer could suppress the events of another. Claims of versions before digests have none.

Claims are sent 25 at a time (`consumer.dedupe.claim_batches`); the few that this does not decide are sent one by one
with the whole condition (docs/decisions/0028-cheap-claims.md).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import structlog
from botocore.exceptions import BotoCoreError, ClientError

from consumer.dedupe.claim_batches import Answer, EventClaim, Owner, StatementBatch, Undecided, Verb, owner_in
from consumer.dedupe.watermarks import Watermarks
from minutebook.aws.access import Access
from minutebook.aws.clients import client_config, error_code, make_dynamodb_client
from minutebook.errors import FormatError, OutcomeUnknown, StoreError, StoreRefused
from minutebook.format.position import Position
from minutebook.store.s3 import translate

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

T = TypeVar("T")

CLAIM_CONNECTIONS = 16
_CONDITION = "attribute_not_exists(id) OR #owner = :me OR expires < :now"
LONGEST_STATE_BYTES = 350_000
"""Longer watermarks are left out of a tail row: DynamoDB refuses items above 400 KB. The archive has them, too."""
_MISSING = "ResourceNotFoundException"


class ShardTail(NamedTuple):
    """The end of a shard's chain.

    `watermarks` are those at `position`; None if only the archive has them. `slot` is the minute and the first
    position of the segment that ends there; None in rows of older versions.
    """

    position: Position
    watermarks: Watermarks | None
    slot: tuple[int, Position] | None = None


def tail_item(shard: str, tail: ShardTail) -> "dict[str, AttributeValueTypeDef]":
    """Return the item. `shard` is `<stream>/<shardId>`."""
    item: dict[str, AttributeValueTypeDef] = {
        "id": {"S": f"t:{shard}"},
        "position": {"S": str(tail.position)},
    }
    if tail.slot is not None:
        minute, first = tail.slot
        item |= {"minute": {"N": str(minute)}, "first": {"S": str(first)}}
    text = "" if tail.watermarks is None else tail.watermarks.encode()
    if text and len(text) <= LONGEST_STATE_BYTES:
        item["watermarks"] = {"S": text}
    return item


def decode_tail(item: Mapping[str, Any]) -> ShardTail:
    """Read an item that `tail_item` wrote; raises FormatError for any other."""
    try:
        position = Position.parse(item["position"]["S"])
        state = Watermarks.decode(item["watermarks"]["S"]) if "watermarks" in item else None
        slot = (int(item["minute"]["N"]), Position.parse(item["first"]["S"])) if "first" in item else None
    except (KeyError, TypeError, ValueError) as exc:
        raise FormatError(f"the fields are not those of a tail row: {exc!r}") from exc
    return ShardTail(position, state, slot)


class DedupeTable(Protocol):
    """The requests of deduplication. All raise `OutcomeUnknown` (repeat the request) or `StoreRefused`."""

    def claim(self, claim: EventClaim, *, expires: int, now: int) -> Owner:
        """Claim an event; return its owner afterwards. Times are epoch seconds."""
        ...

    def claim_batch(self, batch: StatementBatch) -> Sequence[Answer]:
        """Send up to 25 claims as statements of one kind; return an answer for each, in order.

        Safe to repeat: ours stay ours. `claim` decides what is left undecided.
        """
        ...

    def read_tail(self, shard: str) -> ShardTail | None:
        """Return the stored tail of a shard; None if it is missing or unreadable. `shard` is `<stream>/<shardId>`."""
        ...

    def write_tail(self, shard: str, tail: ShardTail) -> None:
        """Store a shard's tail, with the watermarks unless they are too long for an item."""
        ...


def make_claims_client(region: str, endpoint: str | None, access: Access) -> "DynamoDBClient":
    """Return a client for `CLAIM_CONNECTIONS` parallel requests."""
    # Our parameters are typed; to validate each of a thousand claims a second would cost more than to sign them.
    config = client_config(read_timeout=20, connections=CLAIM_CONNECTIONS, validate=False)
    return make_dynamodb_client(region, endpoint, access, config)


class DynamoDedupeTable:
    """The table on DynamoDB. Thread-safe, as botocore's clients are."""

    def __init__(self, client: "DynamoDBClient", name: str) -> None:
        self._client = client
        self._name = name
        self._refused: set[Verb] = set()

    def ensure(self) -> bool:
        """Create the table if it is missing (on-demand, time to live on `expires`); return whether it is usable.

        Repeat until True. A table that another process creates at the same time is fine.
        """
        status = self._status()
        if status is None:
            self._ask(self._create, f"CreateTable {self._name}", pass_codes=("ResourceInUseException",))
            return False
        if status not in {"ACTIVE", "UPDATING"}:
            return False
        answer = self._ask(
            lambda: self._client.describe_time_to_live(TableName=self._name), f"DescribeTimeToLive {self._name}"
        )
        if answer is not None and answer["TimeToLiveDescription"].get("TimeToLiveStatus") == "DISABLED":
            self._ask(
                lambda: self._client.update_time_to_live(
                    TableName=self._name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"}
                ),
                f"UpdateTimeToLive {self._name}",
                pass_codes=("ValidationException",),  # another process enabled it between the two requests
            )
        return True

    def claim(self, claim: EventClaim, *, expires: int, now: int) -> Owner:
        """Send one conditional PutItem; see the module's head for the condition."""
        try:
            self._client.put_item(
                TableName=self._name,
                Item={
                    "id": {"S": f"e:{claim.event_id}"},
                    "owner": {"S": claim.owner},
                    "digest": {"S": claim.digest},
                    "expires": {"N": str(expires)},
                },
                ConditionExpression=_CONDITION,
                ExpressionAttributeNames={"#owner": "owner"},
                ExpressionAttributeValues={":me": {"S": claim.owner}, ":now": {"N": str(now)}},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as exc:
            if error_code(exc) != "ConditionalCheckFailedException":
                raise _translated(exc, f"claim in {self._name}") from exc
            return owner_in(exc.response.get("Item"), claim.event_id)
        except BotoCoreError as exc:
            raise _translated(exc, f"claim in {self._name}") from exc
        return Owner(claim.owner, claim.digest)

    def claim_batch(self, batch: StatementBatch) -> Sequence[Answer]:
        """Send one BatchExecuteStatement; see `consumer.dedupe.claim_batches`.

        Once refused for good, statements of that kind are not sent any more in this process: the role may lack the
        permission, or the server may not support them. The claims are then sent one by one.
        """
        statements = batch.statements(self._name)
        undecided = [Undecided.OTHERWISE] * len(statements)
        if self._refused & {"INSERT", batch.verb}:
            return undecided
        what = f"claims in {self._name} by {batch.verb}"
        try:
            entries = self._client.batch_execute_statement(Statements=statements).get("Responses", ())
        except (ClientError, BotoCoreError) as exc:
            error = _translated(exc, what)
            if isinstance(error, OutcomeUnknown) or error_code(exc) == _MISSING:
                raise error from exc
            self._refuse(batch.verb, str(error))
            return undecided
        answers = batch.read(entries)
        refusal = batch.refusal(entries)
        if refusal is not None:
            self._refuse(batch.verb, refusal)
        return answers

    def read_tail(self, shard: str) -> ShardTail | None:
        """Send one consistent GetItem."""
        answer = self._ask(
            lambda: self._client.get_item(TableName=self._name, Key={"id": {"S": f"t:{shard}"}}, ConsistentRead=True),
            f"GetItem {shard} of {self._name}",
        )
        item = None if answer is None else answer.get("Item")
        if not item:
            return None
        try:
            return decode_tail(item)
        except FormatError as exc:
            structlog.get_logger().warning(
                "tail_row_unreadable",
                place=shard,
                error=str(exc),
                next_step="nothing is lost, the archive holds the same; find out what else writes to the table",
            )
            return None

    def write_tail(self, shard: str, tail: ShardTail) -> None:
        """Send one PutItem, without a condition: the row is a hint, compared with the chain's position when read."""
        item = tail_item(shard, tail)
        self._ask(
            lambda: self._client.put_item(TableName=self._name, Item=item),
            f"PutItem {shard} of {self._name}",
        )

    def _refuse(self, verb: Verb, error: str) -> None:
        if verb in self._refused:
            return  # a parallel request has logged it
        self._refused.add(verb)
        structlog.get_logger().warning(
            "claims_one_by_one",
            table=self._name,
            statement=verb,
            error=error,
            next_step="grant dynamodb:PartiQLInsert and dynamodb:PartiQLUpdate on the table, and restart: nothing is "
            "lost, but a claim alone costs ten times the CPU",
        )

    def _status(self) -> str | None:
        answer = self._ask(
            lambda: self._client.describe_table(TableName=self._name),
            f"DescribeTable {self._name}",
            pass_codes=(_MISSING,),
        )
        return None if answer is None else answer["Table"]["TableStatus"]

    def _create(self) -> object:
        return self._client.create_table(
            TableName=self._name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        )

    def _ask(self, request: Callable[[], T], what: str, *, pass_codes: tuple[str, ...] = ()) -> T | None:
        """Send one request; return None for an error whose code is in `pass_codes`."""
        try:
            return request()
        except ClientError as exc:
            if error_code(exc) in pass_codes:
                return None
            raise _translated(exc, what) from exc
        except BotoCoreError as exc:
            raise _translated(exc, what) from exc


def _translated(error: ClientError | BotoCoreError, what: str) -> StoreError:
    if error_code(error) == _MISSING:
        return StoreRefused(f"{what}: {error}", next_step="the table was deleted: a restart creates it again")
    return translate(error, what)
