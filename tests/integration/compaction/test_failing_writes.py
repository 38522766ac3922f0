"""Runs whose own writes fail, on either side: parts, facts, inventory, audit, manifest, pointer, links.

Each write of a run fails once. Whatever happens, readers see one whole generation, its verdict is that of
the audit which the pointer names, and a run after it ends as one would that had met nothing.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from compaction.night.rewrite import Compacted
from compaction.verdict.audit_document import decode_audit
from demo.embedded import REGION
from minutebook.errors import StoreError, StoreRefused
from minutebook.store.storage import Address
from tests.corpus.desk import DAY, OUT, Desk
from tests.corpus.model import Corpus, Shape
from tests.fakes.failing_s3 import IS_FINAL, FailingS3, Stored, WriteFault, faults_of, serve
from tests.searching import IS_DEEP

Row = tuple[str, str, int]
_SMALL = Shape(minutes=(-1, 0, 1, 1441))


@pytest.fixture(scope="module")
def s3(aws_environment: None) -> Iterator[FailingS3]:  # noqa: ARG001 - used for its effect
    """Return a bucket in memory, behind a real server."""
    with serve(FailingS3(counted=OUT)) as bucket:
        yield bucket


class Night(NamedTuple):
    """What a run finds, and what it must end with: verdict, state, and whether the day's rows are the new ones."""

    prepare: Callable[[Desk], None]
    verdict: str
    state: str
    writes: tuple[str, ...]
    shows_new: bool = True


def _nothing(desk: Desk) -> None:
    """Nothing is published."""


def _late(desk: Desk) -> None:
    """A segment came after the day was published."""
    desk.compact()
    desk.archive_more()


def _proof(desk: Desk) -> None:
    """The day was published unknown; what proves its end came later."""
    shard = desk.corpus.shards[2]
    proof, shard.checkpoint = shard.checkpoint, None
    for row in list(desk.storage.list_objects("raw/_read/")):
        if shard.shard_id in row.key:
            desk.storage.delete([row.key])
    assert desk.compact().verdict == "unknown"
    shard.checkpoint = proof


def _loss(desk: Desk) -> None:
    """A segment was deleted after the day was published clean."""
    desk.compact()
    shard = desk.corpus.shards[0]
    desk.storage.delete([shard.segments.pop(2).key])


_ALL = (
    "part-",
    "_facts/",
    ".inventory.",
    ".ends.",
    ".audit.",
    "_manifest/",
    "_current.json",
    ".audit.",
    "_symlinks/",
)
_HELD = ("_facts/", "part-", "_facts/", ".audit.", "_current.json")
"""The first facts are those of what went: it may come back."""
NIGHTS = {
    "first": Night(_nothing, "clean", "published", _ALL),
    "late": Night(_late, "clean", "published", _ALL),
    "proof": Night(_proof, "clean", "already", (".audit.", "_current.json")),
    "loss": Night(_loss, "defects", "held", _HELD, shows_new=False),
}
_WRITES = [(name, number) for name, night in NIGHTS.items() for number in range(1, len(night.writes) + 1)]
CASES = [(*write, fault) for at, write in enumerate(_WRITES) for fault in faults_of(at)]
_OUTAGES = [WriteFault.SLOW_DOWN, WriteFault.CUT_AFTER]
OUTAGES = [(name, fault) for at, name in enumerate(NIGHTS) for fault in (_OUTAGES if IS_DEEP else [_OUTAGES[at % 2]])]


def _beginnings(night: Night, fault: WriteFault) -> range:
    """Return the writes at which outages begin: by default every other one, with the other fault those between."""
    # A task repeats its own writes, of parts and facts, by the real clock.
    first = 1 + sum(write in {"part-", "_facts/"} for write in night.writes)
    last = len(night.writes)
    return range(first, last + 1) if IS_DEEP else range(first + _OUTAGES.index(fault), last + 1, 2)


@pytest.fixture(scope="module")
def prepared(s3: FailingS3) -> dict[str, tuple[Desk, dict[str, Stored]]]:
    """Return, of each night, the desk and what lies in the bucket before the run."""
    found = {}
    for name, night in NIGHTS.items():
        s3.heal()
        s3.objects.clear()
        desk = Desk(Address("bucket", region=REGION, endpoint=s3.endpoint), Corpus(DAY, shape=_SMALL))
        night.prepare(desk)
        found[name] = desk, dict(s3.objects)
    return found


@pytest.mark.parametrize(("name", "number", "fault"), CASES, ids=str)
def test_a_write_that_fails_once_costs_at_most_the_run(
    s3: FailingS3,
    prepared: dict[str, tuple[Desk, dict[str, Stored]]],
    name: str,
    number: int,
    fault: WriteFault,
) -> None:
    """What passes is sent again and costs nothing; what is final ends the run, and the next one is right."""
    night, (desk, before) = NIGHTS[name], prepared[name]
    s3.heal()
    s3.objects.clear()
    s3.objects.update(before)
    old = desk.published_rows()
    s3.fail_at(number, fault)
    done = _run(desk)
    [(key, _)] = s3.failed
    assert night.writes[number - 1] in key
    _assert_readable(desk, old)
    if fault in IS_FINAL:
        assert done is None
        s3.heal()
        done = _run(desk)
    assert done is not None
    _assert_ended(desk, night, done, old)


@pytest.mark.parametrize(("name", "fault"), OUTAGES, ids=str)
def test_an_outage_from_a_write_on_ends_the_run(
    s3: FailingS3,
    prepared: dict[str, tuple[Desk, dict[str, Stored]]],
    name: str,
    fault: WriteFault,
) -> None:
    """No write succeeds any more, or none is answered: the run gives up, and the next one is right."""
    night, (desk, before) = NIGHTS[name], prepared[name]
    for number in _beginnings(night, fault):
        s3.heal()
        s3.objects.clear()
        s3.objects.update(before)
        old = desk.published_rows()
        s3.fail(lambda found, number=number: fault if found >= number else None)  # type: ignore[misc]
        done = _run(desk)
        _assert_readable(desk, old)
        if done is None or fault is not WriteFault.CUT_AFTER:
            assert done is None, "a run whose writes are refused has not ended well"
        s3.heal()
        done = _run(desk)
        assert done is not None
        _assert_ended(desk, night, done, old)


def _run(desk: Desk) -> Compacted | None:
    """Return what a run ended with; None for the store's error, with which a command ends with 5, or 2."""
    error = None
    try:
        return desk.compact()
    except StoreError as exc:
        error = exc
    assert error.exit_code == (2 if isinstance(error, StoreRefused) else 5)
    assert error.next_step
    return None


def _assert_readable(desk: Desk, old: list[Row]) -> None:
    """Readers find one whole generation, and the audit that gave it its verdict."""
    publisher = desk.publisher()
    pointer, manifest = publisher.published()
    if pointer is None:
        assert not old
        return
    assert manifest is not None
    assert publisher.is_whole(manifest)
    rows = desk.published_rows()
    assert len(rows) == len(set(rows)) == pointer.rows
    assert set(rows) in (set(old), _rows(desk))
    body = publisher.audit(pointer)
    assert body is not None
    assert decode_audit(body).verdict == pointer.verdict


def _assert_ended(desk: Desk, night: Night, done: Compacted, old: list[Row]) -> None:
    _assert_readable(desk, old)
    pointer, manifest = desk.publisher().published()
    assert pointer is not None
    assert manifest is not None
    assert (done.verdict, pointer.verdict) == (night.verdict, night.verdict)
    assert done.state in {night.state, "already"}
    assert set(desk.published_rows()) == (_rows(desk) if night.shows_new else set(old))
    stored = desk.storage.get(f"tables/_symlinks/dt={DAY}/manifest")
    assert stored is not None
    assert stored.body.decode().split() == [desk.storage.uri(file.key) for file in manifest.files if file.rows]


def _rows(desk: Desk) -> set[Row]:
    """Return the lines of the day's segments."""
    return {
        (shard.shard_id, record.sequence_number, record.sub_sequence_number)
        for shard in desk.corpus.shards
        for index in shard.in_day(DAY)
        for record in shard.segments[index].records
    }
