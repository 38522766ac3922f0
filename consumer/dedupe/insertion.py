"""Claims of up to 25 events in one request, for events that nobody has claimed yet: nearly all of them.

    what is sent        BatchExecuteStatement with one PartiQL INSERT per claim; each succeeds or fails by itself,
                        and an INSERT fails where an item of that id is there, whoever wrote it and however old
    a statement's entry
      no Error          CLAIMED   the item was not there, and is now: ours
      DuplicateItem     HELD      somebody's, or ours by a request whose answer got lost, or one that has run out
      throttled, 500    UNKNOWN   it may have been applied: ask again
      any other Error   HELD      and REFUSED is told: the statement says nothing of the event

An INSERT is a claim on the first clause of the condition alone (`consumer.dedupe.table`). So CLAIMED is final, and of
HELD nothing is believed: the claim is made again by the conditional PutItem, which judges by all three clauses and
tells the owner. No answer of a batch can make a claim somebody else's.

Which errors a statement may have: "BatchStatementError", DynamoDB API reference. The entries are in the order of the
statements ("BatchExecuteStatement", same place), and a success names its table: an entry that says nothing is HELD.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from archive.errors import OutcomeUnknown

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import BatchStatementRequestTypeDef

MOST_STATEMENTS: Final = 25
"""In one request ("Running batch operations with PartiQL for DynamoDB", developer guide)."""
_DUPLICATE: Final = "DuplicateItem"
_PASSING: Final = frozenset(
    {
        "InternalServerError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "ThrottlingError",
        "TransactionConflict",
    }
)


class Claim(NamedTuple):
    """A record's claim on its event: `owner` names its position, `digest` its payload."""

    event_id: str
    owner: str
    digest: str


class Answer(Enum):
    """What is known of one claim behind a batch."""

    CLAIMED = "ours"
    HELD = "ask for it alone"
    UNKNOWN = "ask again"


class Insertion(NamedTuple):
    """The answers to a batch, in its order, and what a statement was refused with, if one was."""

    answers: list[Answer]
    refusal: str | None


def check_batch(claims: Sequence[Claim]) -> None:
    """Raise ValueError unless these are 1 to 25 claims, each of another event.

    DynamoDB refuses a batch that names an item twice, and may have applied a part of it by then.
    """
    if not 0 < len(claims) <= MOST_STATEMENTS or len({claim.event_id for claim in claims}) < len(claims):
        raise ValueError(f"not a batch of 1 to {MOST_STATEMENTS} claims on different events: {claims}")


def insert_statements(table: str, claims: Sequence[Claim], expires: int) -> "list[BatchStatementRequestTypeDef]":
    """Return a batch; the values travel as parameters, so an id needs no quotes."""
    statement = f"INSERT INTO \"{table}\" VALUE {{'id':?,'owner':?,'digest':?,'expires':?}}"
    until = {"N": str(expires)}
    return [
        {
            "Statement": statement,
            "Parameters": [{"S": f"e:{claim.event_id}"}, {"S": claim.owner}, {"S": claim.digest}, until],
        }
        for claim in claims
    ]


def read_insertion(entries: Sequence[Mapping[str, Any]], count: int, what: str) -> Insertion:
    """Read the answer to a batch of `count` statements.

    Raises:
        OutcomeUnknown: it does not have an entry for each of them.
    """
    if len(entries) != count:
        raise OutcomeUnknown(f"{what}: {len(entries)} answers to {count} statements")
    refused = [
        f"{code}: {entry['Error'].get('Message', '')}" for entry in entries if _is_refusal(code := _code(entry))
    ]
    return Insertion([_answer(entry) for entry in entries], refused[0] if refused else None)


def _answer(entry: Mapping[str, Any]) -> Answer:
    if "Error" not in entry:
        return Answer.CLAIMED if entry.get("TableName") else Answer.HELD
    return Answer.UNKNOWN if _code(entry) in _PASSING else Answer.HELD


def _code(entry: Mapping[str, Any]) -> str | None:
    return str(entry["Error"].get("Code", "")) if "Error" in entry else None


def _is_refusal(code: str | None) -> bool:
    return code is not None and code != _DUPLICATE and code not in _PASSING
