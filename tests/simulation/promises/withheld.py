"""What is promised of aggregates that KCL does not deliver, or delivers at one time and not at another.

What no delivery brings (empty, malformed, of no shard; another shard's while every batch is filtered alike) is never
archived. A proven mark or end that passes it names it, and it lies under `_undelivered/` as the stream holds it.

What some deliveries bring and others do not, the *strays*, may be archived or not, and this is all that is promised:

- no position is archived twice, but see below, and what is archived is byte for byte what was delivered;
- whoever was delivered a stray checkpoints beyond it only when a segment's span holds it: its own, or that of another
  writer whose delivery had left it out; or when it is kept beside the archive, because a stored segment follows the
  tail before it. In that second case it was delivered and is not archived: P1 does not hold of strays, and nothing
  says so but level `stream`;
- a checkpoint, a mark or an end may pass a stray that is not archived, as it may pass what KCL withholds for ever;
- no stray keeps a shard from being marked, or from ending: two proofs of an end may name two positions when only
  strays lie between them.

Not promised: that each record is archived once while two writers of one shard live whose deliveries differ. The next
slot is named by its first record. If that is a stray for one of them, and not there for the other, both PUTs succeed,
and what follows is archived twice. It takes a zombie, a stray at the very place where the chain goes on, and KCL
without the shard's hash keys; the audit finds the spans that cross. Here it is counted ("beyond the promise: two
deliveries were filtered differently"), and the history is judged no further. Where only strays are written at the
second slot, they lie beside the chain: nothing is missing, and the audit calls it broken all the same. A restart
before the checkpoint suffices for that, if the strays are committed before the stored segment is met. And who is
delivered a stray at a shard's beginning, finds it begun behind that, and must commit before the next record comes, is
refused (exit 6); the other way round the chain goes on, and its first segment says `unproven`.
"""

import base64
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from minutebook.format.coverage_markers import UndeliveredRecord, decode_coverage_marker
from minutebook.format.position import Position
from tests.fakes.shard import UserRecord
from tests.simulation.services.kinesis import SimShard, data_of
from tests.simulation.world import Violation, World, name

if TYPE_CHECKING:
    from tests.simulation.promises.ledger import Ledger
    from tests.simulation.services.bucket import Stored
    from tests.simulation.services.kcl import Consumer


class Withheld:
    """The truth about what KCL withholds of one shard, beside what is kept of it.

    `archived` are the records that lie in the bodies that were looked at, not in a span alone.
    """

    def __init__(self, world: World, shard: SimShard) -> None:
        self._world = world
        self._shard = shard
        self._kept: set[int] = set()
        self.archived: set[int] = set()

    def kept(self, key: str, stored: "Stored") -> None:
        """Look at a new object under `_undelivered/`: it is what the stream holds, and KCL withholds it."""
        found = decode_coverage_marker(stored.body, UndeliveredRecord, key)
        number = self._shard.held_at(int(found.sequence_number))
        if number is None:
            raise Violation(f"{key} was never put")
        truth = self._shard.held[number]
        if truth.fault is None:
            raise Violation(f"{key} calls undelivered what KCL delivers")
        if (found.reason, found.first_sub) != (truth.fault, truth.good):
            raise Violation(
                f"{key} says {found.reason} from {found.first_sub} on, not {truth.fault} from {truth.good}"
            )
        data = base64.b64decode(found.data_base64)
        if (found.partition_key, found.arrival_ms, data) != (
            truth.partition_key,
            truth.arrival_ms,
            data_of(self._shard, truth),
        ):
            raise Violation(f"{key} is not kept as the stream holds it")
        self._kept.add(truth.sequence)
        self._world.tally[f"kept: a record that is not delivered, {truth.fault}"] += 1

    def named(self, key: str, sequences: Iterable[int]) -> None:
        """Look at the numbers that a mark or an end names: they are kept."""
        for sequence in sequences:
            if sequence not in self._kept:
                raise Violation(f"{key} names {sequence}, which is not kept")
            self._world.tally["checked: a record that is named as not delivered"] += 1

    def passed(
        self, key: str, position: Position | None, from_ms: float, until_ms: float, begun_ms: float | None
    ) -> None:
        """Check that what KCL withholds behind a proven position is kept, if it was put between the two times.

        Nobody asks for what is stamped before the application began, even if it was put a moment later.
        """
        for record in self._shard.held:
            if record.fault is None or not from_ms < record.put_at * 1000 <= until_ms:
                continue
            if begun_ms is not None and record.arrival_ms < begun_ms:
                continue
            last = Position(record.sequence, max(record.good - 1, 0))
            if record.sequence not in self._kept and (position is None or last >= position):
                raise Violation(f"{key} passes {record.sequence}, which KCL does not deliver and nobody keeps")
            self._world.tally["checked: a record that is not delivered and that evidence covers"] += 1

    def is_kept(self, position: Position) -> bool:
        """Tell whether the Kinesis record of a position lies beside the archive."""
        return position.sequence in self._kept

    def is_optional(self, number: int) -> bool:
        """Tell whether a record may be archived or not."""
        return number in self._shard.strays

    def demanded(self, first: int, end: int) -> int:
        """Count the records from `first` to `end` - 1 that must be archived."""
        return sum(number not in self._shard.strays for number in range(first, end))

    def are_optional(self, first: int, end: int) -> bool:
        """Tell whether there are records from `first` to `end` - 1, and each of them may be archived or not."""
        return first < end and not self.demanded(first, end)

    def expected(self, first: int, last: int, positions: Collection[Position]) -> list[UserRecord]:
        """Return the records that a body at these positions must hold, and note that they are archived."""
        everything = self._shard.everything
        numbers = [
            at for at in range(first, last + 1) if not self.is_optional(at) or everything[at].position in positions
        ]
        self.archived.update(numbers)
        return [everything[number] for number in numbers]

    def count(self, spanned: Collection[int]) -> None:
        """Count what became of the strays."""
        for number in self._shard.strays:
            is_spanned, is_archived = number in spanned, number in self.archived
            is_kept = self.is_kept(self._shard.everything[number].position)
            beside = "kept beside the archive" if is_kept else "passed over"
            where = "archived" if is_archived else "left out of a span" if is_spanned else beside
            self._world.tally[f"strays: {where}"] += 1


def is_refused_for_stray(consumer: "Consumer", ledger: "Ledger") -> bool:
    """Tell whether a consumer was refused because a stray begins the shard, for it or for whoever came first."""
    is_start = isinstance(consumer.checkpointed, str) or consumer.checkpointed == ledger.adopted
    if not ledger.shard.strays or ledger.start is None or not is_start:
        return False
    begun = ledger.shard.index[ledger.start.first_position()]
    if begun in ledger.shard.strays or any(number < begun for number in consumer.strays):
        ledger.world.happened("beyond the promise: refused, a stray begins the shard", consumer.host.name)
        return True
    return False


def check_passed_strays(consumer: "Consumer", ledger: "Ledger") -> None:
    """Check that a consumer's checkpoint passes no stray that it was delivered, but for those inside a span or kept.

    Raises:
        Violation: it does.
    """
    checkpoint = consumer.checkpointed
    if not consumer.strays or not isinstance(checkpoint, Position) or ledger.beyond_promise:
        return
    everything = consumer.shard.everything
    # Of a stream that was made anew since nothing is asked.
    for number in (number for number in consumer.strays if number < len(everything)):
        position = everything[number].position
        if position <= checkpoint and number not in ledger.committed and not ledger.withheld.is_kept(position):
            raise Violation(
                f"{consumer.host.name} was delivered {name(number)} and checkpointed beyond it, unarchived"
            )
