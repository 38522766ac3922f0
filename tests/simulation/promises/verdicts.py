"""What is promised of producers' duplicates, checked on the whole archive; independent of the consumer.

The producers tell which event each record holds. So the check needs no table, no watermark and no JMESPath.
"""

import json
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from consumer.dedupe.watermarks import MAX_INTERVALS
from tests.simulation.world import Violation, name

if TYPE_CHECKING:
    from tests.simulation.histories.shard_site import ShardSite
    from tests.simulation.histories.sharded_history import ShardedHistory

DAY: Final = 86_400
CLOCKS: Final = 5 * 3600
"""How much of a claim's extra day wrong clocks may eat in these histories."""

REREAD: Final = 2 * 3600
"""A processor learns of a raised retention within an hour of work, or two when Kinesis throttles it."""


class _Copy(NamedTuple):
    """One archived record that holds an event."""

    put_at: float
    site: "ShardSite"
    number: int
    duplicate_of: str | None

    def __str__(self) -> str:
        return f"{name(self.number)} of {self.site.shard_id}"


def check_claims(history: "ShardedHistory") -> None:
    """Check mode `claims`: each archived event is kept exactly once, and what was dropped names what was kept.

    Raises:
        Violation: an event is kept twice within the time that its claim lives, is dropped everywhere or for another
            event of its id, a record without an id is dropped, or one record was judged in two ways.
    """
    for key, copies in sorted(_copies(history.shard_sites).items(), key=lambda item: repr(item[0])):
        kept = [copy for copy in copies if copy.duplicate_of is None]
        for copy, other in pairwise(kept):
            if key in history.ids_in_conflict:
                history.world.tally["checked: a copy kept beside another event of its id"] += 1
            elif other.put_at - copy.put_at < DAY - CLOCKS and not _outlived(history, copy, other):
                raise Violation(f"event {key} is kept twice: {copy} and {other}")
        history.world.tally["checked: copies dropped"] += len(copies) - len(kept)
        for copy in copies:
            if copy.duplicate_of is not None:
                _check_original(history, key, copy, {(other.site.number, other.number) for other in kept})
    for site in history.shard_sites:
        _check_judgements(site, once=not history.scenario.trims)


def _check_judgements(site: "ShardSite", *, once: bool) -> None:
    """Check that no record without an id was dropped, and (`once`) that all writers judged each record alike."""
    for number, verdict in site.ledger.verdicts.items():
        if verdict is not None and site.keys[number] is None:
            raise Violation(f"{name(number)} of {site.shard_id} has no id and was dropped as {verdict}")
    for number, _ in site.ledger.ever_dropped() if once else ():
        if site.ledger.verdicts.get(number, "") is None:
            raise Violation(f"{name(number)} of {site.shard_id} was kept, and dropped by another writer")


def _outlived(history: "ShardedHistory", *copies: _Copy) -> bool:
    """Tell whether the first claim was made for a shorter retention than the stream has now, and may have run out."""
    raised = history.retention_raised_at
    owners = (
        f"flights/{copy.site.shard_id}/{copy.site.stream.shard.everything[copy.number].position}" for copy in copies
    )
    return raised is not None and min(history.claimed_at[owner] for owner in owners) < raised + REREAD


def _copies(sites: Sequence["ShardSite"]) -> dict[Hashable, list[_Copy]]:
    found: dict[Hashable, list[_Copy]] = {}
    for site in sites:
        for number, verdict in site.ledger.verdicts.items():
            key = site.keys[number]
            if key is not None:
                found.setdefault(key, []).append(_Copy(site.stream.shard.put_at[number], site, number, verdict))
    for copies in found.values():
        copies.sort(key=lambda copy: (copy.put_at, copy.site.number, copy.number))
    return found


def _check_original(history: "ShardedHistory", key: Hashable, copy: _Copy, kept: set[tuple[int, int]]) -> None:
    """Follow `duplicate_of`: it is archived and kept, or will be, or retention took it before it could be."""
    shard_id, _, position = (copy.duplicate_of or "").removeprefix("flights/").partition("/")
    site = next((site for site in history.shard_sites if site.shard_id == shard_id), history.shard_sites[0])
    number = next((at for held, at in site.stream.shard.index.items() if str(held) == position), None)
    if number is None or site.keys[number] != key:
        raise Violation(f"{copy} was dropped for {copy.duplicate_of}, which is another event")
    if (site.number, number) in kept:
        return
    if number in site.ledger.verdicts:
        if history.scenario.trims:
            # A claim ran out while a zombie slept, and it claimed again for a record that is archived as a copy.
            history.world.tally["checked: an original that is a copy itself"] += 1
            _check_original(history, key, copy._replace(duplicate_of=site.ledger.verdicts[number]), kept)
            return
        raise Violation(f"{copy} was dropped for {name(number)} of {shard_id}, which was dropped, too")
    if number < site.stream.shard.trimmed:
        # Told in docs/decisions/0010: retention took the record that holds the claim.
        history.world.tally["checked: an original that retention took"] += 1
    elif site.number in history.drained:
        raise Violation(f"{copy} was dropped for {name(number)} of {shard_id}, which was never archived")


class _Seen:
    """What the chain of a shard holds at one point: numbers by producer, and how sure the state can be of them."""

    def __init__(self, parents: Sequence["_Seen"] = ()) -> None:
        self.numbers: dict[Hashable, set[int]] = {}
        self.overflowed: set[Hashable] = set()
        self.doubted: dict[Hashable, set[int]] = {}
        for parent in parents:
            for producer, numbers in parent.numbers.items():
                self.numbers.setdefault(producer, set()).update(numbers)
                self._measure(producer)
            self.overflowed |= parent.overflowed
            for producer, numbers in parent.doubted.items():
                self.doubted.setdefault(producer, set()).update(numbers)

    def add(self, producer: Hashable, number: int) -> None:
        """Take a number."""
        self.numbers.setdefault(producer, set()).add(number)
        self._measure(producer)

    def doubt(self) -> None:
        """Everything so far may have been forgotten."""
        self.doubted = {producer: set(numbers) for producer, numbers in self.numbers.items()}

    def has(self, producer: Hashable, number: int) -> bool:
        """Tell whether the chain holds it."""
        return number in self.numbers.get(producer, ())

    def may_forget(self, producer: Hashable, number: int) -> bool:
        """Tell whether doubt may keep it again."""
        return producer in self.overflowed or number in self.doubted.get(producer, ())

    def _measure(self, producer: Hashable) -> None:
        numbers = self.numbers[producer]
        if len(numbers) > MAX_INTERVALS and sum(number - 1 not in numbers for number in numbers) > MAX_INTERVALS:
            self.overflowed.add(producer)


def check_watermarks(history: "ShardedHistory") -> None:
    """Check mode `watermark`: nothing is dropped that its chain does not hold, and nothing kept twice but in doubt.

    A chain holds what its parents held. Doubt is: more open gaps than are remembered, and a chain that goes on behind
    something else than its last segment, or behind it after an outage longer than the retention (the checkpoint was
    lost or too old, and retention took what lay between).

    Raises:
        Violation: a number was lost, kept twice without doubt, or a state names a number that is not archived.
    """
    ends: dict[int, _Seen] = {}
    for site in history.shard_sites:
        seen = ends[site.number] = _Seen([ends[parent.number] for parent in site.parents])
        if any(parent.ledger.end is None or parent.ledger.end.proof != "read" for parent in site.parents):
            # Retention took the parent's rest, or all of it, from a reader that had lost its checkpoint.
            seen.doubt()
        before = None
        for segment in site.ledger.chain():
            goes_on = before is None or segment.metadata.after == before.metadata.last
            if not goes_on or segment.metadata.is_doubtful:
                seen.doubt()
            before = segment
            for number in range(segment.first, segment.last + 1):
                if number in site.ledger.verdicts:
                    _check_number(history, site, number, seen)
            state = site.ledger.state_of(segment)
            if state is None:
                raise Violation(f"{name(segment.first)} of {site.shard_id} carries no watermarks")
            _check_state(state, seen, f"{name(segment.last)} of {site.shard_id}")


def _check_number(history: "ShardedHistory", site: "ShardSite", number: int, seen: _Seen) -> None:
    key, verdict = site.keys[number], site.ledger.verdicts[number]
    where = f"{name(number)} of {site.shard_id}"
    if not isinstance(key, tuple):
        if verdict is not None:
            raise Violation(f"{where} has no number and was dropped as {verdict}")
        return
    producer, value = key
    if verdict is not None:
        history.world.tally["checked: copies dropped"] += 1
        if not seen.has(producer, value):
            raise Violation(f"{where} was dropped as {verdict}, and nothing before it holds that number: it is lost")
    elif seen.has(producer, value):
        if not seen.may_forget(producer, value):
            raise Violation(f"{where} is kept, and {key} was archived before, without doubt")
        history.world.tally["checked: a copy kept in doubt"] += 1
    seen.add(producer, value)


def _check_state(text: str, seen: _Seen, where: str) -> None:
    """Check that a state claims nothing that is not archived."""
    rows: list[tuple[str, list[tuple[int, int]]]] = json.loads(text)
    for producer, intervals in rows:
        # The product knows a producer by the JSON text of its key, and by nothing when there is only one.
        known = seen.numbers.get(json.loads(producer)) if producer else next(iter(seen.numbers.values()), None)
        for low, high in intervals:
            missing = set(range(low, high + 1)) - (known or set())
            if missing:
                raise Violation(f"the watermarks at {where} call {producer[:4]} {min(missing)} archived")
