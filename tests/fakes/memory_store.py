"""A bucket in memory, and clients of it that fail on both sides of a request.

A `MemoryBucket` is shared; each writer has a `MemoryStore` of its own, with its own faults, hooks and counts. The
fake is no kinder than S3: metadata above 2 KB, keys above 1,024 bytes and text that is not ASCII are refused, and a
request whose answer is lost may be applied at once, later, or never.
"""

import enum
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from minutebook.errors import OutcomeUnknown, StoreRefused
from minutebook.store.objects import ListedObject, Listing, ObjectHead, PutOutcome, StoredObject
from tests.fakes.clock import ManualClock

PAGE_KEYS = 1000
Hook = Callable[[str, str], None]


class Fault(enum.Enum):
    """What may go wrong with one request."""

    REFUSED_BEFORE = "connection refused: not applied, outcome unknown to the client"
    THROTTLED = "503 SlowDown: not applied, outcome unknown"
    CONFLICT = "409 ConditionalRequestConflict: not applied, outcome unknown"
    ANSWER_LOST = "applied, and the answer is lost"
    DELAYED = "time-out; a PUT is applied later, when the bucket lands what is in flight"
    REFUSED = "403 AccessDenied: refused for good"
    CUT = "half of the body arrives, as if that were all of it; of a GET"
    MISSED = "404, although the object is there; of a GET"


class Faults(Protocol):
    """Decides about each request; None lets it pass."""

    def next(self, verb: str, key: str) -> Fault | None:
        """Return the fault of the next request."""
        ...


class NoFaults:
    """A store on a good day."""

    def next(self, verb: str, key: str) -> Fault | None:  # noqa: ARG002 - the port's shape
        """Let every request pass."""
        return None


class PlannedFaults:
    """Faults in the order given, for one verb (`PUT` unless told); afterwards none."""

    def __init__(self, *faults: Fault | None, verb: str = "PUT") -> None:
        self._left = list(faults)
        self._verb = verb

    def next(self, verb: str, key: str) -> Fault | None:  # noqa: ARG002 - the port's shape
        """Return the next planned fault of this verb."""
        return self._left.pop(0) if verb == self._verb and self._left else None


class EndlessFault:
    """The same fault for every request of the verbs given: an outage."""

    def __init__(self, fault: Fault, verbs: Iterable[str] = ("PUT", "HEAD", "GET", "LIST")) -> None:
        self._fault = fault
        self._verbs = frozenset(verbs)

    def next(self, verb: str, key: str) -> Fault | None:  # noqa: ARG002 - the port's shape
        """Return the fault."""
        return self._fault if verb in self._verbs else None


class FaultOnEachKey:
    """A fault on the first request of one verb for each key; afterwards none."""

    def __init__(self, fault: Fault, verb: str = "GET") -> None:
        self._fault = fault
        self._verb = verb
        self.struck: set[str] = set()

    def next(self, verb: str, key: str) -> Fault | None:
        """Return the fault for a key that was not asked for before."""
        if verb != self._verb or key in self.struck:
            return None
        self.struck.add(key)
        return self._fault


class RandomFaults:
    """Each request fails with probability `rate`, in one of the passing ways, by a seed."""

    _KINDS = (Fault.REFUSED_BEFORE, Fault.THROTTLED, Fault.CONFLICT, Fault.ANSWER_LOST, Fault.DELAYED)

    def __init__(self, rng: random.Random, rate: float) -> None:
        self._rng = rng
        self.rate = rate

    def next(self, verb: str, key: str) -> Fault | None:  # noqa: ARG002 - the port's shape
        """Throw the dice."""
        return self._rng.choice(self._KINDS) if self._rng.random() < self.rate else None


class _Stored(NamedTuple):
    body: bytes
    metadata: dict[str, str]
    content_type: str
    last_modified_ms: int

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.body, usedforsecurity=False).hexdigest()}"'


class MemoryBucket:
    """The objects, and the requests that are still on their way to them."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self._clock = clock or ManualClock()
        self._objects: dict[str, _Stored] = {}
        self._hidden: set[str] = set()
        self._in_flight: list[tuple[str, _Stored]] = []

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys in S3's order (UTF-8 bytes)."""
        return sorted((key for key in self._objects if key.startswith(prefix)), key=str.encode)

    def body(self, key: str) -> bytes:
        """Return an object's bytes."""
        return self._objects[key].body

    def metadata(self, key: str) -> dict[str, str]:
        """Return a copy of an object's metadata."""
        return dict(self._objects[key].metadata)

    def content_type(self, key: str) -> str:
        """Return an object's content type."""
        return self._objects[key].content_type

    def place(self, key: str, body: bytes, metadata: Mapping[str, str] | None = None) -> None:
        """Put an object there behind everybody's back: a foreign one, or a torn one without its metadata."""
        self._objects[key] = _Stored(body, dict(metadata or {}), "binary/octet-stream", self._clock.now_ms())

    def delete(self, key: str) -> None:
        """Delete an object behind everybody's back."""
        del self._objects[key]

    def hide(self, key: str) -> None:
        """Make `key` answer 412 to a conditional PUT and 404 to HEAD and GET."""
        self._hidden.add(key)

    def show(self, key: str) -> None:
        """Answer for a hidden key again."""
        self._hidden.discard(key)

    def land(self) -> int:
        """Apply the delayed PUTs now, each with its condition; return how many of them made an object."""
        landing, self._in_flight = self._in_flight, []
        return sum(self._apply(key, stored) is PutOutcome.CREATED for key, stored in landing)

    def _apply(self, key: str, stored: _Stored) -> PutOutcome:
        if key in self._objects or key in self._hidden:
            return PutOutcome.EXISTS
        self._objects[key] = stored._replace(last_modified_ms=self._clock.now_ms())
        return PutOutcome.CREATED

    def _send_later(self, key: str, stored: _Stored) -> None:
        self._in_flight.append((key, stored))

    def _find(self, key: str) -> _Stored | None:
        return None if key in self._hidden else self._objects.get(key)


class MemoryStore:
    """One client of a bucket; implements `minutebook.store.objects.ObjectStore`.

    `before` and `after` are called with (verb, key) around the moment a request takes effect, so that a test can let
    another writer work in between. `requests` counts by verb and `log` keeps them in order.
    """

    def __init__(self, bucket: MemoryBucket, faults: Faults | None = None) -> None:
        self.bucket = bucket
        self.faults: Faults = faults or NoFaults()
        self.before: Hook | None = None
        self.after: Hook | None = None
        self.requests: Counter[str] = Counter()
        self.log: list[tuple[str, str]] = []

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:
        """Put once, unless something is there."""
        fields = {name.lower(): value for name, value in metadata.items()}
        _check_put(key, fields)
        stored = _Stored(bytes(body), fields, content_type, 0)
        fault = self._begin("PUT", key)
        if fault is Fault.DELAYED:
            self.bucket._send_later(key, stored)
            raise OutcomeUnknown(f"PUT {key}: time-out")
        outcome = self.bucket._apply(key, stored)
        self._end("PUT", key, fault)
        return outcome

    def head(self, key: str) -> ObjectHead | None:
        """Return size, tag and metadata."""
        fault = self._begin("HEAD", key)
        found = self.bucket._find(key)
        self._end("HEAD", key, fault)
        if found is None:
            return None
        return ObjectHead(key, len(found.body), found.etag, dict(found.metadata), found.last_modified_ms)

    def get(self, key: str) -> StoredObject | None:
        """Return the whole object."""
        fault = self._begin("GET", key)
        found = self.bucket._find(key)
        self._end("GET", key, fault)
        if found is None or fault is Fault.MISSED:
            return None
        body = found.body[: len(found.body) // 2] if fault is Fault.CUT else found.body
        return StoredObject(body, found.etag, dict(found.metadata))

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List page by page; each page is a request, and an object may come or go between two pages."""
        after = ""
        while True:
            fault = self._begin("LIST", prefix)
            found = [key for key in self.bucket.keys(prefix) if key.encode() > after.encode()]
            page = [(key, stored) for key in found[:PAGE_KEYS] if (stored := self.bucket._find(key)) is not None]
            self._end("LIST", prefix, fault)
            for key, stored in page:
                yield ListedObject(key, len(stored.body), stored.etag, stored.last_modified_ms)
            if len(found) <= PAGE_KEYS:
                return
            after = found[PAGE_KEYS - 1]

    def list_level(self, folder: str) -> Listing:
        """List with the delimiter `/`, in one page."""
        fault = self._begin("LIST", folder)
        found = {key: stored for key in self.bucket.keys(folder) if (stored := self.bucket._find(key)) is not None}
        self._end("LIST", folder, fault)
        folders = {
            f"{folder}{name}/" for name, slash, _ in (key[len(folder) :].partition("/") for key in found) if slash
        }
        rows = (
            ListedObject(key, len(stored.body), stored.etag, stored.last_modified_ms)
            for key, stored in found.items()
            if "/" not in key[len(folder) :]
        )
        return Listing(tuple(sorted(folders)), tuple(rows))

    def _begin(self, verb: str, key: str) -> Fault | None:
        self.requests[verb] += 1
        self.log.append((verb, key))
        if self.before is not None:
            self.before(verb, key)
        fault = self.faults.next(verb, key)
        if fault is Fault.REFUSED:
            raise StoreRefused(f"{verb} {key}: 403 AccessDenied", next_step="grant it")
        if fault in {Fault.REFUSED_BEFORE, Fault.THROTTLED, Fault.CONFLICT}:
            raise OutcomeUnknown(f"{verb} {key}: {fault.value}")
        return fault

    def _end(self, verb: str, key: str, fault: Fault | None) -> None:
        if self.after is not None:
            self.after(verb, key)
        if fault in {Fault.ANSWER_LOST, Fault.DELAYED}:
            raise OutcomeUnknown(f"{verb} {key}: {fault.value}")


def _check_put(key: str, fields: Mapping[str, str]) -> None:
    if not 0 < len(key.encode()) <= 1024:
        raise StoreRefused(f"PUT {key[:80]}...: 400 KeyTooLongError")
    if not all(text.isascii() for pair in fields.items() for text in pair):
        raise StoreRefused(f"PUT {key}: metadata is not ASCII")
    if sum(len(name) + len(value) for name, value in fields.items()) > 2048:
        raise StoreRefused(f"PUT {key}: 400 MetadataTooLarge")
