"""Producers that send again: what they know of their events, and which of them the stream then holds twice."""

import json
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from tests.simulation.histories.shard_site import ShardSite
    from tests.simulation.histories.sharded_history import ShardedHistory

EVENT_ID: Final = "event.id"
SEQUENCE, KEY = "seq", "device"
Entry = tuple[bytes, Hashable | None]
"""A payload, and the event it holds; None for one that cannot be recognised."""


class Producer(Protocol):
    """Puts records into the shards of a history."""

    def put(self, history: "ShardedHistory") -> None:
        """Put some records."""
        ...


class PlainProducer:
    """Sends every event once."""

    def put(self, history: "ShardedHistory") -> None:
        """Put one to four events, perhaps as aggregates."""
        rng = history.rng
        for _ in range(rng.randint(1, 4)):
            sites = [site for site in history.shard_sites if site.is_open]
            site = rng.choice(sites)
            size = rng.randint(2, 4) if rng.random() < 0.2 else 1
            append(history, site, [(b"%d" % (len(site.keys) + at), None) for at in range(size)])


class IdProducer:
    """Writes an id into each event and repeats it when it sends again, to whichever shard."""

    def __init__(self) -> None:
        self._sent: list[Entry] = []
        self._ids: dict[Hashable, Any] = {}

    def put(self, history: "ShardedHistory") -> None:
        """Put one to four times an event, or an aggregate of some; new ones, copies, and some without an id."""
        rng = history.rng
        for _ in range(rng.randint(1, 4)):
            sites = [site for site in history.shard_sites if site.is_open]
            size = rng.randint(2, 5) if rng.random() < 0.25 else 1
            append(history, rng.choice(sites), [self._one(history) for _ in range(size)])

    def _one(self, history: "ShardedHistory") -> Entry:
        rng, world = history.rng, history.world
        chance = rng.random()
        if chance < 0.1:
            world.tally["producer: an event without an id"] += 1
            return rng.choice((b"no json", b'{"event":null}', b'{"event":{"id":""}}', b"\xff", b"[1]")), None
        if chance < 0.45 and self._sent:
            world.tally["producer: sends an event again"] += 1
            return rng.choice(self._sent[-8:] if rng.random() < 0.6 else self._sent)
        number = len(self._sent)
        if chance < 0.5 and self._sent:
            # An id that another event has already. Neither may disappear because of the other; copies may be kept.
            world.tally["producer: two events of one id"] += 1
            taken = self._ids[rng.choice(self._sent)[1]]
            key = (repr(taken), number)
            history.ids_in_conflict |= {repr(taken), key}
            return json.dumps({"event": {"id": taken}, "n": number}).encode(), key
        event_id: Any = rng.choice((f"e{number}", f"e{number}", number, f"é{number}"))
        if rng.random() < 0.05:
            event_id = f"{number}" + "x" * 600
        payload = json.dumps({"event": {"id": event_id}, "n": number}).encode()
        self._sent.append((payload, repr(event_id)))
        self._ids[repr(event_id)] = event_id
        return self._sent[-1]


class NumberProducer:
    """Some producers that number their events, each on the shard that its key belongs to.

    `partial`: a request may fail for one record and succeed for the next, which then comes first. `steps` lie between
    two numbers of one producer. `ordered`: a number is sent once the one before it was taken.
    """

    def __init__(self, history: "ShardedHistory") -> None:
        rng, scenario = history.rng, history.scenario
        self._ordered, self._partial, self._steps = scenario.ordered, scenario.partial, scenario.number_steps
        count = rng.randint(1, 3) if scenario.keyed else 1
        tail = "x" * 400 if rng.random() < 0.15 else ""
        self._names = [f"d{number}{tail}" for number in range(count)]
        self._points = {name: rng.random() for name in self._names}
        self._next = dict.fromkeys(self._names, 0)
        self._late: dict[str, list[int]] = {name: [] for name in self._names}
        self._taken: dict[str, list[int]] = {name: [] for name in self._names}

    def put(self, history: "ShardedHistory") -> None:
        """Let some producers send a request each."""
        rng = history.rng
        for _ in range(rng.randint(1, 3)):
            name = rng.choice(self._names)
            point = self._points[name]
            site = next(site for site in history.shard_sites if site.is_open and site.span.holds(point))
            numbers = self._request(history, name)
            entries = [self._entry(history, name, number) for number in numbers]
            if rng.random() < 0.08:
                history.world.tally["producer: an event without a number"] += 1
                entries.append((rng.choice((b"no json", b'{"device":"d0"}', b'{"seq":-1,"device":"d0"}')), None))
            if rng.random() < 0.25:
                append(history, site, entries)
            else:
                for entry in entries:
                    append(history, site, [entry])

    def _request(self, history: "ShardedHistory", name: str) -> list[int]:
        rng, world = history.rng, history.world
        taken, late = self._taken[name], self._late[name]
        numbers = []
        for _ in range(rng.randint(1, history.scenario.numbers_at_once)):
            number = self._next[name]
            self._next[name] += rng.choice(self._steps)
            if self._partial and rng.random() < 0.2:
                world.tally["producer: a record fails and its successor is taken"] += 1
                late.append(number)
            else:
                numbers.append(number)
        for number in list(late):
            if rng.random() < 0.4:
                late.remove(number)
                numbers.append(number)
        taken += numbers
        if taken and rng.random() < 0.5:
            world.tally["producer: sends an event again"] += 1
            again = rng.choice(taken[-6:] if rng.random() < 0.6 else taken)
            numbers.insert(rng.randint(0, len(numbers)) if again not in numbers else len(numbers), again)
        return numbers

    def _entry(self, history: "ShardedHistory", name: str, number: int) -> Entry:
        written = str(number) if history.rng.random() < 0.1 else number
        key = {KEY: name} if history.scenario.keyed else {}
        return json.dumps({SEQUENCE: written} | key).encode(), (name, number)


def append(history: "ShardedHistory", site: "ShardSite", entries: list[Entry]) -> None:
    """Put records, one aggregate when there are several; arrival times may step back."""
    if not entries:
        return
    first = len(site.keys)
    rng, world = history.rng, history.world
    site.stream.shard.put_now(
        [payload for payload, _ in entries],
        int((world.now + world.stamps.off_seconds(rng)) * 1000),
        rng.choice(("p1", "ключ")),
        world.now,
        rng.randint(1, 9),
    )
    site.keys += [key for _, key in entries]
    site.trouble()
    world.now += rng.choice((0.01, 0.5, 3.0))
    if world.trace is not None:
        world.note("producer", f"{site.shard_id[-2:]} #{first}: {[str(key)[:20] for _, key in entries]}")
