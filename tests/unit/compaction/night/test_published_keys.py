"""A key of a day that was published clean is gone: its first record was archived, whatever the chain says now."""

import dataclasses
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from compaction.audit.audit import audit_day
from compaction.audit.gone import GONE_COMPARED
from compaction.commands.vacuum.day import RawDays, delete_leftovers, find_leftovers
from compaction.job.context import AuditOptions
from compaction.night.rewrite import Compacted, CompactOptions, withdraw_day
from compaction.verdict.audit_document import decode_audit
from minutebook.format.keys import segment_key
from minutebook.format.segment import SegmentWriter
from minutebook.published.generation import FACTS_FOLDER, Pointer, audit_key, inventory_beside
from minutebook.store.places import open_storage
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import PREFIX, Stored


def compact(desk: Desk, accept: str | None = None) -> Compacted:
    """Compact the day a day later, as a night does."""
    desk.clock.advance(86_400)
    return desk.compact(audit=AuditOptions(published=desk.out), accept=accept)


def rest_of(stored: Stored, left_out: int = 1) -> Stored:
    """Return the segment without its first records, under the key of the next one, linked as it was."""
    records, metadata = stored.records[left_out:], stored.metadata
    made = SegmentWriter(metadata.shard_id, metadata.minute)
    made.extend(records)
    written = made.metadata(after=metadata.after, writer=metadata.writer, continuity=metadata.continuity)
    written = msgspec.structs.replace(written, evidence_ms=metadata.evidence_ms)
    key = segment_key(PREFIX, metadata.shard_id, metadata.minute, written.first)
    return dataclasses.replace(
        stored, key=key, records=records, metadata=written, body=made.body(), fields=written.encode()
    )


def replace(desk: Desk, gone: Stored, *others: Stored) -> None:
    """Delete a segment, and store others."""
    store = open_storage(desk.archive)
    store.delete([gone.key])
    for other in others:
        store.put_if_absent(other.key, other.body, other.fields, "application/gzip")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a day that was published clean."""
    desk = Desk(tmp_path)
    assert compact(desk).verdict == "clean"
    return desk


@pytest.mark.parametrize("at", [0, 3, -1])
def test_a_day_that_is_clean_by_its_chain_over_a_row_less_is_not_clean(desk: Desk, at: int) -> None:
    """Not in the night that sees it, and in none after it, whatever else comes."""
    shard = desk.corpus.shards[0]
    gone = shard.segments[shard.in_day(DAY)[at]]
    replace(desk, gone, rest_of(gone))
    for _ in range(3):
        done = compact(desk)
        assert (done.state, done.verdict) == ("held", "defects")
    desk.archive_more()
    done = compact(desk)
    assert (done.state, done.verdict) == ("held", "defects")
    assert done.result is not None
    (about,) = [about for about in done.result.audit.findings if about.reasons]
    assert (about.code, about.severity, about.keys) == ("broken_chain", "defect", (gone.key,))
    assert about.positions == (str(gone.metadata.first),)
    assert about.reproduce == f"minutebook compact FILE.properties --date {DAY}"


def test_it_is_accepted_as_anything_else_and_found_again_if_more_goes(desk: Desk) -> None:
    """The rows are published without it, and what was clean last is not forgotten."""
    shard = desk.corpus.shards[0]
    first, second = (shard.segments[shard.in_day(DAY)[at]] for at in (2, 4))
    replace(desk, first, rest_of(first))
    assert compact(desk, accept="we know").state == "published"
    for _ in range(2):
        done = compact(desk)
        assert (done.state, done.verdict, done.accepted) == ("already", "defects", "we know")
    replace(desk, second, rest_of(second))
    done = compact(desk)
    assert (done.state, done.accepted) == ("held", "")


def test_it_is_clean_when_the_key_is_back(desk: Desk) -> None:
    """As from a version of it."""
    shard = desk.corpus.shards[0]
    gone = shard.segments[shard.in_day(DAY)[3]]
    other = rest_of(gone)
    replace(desk, gone, other)
    assert compact(desk).verdict == "defects"
    replace(desk, other, gone)
    assert compact(desk).verdict == "clean"


def test_a_key_whose_first_record_another_segment_holds_may_go(tmp_path: Path) -> None:
    """As a zombie's, which overlaps: taking it away is a repair."""
    desk = Desk(tmp_path)
    shard = desk.corpus.shards[0]
    segment = shard.segments[shard.in_day(DAY)[3]]
    assert compact(desk).verdict == "clean"
    zombie = rest_of(segment)
    store = open_storage(desk.archive)
    store.put_if_absent(zombie.key, zombie.body, zombie.fields, "application/gzip")
    assert compact(desk, accept="a zombie").accepted == "a zombie"
    store.delete([zombie.key])
    assert compact(desk).verdict == "clean"


def test_what_was_never_clean_may_go(tmp_path: Path) -> None:
    """A stranger's object that was published, accepted, and is taken away."""
    desk = Desk(tmp_path)
    assert compact(desk).verdict == "clean"
    shard = desk.corpus.shards[0]
    segment = shard.segments[shard.in_day(DAY)[3]]
    stray = dataclasses.replace(segment, key=segment.key.replace(f"{segment.metadata.first.sequence}", "7" * 20))
    store = open_storage(desk.archive)
    store.put_if_absent(stray.key, stray.body, stray.fields, "application/gzip")
    assert compact(desk, accept="somebody's").accepted == "somebody's"
    store.delete([stray.key])
    assert compact(desk).verdict == "clean"


def test_a_deleted_segment_is_told_once(desk: Desk) -> None:
    """The chain says it, and an acceptance of an earlier release goes on."""
    shard = desk.corpus.shards[0]
    gone = shard.segments[shard.in_day(DAY)[3]]
    replace(desk, gone)
    done = compact(desk)
    assert done.result is not None
    assert [about.code for about in done.result.audit.findings if about.severity == "defect"] == ["broken_chain"]


def test_vacuum_keeps_what_was_last_clean(desk: Desk) -> None:
    """Its generation was replaced long ago, and each night compares with its inventory."""
    shard = desk.corpus.shards[0]
    gone = shard.segments[shard.in_day(DAY)[3]]
    replace(desk, gone, rest_of(gone))
    assert compact(desk, accept="we know").state == "published"
    storage, folder = desk.context().open(desk.out.address), desk.publisher().folder
    left = find_leftovers(storage, folder, desk.after_grace_ms(), RawDays(lambda _: True, lambda _: ""))
    delete_leftovers(storage, folder, left)
    assert left.objects
    done = desk.compact(accept=None)
    assert (done.verdict, done.accepted) == ("defects", "we know")


def pointer(desk: Desk) -> Pointer:
    """Return the day's pointer."""
    current = desk.publisher().current().pointer
    assert current is not None
    return current


def lose_first_record(desk: Desk, number: int = 3) -> Stored:
    """Store a segment again without its first record, linked without a gap; return the one that is gone."""
    shard = desk.corpus.shards[0]
    gone = shard.segments[shard.in_day(DAY)[number]]
    replace(desk, gone, rest_of(gone))
    return gone


def path_of(desk: Desk, key: str) -> Path:
    """Return where an object of the output lies."""
    return Path(desk.storage.uri(key))


def withdraw(desk: Desk) -> bool:
    """Give the verdict up because the day cannot be judged."""
    options = CompactOptions(AuditOptions(published=desk.out), desk.out)
    storage = desk.context().open(desk.out.address)
    return withdraw_day(desk.context(), storage, DAY, options, pointer(desk), "the store refuses")


def test_a_verdict_that_is_withdrawn_in_doubt_forgets_no_key(desk: Desk) -> None:
    """The night that could not judge the day has seen the loss by a LIST; the next one judges it."""
    lose_first_record(desk)
    assert withdraw(desk)
    for _ in range(2):
        done = compact(desk)
        assert (done.state, done.verdict) == ("held", "defects")


def test_nor_does_one_whose_audit_cannot_be_read_then(desk: Desk) -> None:
    """The pointer alone is not clean any more, and its audit says that it was."""
    lose_first_record(desk)
    path = path_of(desk, audit_key(pointer(desk)))
    body = path.read_bytes()
    path.write_bytes(b"{")
    assert withdraw(desk)
    path.write_bytes(body)
    for _ in range(2):
        assert compact(desk).verdict == "defects"


BESIDE: Final[dict[str, Callable[[Desk], str]]] = {
    "pointer": lambda desk: desk.publisher().folder.pointer,
    "manifest": lambda desk: pointer(desk).manifest,
    "audit": lambda desk: audit_key(pointer(desk)),
    "inventory": lambda desk: inventory_beside(pointer(desk).manifest),
}


@pytest.mark.parametrize("how", ["gone", "damaged"])
@pytest.mark.parametrize("what", BESIDE)
def test_a_loss_is_found_whatever_one_object_beside_the_day_is_gone_or_damaged(
    desk: Desk, what: str, how: str
) -> None:
    """All that lies below `_manifest/` is asked, and facts name the objects of an inventory that is damaged."""
    lose_first_record(desk)
    path = path_of(desk, BESIDE[what](desk))
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"{")
    for _ in range(2):
        done = compact(desk)
        assert (done.state, done.verdict) == ("held", "defects")


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_an_audit_that_is_lost_after_the_loss_was_seen_forgets_no_key(desk: Desk, how: str) -> None:
    """It named what the day was last published clean with."""
    lose_first_record(desk)
    assert compact(desk).verdict == "defects"
    path = path_of(desk, audit_key(pointer(desk)))
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"{}")
    for _ in range(2):
        assert compact(desk).verdict == "defects"


def test_an_older_pointer_that_is_put_back_hides_no_key_of_a_newer_clean_day(tmp_path: Path) -> None:
    """What was last published clean is the newer one, in the next night, too."""
    desk = Desk(tmp_path)
    shard = desk.corpus.shards[0]
    late = shard.segments[shard.in_day(DAY)[3]]
    rest = rest_of(late)
    replace(desk, late, rest)
    assert compact(desk).verdict == "clean"
    older = path_of(desk, desk.publisher().folder.pointer).read_bytes()
    replace(desk, rest, late)
    assert compact(desk).verdict == "clean"
    replace(desk, late, rest)
    path_of(desk, desk.publisher().folder.pointer).write_bytes(older)
    for _ in range(2):
        assert compact(desk).verdict == "defects"


def test_a_day_of_which_nobody_can_say_what_was_clean_is_unknown(desk: Desk) -> None:
    """The check names the inventory; it lasts until that is restored."""
    lose_first_record(desk)
    key = inventory_beside(pointer(desk).manifest)
    inventory = path_of(desk, key)
    body = inventory.read_bytes()
    inventory.write_bytes(b"{")
    storage = desk.publisher().storage
    storage.delete([each for each in storage.keys(desk.publisher().folder.path) if FACTS_FOLDER in each])
    for _ in range(2):
        assert compact(desk).verdict == "unknown"
        body_of_audit = desk.publisher().audit(pointer(desk))
        assert body_of_audit is not None
        checks = {check.id: check for check in decode_audit(body_of_audit).checks}
        assert (checks[GONE_COMPARED].status, key in checks[GONE_COMPARED].message) == ("unknown", True)
    inventory.write_bytes(body)
    assert compact(desk).verdict == "defects"


def test_an_inventory_that_lacks_a_lost_key_is_not_believed(desk: Desk) -> None:
    """It parses, and is not the one that the manifest was made of: facts name the objects."""
    gone = lose_first_record(desk)
    path = path_of(desk, inventory_beside(pointer(desk).manifest))
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(line for line in lines if gone.key.encode() not in line)))
    for _ in range(2):
        assert compact(desk).verdict == "defects"


def test_the_command_audit_finds_a_key_that_is_gone(desk: Desk) -> None:
    """As the night that withdraws the verdict does; of one shard, too."""
    gone = lose_first_record(desk)
    for shard in (None, gone.metadata.shard_id, desk.corpus.shards[1].shard_id):
        options = AuditOptions(published=desk.out, shard=shard)
        found = audit_day(desk.context(), DAY, options).audit.findings
        keys = [about.keys for about in found if "published_and_gone" in about.reasons]
        assert keys == ([] if shard == desk.corpus.shards[1].shard_id else [(gone.key,)])


def test_vacuum_keeps_what_was_last_clean_of_a_day_whose_pointer_is_gone(desk: Desk) -> None:
    """The next night publishes the day, and compares."""
    lose_first_record(desk)
    path_of(desk, desk.publisher().folder.pointer).unlink()
    storage, folder = desk.context().open(desk.out.address), desk.publisher().folder
    left = find_leftovers(storage, folder, before_ms=desk.after_grace_ms(), raw=RawDays(lambda _: True, lambda _: ""))
    delete_leftovers(storage, folder, left)
    assert left.manifests
    assert compact(desk).verdict == "defects"
