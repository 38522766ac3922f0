"""A bucket whose LISTs are a search in sorted keys, and clients of it that fail on both sides of a request."""

import bisect
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from minutebook.errors import OutcomeUnknown
from minutebook.store.objects import ListedObject, Listing, ObjectHead, PutOutcome, StoredObject

if TYPE_CHECKING:
    from tests.boundaries.world import World

_LAST: Final = "\U0010ffff"
Hook = Callable[[str, str], None]


class Entry(NamedTuple):
    """A stored object."""

    body: bytes
    metadata: Mapping[str, str]
    row: ListedObject


class Bucket:
    """The objects. `on_created` is called with each new one."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []
        self.on_created: Callable[[str, Entry], None] = lambda _key, _entry: None

    def put(self, key: str, body: bytes, metadata: Mapping[str, str]) -> PutOutcome:
        """Store an object unless the key exists. LastModified is of whole seconds."""
        if key in self.entries:
            return PutOutcome.EXISTS
        self.place(key, body, metadata)
        self.on_created(key, self.entries[key])
        return PutOutcome.CREATED

    def place(self, key: str, body: bytes, metadata: Mapping[str, str] | None = None) -> None:
        """Store an object, whatever is there."""
        if key not in self.entries:
            bisect.insort(self.keys, key)
        row = ListedObject(key, len(body), f"{zlib.crc32(body):08x}", self._world.now_ms // 1000 * 1000)
        self.entries[key] = Entry(body, metadata or {}, row)

    def below(self, prefix: str) -> list[str]:
        """Return the keys below a prefix."""
        begin = bisect.bisect_left(self.keys, prefix)
        return self.keys[begin : bisect.bisect_right(self.keys, prefix + _LAST, begin)]


class Store:
    """One client; implements `ObjectStore`. The hooks may raise, move the time, or let others work."""

    def __init__(self, world: "World", before: Hook, after: Hook) -> None:
        self._world = world
        self._bucket = world.bucket
        self._before = before
        self._after = after

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:  # noqa: ARG002 - the port's shape
        """Put once, unless something is there. A lost request may be applied at once, later, or never."""
        self._before("PUT", key)
        world, body = self._world, bytes(body)
        fault = world.rng.randrange(3) if world.rng.random() < world.store_faults else None
        if fault == 0:
            raise OutcomeUnknown(f"PUT {key}: refused")
        if fault == 1:
            later_ms = world.now_ms + world.rng.choice([1_000, 60_000, 600_000])
            world.at(later_ms, lambda: self._bucket.put(key, body, metadata))
            raise OutcomeUnknown(f"PUT {key}: time-out")
        outcome = self._bucket.put(key, body, metadata)
        self._after("PUT", key)
        if fault == 2:
            raise OutcomeUnknown(f"PUT {key}: the answer is lost")
        return outcome

    def head(self, key: str) -> ObjectHead | None:
        """Return size, tag and metadata."""
        self._ask("HEAD", key)
        found = self._bucket.entries.get(key)
        if found is None:
            return None
        return ObjectHead(key, found.row.size, found.row.etag, found.metadata, found.row.last_modified_ms)

    def get(self, key: str) -> StoredObject | None:
        """Return the whole object."""
        self._ask("GET", key)
        found = self._bucket.entries.get(key)
        return None if found is None else StoredObject(found.body, found.row.etag, found.metadata)

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List everything below a prefix."""
        self._ask("LIST", prefix)
        entries = self._bucket.entries
        return iter([entries[key].row for key in self._bucket.below(prefix)])

    def list_level(self, folder: str) -> Listing:
        """List with the delimiter `/`."""
        self._ask("LIST", folder)
        found = self._bucket.below(folder)
        cut = len(folder)
        folders = {f"{folder}{name}/" for name, slash, _ in (key[cut:].partition("/") for key in found) if slash}
        rows = tuple(self._bucket.entries[key].row for key in found if "/" not in key[cut:])
        return Listing(tuple(sorted(folders)), rows)

    def _ask(self, verb: str, key: str) -> None:
        self._before(verb, key)
        if self._world.rng.random() < self._world.store_faults:
            raise OutcomeUnknown(f"{verb} {key}: 503")
