"""The dedupe table in memory, with faults on both sides of a request."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from consumer.dedupe.claim_batches import Answer, EventClaim, Owner, StatementBatch, Undecided
from consumer.dedupe.table import ShardTail, decode_tail, tail_item
from minutebook.errors import FormatError, OutcomeUnknown, StoreRefused

ITEM_BYTES: Final = 400 << 10
"""What an item may have, names and values together: DynamoDB's own limit."""
_KEY_BYTES: Final = 2048


class MemoryDedupeTable:
    """Implements `DedupeTable`. `lose_answers` applies that many requests and loses their answers.

    Of the statements of a batch, so many in turn are throttled (`throttle_statements`), or applied and answered with
    an error of the server (`fail_statements`).

    Rows are kept as text, as the service does: what a test changes afterwards in memory does not reach them.
    """

    def __init__(self) -> None:
        self.claims: dict[str, tuple[Owner, int]] = {}
        self.tails: dict[str, dict[str, Any]] = {}
        self.requests: Counter[str] = Counter()
        self.lose_answers = 0
        self.refuse_before = 0
        self.throttle_statements = 0
        self.fail_statements = 0
        self.is_gone = False

    def drop(self) -> None:
        """Somebody deletes the table."""
        self.is_gone = True

    def claim(self, claim: EventClaim, *, expires: int, now: int) -> Owner:
        """Apply the condition of the real table."""
        self._begin("claim")
        if self.is_gone:
            raise StoreRefused("ResourceNotFoundException", next_step="restart")
        if not _fits(claim):
            raise StoreRefused("ValidationException: the key or the item is too long")
        held = self.claims.get(claim.event_id)
        if held is None or held[0].position == claim.owner or held[1] < now:
            owner = Owner(claim.owner, claim.digest)
            self.claims[claim.event_id] = (owner, expires)
            self._answer()
            return owner
        self._answer()
        return held[0]

    def claim_batch(self, batch: StatementBatch) -> Sequence[Answer]:
        """Decide each claim by itself, as the service does."""
        batch.statements("fake")
        self._begin(batch.verb)
        answers = [self._decide(batch, claim) for claim in batch.claims]
        self._answer()
        return answers

    def _decide(self, batch: StatementBatch, claim: EventClaim) -> Answer:
        if self.throttle_statements:
            self.throttle_statements -= 1
            return Undecided.AGAIN
        if self.is_gone or not _fits(claim):
            return Undecided.OTHERWISE
        held, expires = self.claims.get(claim.event_id, (None, 0))
        is_wanted = held is None if batch.verb == "INSERT" else held is not None and held.position == claim.owner
        if not is_wanted:
            is_told = batch.verb == "UPDATE" and expires >= batch.now
            return held if is_told and held is not None else Undecided.OTHERWISE
        owner = Owner(claim.owner, claim.digest)
        self.claims[claim.event_id] = (owner, batch.expires)
        if self.fail_statements:
            self.fail_statements -= 1
            return Undecided.AGAIN
        return owner

    def read_tail(self, shard: str) -> ShardTail | None:
        """Return the row."""
        self._begin("read_tail")
        self._answer()
        row = self.tails.get(shard)
        try:
            return None if row is None else decode_tail(row)
        except FormatError:
            return None

    def write_tail(self, shard: str, tail: ShardTail) -> None:
        """Store the row."""
        self._begin("write_tail")
        item: dict[str, Any] = tail_item(shard, tail)
        if sum(len(name) + len(text) for name, value in item.items() for text in value.values()) > ITEM_BYTES:
            raise StoreRefused("ValidationException: Item size has exceeded the maximum allowed size")
        self.tails[shard] = item
        self._answer()

    def _begin(self, verb: str) -> None:
        self.requests[verb] += 1
        if self.refuse_before:
            self.refuse_before -= 1
            raise OutcomeUnknown("throttled before it was applied")

    def _answer(self) -> None:
        if self.lose_answers:
            self.lose_answers -= 1
            raise OutcomeUnknown("applied, and the answer was lost")


def _fits(claim: EventClaim) -> bool:
    key = len(f"e:{claim.event_id}".encode(errors="surrogatepass"))
    return key <= _KEY_BYTES and key + len(claim.owner) + len(claim.digest) <= ITEM_BYTES
