"""Objects that a lifecycle rule moved to GLACIER: whatever reads one names its class, and says to restore it."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from demo.embedded import REGION
from minutebook.errors import ObjectArchived
from minutebook.store.places import open_storage
from minutebook.store.storage import Address, Storage
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import PREFIX, Corpus, Shape
from tests.fakes.failing_s3 import FailingS3, serve

_SMALL: Final = Shape(minutes=(-1, 0, 1, 1441))


@pytest.fixture
def s3(aws_environment: None) -> Iterator[FailingS3]:  # noqa: ARG001 - used for its effect
    """Return a bucket in memory, behind a real server."""
    with serve(FailingS3(counted=PREFIX)) as bucket:
        yield bucket


def _desk(s3: FailingS3) -> Desk:
    return Desk(Address("bucket", region=REGION, endpoint=s3.endpoint), Corpus(DAY, shape=_SMALL))


def _a_segment(desk: Desk) -> str:
    folder = f"{PREFIX}2026/11/20/"
    return next(row.key for row in desk.storage.list_objects(folder))


def _is_to_be_restored(request: Callable[[], object]) -> None:
    with pytest.raises(ObjectArchived, match=r"the object is archived \(GLACIER\): restore it") as caught:
        request()
    assert caught.value.exit_code == 4
    assert "restore-object" in caught.value.next_step


def test_a_day_with_a_segment_in_glacier_is_not_published_before_it_is_restored(s3: FailingS3) -> None:
    """Nothing is published of it, and what it holds is not proven (4); then all of it."""
    desk = _desk(s3)
    s3.archived = {_a_segment(desk)}
    _is_to_be_restored(desk.compact)
    assert desk.publisher().current().pointer is None
    s3.archived = set()
    assert desk.compact().verdict == "clean"


_READS: Final[dict[str, Callable[[Storage, str], object]]] = {
    "get": lambda storage, key: storage.get(key),
    "open_read": lambda storage, key: list(storage.open_read(key, None).chunks),
    "read_tail": lambda storage, key: storage.read_tail(key, 8),
}


@pytest.mark.parametrize("read", list(_READS))
def test_each_way_to_read_names_the_class(s3: FailingS3, read: str) -> None:
    """Those of `cat`, of the nightly job and of the reader; HEAD and LIST, the consumer's, show it as ever."""
    desk = _desk(s3)
    key = _a_segment(desk)
    s3.archived = {key}
    storage = open_storage(desk.archive)
    _is_to_be_restored(lambda: _READS[read](storage, key))
    assert storage.head(key) is not None
    assert key in {row.key for row in storage.list_objects(PREFIX)}
