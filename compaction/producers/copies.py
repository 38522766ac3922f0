"""Producer duplicates of a day: its ids and those of the day before are brought together, and copies are told.

Two steps, because only whole, ordered objects take part, and which those are is known when all tasks are done.
"""

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from archive.errors import SettingsError
from compaction.audit.chains import head_rows, pieces_of, sort_out, spans_of
from compaction.job.context import AuditOptions, Ports
from compaction.job.exchange import Exchanged, NothingExchanged, partitions_for
from compaction.producers.day_before import DayBefore
from compaction.tasks.event_ids import Copy, IdOrder, Layout, unpack_copies
from compaction.tasks.plan import Piece, Task, Unit, group_overlaps, plan_tasks, single_units
from compaction.tasks.task import Order, Outcome

_KEPT: Final = 20
_MANY: Final = 2_000


class Dealt(NamedTuple):
    """A day and the day before, read for their ids.

    `pieces` are in the order of their numbers, those of the day before first (None: a Parquet file of it).
    """

    exchanged: Exchanged
    pieces: tuple[Piece | None, ...]
    first_of_day: int
    before: DayBefore
    outcomes: list[Outcome]
    earlier: list[Outcome]


class ShardCopies(NamedTuple):
    """The copies in one shard: how many, the first few, and the pieces that hold one."""

    records: int
    samples: tuple[Copy, ...]
    numbers: tuple[int, ...]


class Copies(NamedTuple):
    """The copies of a day.

    `dropped` maps the key of a piece to the numbers of its lines that repeat an event, ascending. `doubt` says why
    copies of events of the day before may be among what is not reported. `lines` took part, `without_id` of them had
    no id.
    """

    pieces: tuple[Piece | None, ...]
    shards: Mapping[str, ShardCopies]
    dropped: Mapping[str, Sequence[int]]
    doubt: str
    lines: int
    without_id: int

    @property
    def total(self) -> int:
        """All copies."""
        return sum(shard.records for shard in self.shards.values())


def deal(ports: Ports, orders: Sequence[Order], before: DayBefore, options: AuditOptions) -> Dealt:
    """Run the day's tasks and those of the day before, and deal the ids of their lines out by digest.

    Raises:
        StoreError: what a task could not read.
    """
    if ports.exchange is None or options.event_id is None:
        raise SettingsError("event ids cannot be compared here", next_step="leave --event-id out")
    earlier = _orders_before(ports, before, options, first_number=len(orders))
    partitions = partitions_for(before.size + sum(order.task.size for order in orders))
    pieces: list[Piece | None] = []
    asked: list[Order] = []
    for order in [*earlier, *orders]:
        asked.append(order._replace(ids=IdOrder(options.event_id, len(pieces), partitions)))
        pieces += order.task.pieces or [None] * len(order.published)
    first_of_day = len(pieces) - sum(len(order.task.pieces) for order in orders)
    exchanged = ports.exchange(asked) if asked else NothingExchanged()
    by_number = {outcome.number: outcome for outcome in exchanged.outcomes}
    return Dealt(
        exchanged,
        tuple(pieces),
        first_of_day,
        before,
        [by_number[order.task.number] for order in orders],
        [by_number[order.task.number] for order in earlier],
    )


def resolve(ports: Ports, dealt: Dealt, units: Sequence[Unit]) -> Copies:
    """Tell the copies. Only pieces that stand alone among `units`, whole and in order, take part.

    Lines of the others are in doubt, and kept: a finding of their own says what is wrong with them.
    """
    good = _alone(units)
    good_before, doubt = _judge_before(ports, dealt)
    excluded = frozenset(
        number
        for number, piece in enumerate(dealt.pieces)
        if piece is not None and piece.key not in (good if number >= dealt.first_of_day else good_before)
    )
    starts = _shard_starts(dealt)
    packed = dealt.exchanged.copies(Layout(dealt.first_of_day, tuple(starts.values()), excluded))
    without_id = {key: count for one in dealt.outcomes for key, count in one.without_id.items() if key in good}
    return Copies(
        dealt.pieces,
        _by_shard(packed, starts),
        _lines(packed, dealt.pieces),
        doubt,
        sum(read.lines for one in dealt.outcomes for read in one.facts if read.key in good),
        sum(without_id.values()),
    )


def _orders_before(ports: Ports, before: DayBefore, options: AuditOptions, first_number: int) -> list[Order]:
    if before.inventory is not None:
        tasks = plan_tasks(single_units(pieces_of(before.inventory)), first_number=first_number)
        return [Order(task, ports.place.address) for task in tasks]
    if options.published is None:
        return []
    address = options.published.address
    return [
        Order(Task(number, ()), address, published=(key,))
        for number, key in enumerate(before.published, start=first_number)
    ]


def _alone(units: Sequence[Unit]) -> frozenset[str]:
    return frozenset(unit.pieces[0].key for unit in units if not unit.merge)


def _judge_before(ports: Ports, dealt: Dealt) -> tuple[frozenset[str], str]:
    """Return the keys of the day before that take part, and what is in doubt about the others."""
    inventory = dealt.before.inventory
    if inventory is None:
        return frozenset(), dealt.before.doubt
    facts = {read.key: read for outcome in dealt.earlier for read in outcome.facts}
    metadata = head_rows(ports.archive, inventory.foreign, ports.waits)
    metadata |= {key: read.metadata for key, read in facts.items()}
    described = sort_out(ports.archive, inventory, metadata, ports.waits)
    good = _alone(group_overlaps(spans_of(inventory, described, facts)))
    others = [
        key
        for key, read in facts.items()
        if (read.lines or read.problem) and key not in good and key not in described.copies
    ]
    return good, f"{len(others)} object(s) of {inventory.day} are not whole and in order" if others else ""


def _shard_starts(dealt: Dealt) -> dict[str, int]:
    """Return the number of each shard's first piece of the day, ascending."""
    starts: dict[str, int] = {}
    for number, piece in enumerate(dealt.pieces):
        if number >= dealt.first_of_day and piece is not None:
            starts.setdefault(piece.shard_id, number)
    return starts


def _by_shard(packed: Sequence[bytes], starts: Mapping[str, int]) -> dict[str, ShardCopies]:
    """Count the copies of each shard, and keep the first few: memory is that of the numbers of pieces."""
    shards, firsts = list(starts), list(starts.values())
    counts: dict[str, int] = {}
    samples: dict[str, list[Copy]] = {}
    numbers: dict[str, set[int]] = {}
    for part in packed:
        for copy in unpack_copies(part):
            shard = shards[bisect_right(firsts, copy.place.piece) - 1]
            counts[shard] = counts.get(shard, 0) + 1
            numbers.setdefault(shard, set()).add(copy.place.piece)
            kept = samples.setdefault(shard, [])
            kept.append(copy)
            if len(kept) >= _MANY:
                kept[:] = sorted(kept)[:_KEPT]
    return {
        shard: ShardCopies(counts[shard], tuple(sorted(samples[shard])[:_KEPT]), tuple(sorted(numbers[shard])))
        for shard in sorted(counts)
    }


def _lines(packed: Sequence[bytes], pieces: Sequence[Piece | None]) -> dict[str, Sequence[int]]:
    lines: dict[int, array[int]] = {}
    for part in packed:
        for copy in unpack_copies(part):
            lines.setdefault(copy.place.piece, array("I")).append(copy.place.line)
    found: dict[str, Sequence[int]] = {}
    for number, unsorted in lines.items():
        piece = pieces[number]
        if piece is not None:
            found[piece.key] = array("I", sorted(unsorted))
    return found
