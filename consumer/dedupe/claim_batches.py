"""Claims on up to 25 events in one request: PartiQL statements that succeed or fail one by one.

                        INSERT                             UPDATE ... WHERE id = me AND owner = me
    what it claims      an event without a claim           an event that we own: an earlier delivery, a lost answer
    no Error            ours: there was no item            ours: the item exists, and has its new expiry
    its own Error       DuplicateItem: OTHERWISE           ConditionalCheckFailed, and the item: its owner, unless it
                                                           has expired or is no claim: OTHERWISE
    throttled, 500      AGAIN                              AGAIN: it may have been applied
    any other Error     OTHERWISE, and it is logged        OTHERWISE, and it is logged

INSERT and UPDATE are the first two clauses of the condition of a claim (`consumer.dedupe.table`), so a statement that
succeeds is a valid claim. Claims that neither decides are OTHERWISE: a PutItem with all three clauses decides them.

The errors of a statement: "BatchStatementError", DynamoDB API reference. Entries come in the order of the statements
("BatchExecuteStatement", ibid.), and a success names its table: an entry without error and table is no claim.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from minutebook.errors import FormatError, OutcomeUnknown

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import BatchStatementRequestTypeDef

MOST_STATEMENTS: Final = 25
"""Limit of one request ("Running batch operations with PartiQL for DynamoDB", developer guide)."""
Verb: TypeAlias = Literal["INSERT", "UPDATE"]
VERBS: Final[tuple[Verb, ...]] = ("INSERT", "UPDATE")
"""INSERT is tried first: nearly every event is new."""
_TAKEN: Final = {"INSERT": "DuplicateItem", "UPDATE": "ConditionalCheckFailed"}
_MISSING: Final = "ResourceNotFound"
_PASSING: Final = frozenset(
    {
        "InternalServerError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "ThrottlingError",
        "TransactionConflict",
    }
)


class EventClaim(NamedTuple):
    """A record's claim on its event: `owner` names its position, `digest` its payload."""

    event_id: str
    owner: str
    digest: str


class Owner(NamedTuple):
    """The owner of an event; `digest` is None if the claim was written without one."""

    position: str
    digest: str | None


class Undecided(Enum):
    """How to go on with a claim that a batch did not decide."""

    AGAIN = "the same request"
    OTHERWISE = "another one"


Answer: TypeAlias = Owner | Undecided


class StatementBatch(NamedTuple):
    """Statements of one kind. Times are epoch seconds."""

    verb: Verb
    claims: Sequence[EventClaim]
    expires: int
    now: int

    def statements(self, table: str) -> "list[BatchStatementRequestTypeDef]":
        """Return the statements. Values are parameters, so ids need no quoting.

        Raises:
            ValueError: these are not 1 to 25 claims on different events. DynamoDB refuses a request that names an
                item twice, and may have applied a part of it by then.
        """
        claims = self.claims
        if not 0 < len(claims) <= MOST_STATEMENTS or len({claim.event_id for claim in claims}) < len(claims):
            raise ValueError(f"not a batch of 1 to {MOST_STATEMENTS} claims on different events: {claims}")
        until = {"N": str(self.expires)}
        if self.verb == "INSERT":
            insert = f"INSERT INTO \"{table}\" VALUE {{'id':?,'owner':?,'digest':?,'expires':?}}"
            return [
                {"Statement": insert, "Parameters": [_key(claim), {"S": claim.owner}, {"S": claim.digest}, until]}
                for claim in claims
            ]
        update = f'UPDATE "{table}" SET "digest"=? SET "expires"=? WHERE "id"=? AND "owner"=?'  # noqa: S608 - our own name
        return [
            {
                "Statement": update,
                "Parameters": [{"S": claim.digest}, until, _key(claim), {"S": claim.owner}],
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
            for claim in claims
        ]

    def read(self, entries: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """Return the answers, in the order of the claims.

        Raises OutcomeUnknown if their number is not that of the claims.
        """
        if len(entries) != len(self.claims):
            raise OutcomeUnknown(f"{len(entries)} answers to {len(self.claims)} claims")
        return [self._answer(claim, entry) for claim, entry in zip(self.claims, entries, strict=True)]

    def refusal(self, entries: Sequence[Mapping[str, Any]]) -> str | None:
        """Return why DynamoDB refuses statements of this kind for good; None if it does not, or the table is gone."""
        expected = _PASSING | {_TAKEN[self.verb], _MISSING}
        for entry in entries:
            if "Error" in entry and (code := entry["Error"].get("Code", "")) not in expected:
                return f"{code}: {entry['Error'].get('Message', '')}"
        return None

    def _answer(self, claim: EventClaim, entry: Mapping[str, Any]) -> Answer:
        if "Error" not in entry:
            return Owner(claim.owner, claim.digest) if entry.get("TableName") else Undecided.OTHERWISE
        code = entry["Error"].get("Code")
        if code in _PASSING:
            return Undecided.AGAIN
        item = entry["Error"].get("Item")
        if code != "ConditionalCheckFailed" or not _is_on(item, claim) or self._has_run_out(item):
            return Undecided.OTHERWISE
        try:
            return owner_in(item, claim.event_id)
        except FormatError:
            return Undecided.OTHERWISE  # a claim by PutItem raises this error

    def _has_run_out(self, item: Any) -> bool:  # noqa: ANN401 - any JSON of the service
        """Return whether an item is an expired claim, or none at all."""
        try:
            return int(item["expires"]["N"]) < self.now
        except (KeyError, TypeError, ValueError):
            return True


def _is_on(item: object, claim: EventClaim) -> bool:
    """Return whether an item is that of the claim's event: entries out of order would give owners of other events."""
    return isinstance(item, dict) and item.get("id") == _key(claim)


def owner_in(item: object, event_id: str) -> Owner:
    """Return the owner that an item names; raises FormatError if it is not a claim."""
    has_digest = isinstance(item, dict) and "digest" in item
    return Owner(_text(item, "owner", event_id), _text(item, "digest", event_id) if has_digest else None)


def _text(item: object, name: str, what: str) -> str:
    value = item.get(name, {}).get("S") if isinstance(item, dict) else None
    if not isinstance(value, str) or not value:
        raise FormatError(
            f"the dedupe table's item of {what} has no {name!r}",
            next_step="something else writes to this table: set minutebook.dedupeTable to a table of its own",
        )
    return value


def _key(claim: EventClaim) -> dict[str, str]:
    return {"S": f"e:{claim.event_id}"}
