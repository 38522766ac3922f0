"""The bucket as an audit of a history reads it: no faults, no time passes, one request after the other."""

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn, TypeVar

from minutebook.index.last_segments import LastSegments, none_published
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import JudgedScope, judge_archive
from minutebook.retry import Backoff
from minutebook.store.objects import ListedObject, ObjectHead, StoredObject
from minutebook.store.retrying import RetryingStore
from tests.fakes.clock import ManualClock
from tests.simulation.services.bucket import PREFIX, Bucket

T = TypeVar("T")
U = TypeVar("U")


class BucketView:
    """Implements the reading half of `minutebook.store.objects.ObjectStore` on a bucket as it is now."""

    def __init__(self, bucket: Bucket) -> None:
        self._objects = bucket.objects
        self._keys = sorted(bucket.objects)

    def judge(self, query: ProofQuery, published: LastSegments = none_published) -> JudgedScope:
        """Judge a scope as the product does, in the night behind days that are published."""
        clock = ManualClock(query.now_ms)
        backoff = Backoff(clock, random.Random(1), budget_seconds=1)
        return judge_archive(RetryingStore(self, lambda: backoff, one_by_one), PREFIX, query, published)

    def head(self, key: str) -> ObjectHead | None:
        """Answer a HEAD."""
        stored = self._objects.get(key)
        if stored is None:
            return None
        return ObjectHead(key, len(stored.body), "e", stored.metadata, int(stored.written_at * 1000))

    def get(self, key: str) -> StoredObject | None:
        """Answer a GET."""
        stored = self._objects.get(key)
        return None if stored is None else StoredObject(stored.body, "e", stored.metadata)

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """Answer a LIST."""
        for at in range(bisect_left(self._keys, prefix), len(self._keys)):
            key = self._keys[at]
            if not key.startswith(prefix):
                return
            stored = self._objects[key]
            yield ListedObject(key, len(stored.body), "e", int(stored.written_at * 1000))

    def list_level(self, folder: str) -> NoReturn:
        """Refuse: coverage is judged without it."""
        raise AssertionError(folder)

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> NoReturn:
        """Refuse: an audit writes nothing here."""
        raise AssertionError(key, body, metadata, content_type)


def one_by_one(work: Callable[[T], U], items: Sequence[T], /) -> list[U]:
    """Read one object after the other: a host's requests come from its own greenlet alone, and threads cost more."""
    return [work(item) for item in items]
