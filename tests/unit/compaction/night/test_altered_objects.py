"""Objects of a published day that are stored again: the same content is told and believed, another one never is."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from compaction.audit.audit import audit_day
from compaction.audit.day_view import KnownPlaces, view_day
from compaction.audit.known import with_known
from compaction.inventory.segments import ListedSegment
from compaction.job.context import AuditOptions, JobContext
from compaction.verdict.audit_document import Audit, decode_audit
from minutebook.format.position import Position
from minutebook.published.generation import FACTS_FOLDER, Pointer
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.objects import ListedObject, ObjectHead, StoredObject
from minutebook.store.storage import ObjectBody, ObjectChanged
from tests.corpus.chain_defects import overlapping_segments
from tests.corpus.desk import DAY, Desk, Mill, repeated
from tests.corpus.edits import EDITS, edit_metadata, edit_payload, remove_line
from tests.corpus.event_defects import drop_records
from tests.corpus.model import PREFIX, Corpus, Shape, Stored
from tests.corpus.object_defects import (
    edited_count,
    edited_minute,
    flipped_bit,
    swapped_lines,
    truncated_object,
    unreadable_metadata,
    wrong_minute,
)

LARGE = Shape(payload_bytes=30_000)
"""Segments above 64 KiB: in a directory their ETags are made of size and time, as those of S3 are of parts."""


def pointer(desk: Desk) -> Pointer:
    """Return the day's pointer."""
    current = desk.publisher().current().pointer
    assert current is not None
    return current


def audit(desk: Desk) -> Audit:
    """Return the audit that the pointer names."""
    return decode_audit(desk.publisher().audit(pointer(desk)) or b"")


def codes(desk: Desk) -> list[tuple[str, str]]:
    """Return the codes and severities of the audit that the pointer names."""
    return [(about.code, about.severity) for about in audit(desk).findings if about.code != "late_minutes"]


def segment(desk: Desk) -> Stored:
    """Return a segment of the day."""
    return desk.corpus.shards[0].segments[3]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_object_is_altered_in_each_night(tmp_path: Path, edit: Callable[[Stored], None]) -> None:
    """The day is withdrawn, and stays so: also when the first content is there again."""
    desk = Desk(tmp_path)
    desk.compact()
    stored = segment(desk)
    before = (stored.body, dict(stored.fields))
    edit(stored)
    desk.store_again(stored, 30)
    for _ in range(3):
        desk.compact()
        assert (pointer(desk).verdict, codes(desk)) == ("defects", [("altered_object", "defect")])
        assert audit(desk).findings[0].keys == (stored.key,)
    stored.body, stored.fields = before
    desk.store_again(stored, 40)
    for _ in range(2):
        desk.compact()
        assert (pointer(desk).verdict, codes(desk)) == ("defects", [("altered_object", "defect")])


@pytest.mark.parametrize("edit", EDITS)
def test_an_alteration_goes_through_generations(tmp_path: Path, edit: Callable[[Stored], None]) -> None:
    """A late object makes another generation, which is held, and one more; accepted, it is altered still."""
    desk = Desk(tmp_path)
    desk.compact()
    stored = segment(desk)
    before = (stored.body, dict(stored.fields))
    edit(stored)
    desk.store_again(stored, 30)
    desk.compact()
    for accepts in (False, True, True):
        desk.archive_more()
        desk.compact(accept="known" if accepts else None)
        assert ("altered_object", "defect") in codes(desk)
    stored.body, stored.fields = before
    desk.store_again(stored, 50)
    for accepts in (False, True):
        desk.archive_more()
        desk.compact(accept="known" if accepts else None)
        assert ("altered_object", "defect") in codes(desk)


@pytest.mark.parametrize(("edit", "expected"), [(edit_metadata, "altered_object"), (None, "replaced")])
def test_an_object_that_went_and_comes_back_is_compared(
    tmp_path: Path, edit: Callable[[Stored], None] | None, expected: str
) -> None:
    """Its day was published without it, twice: what was held of it is never given up."""
    desk = Desk(tmp_path)
    desk.compact()
    stored = segment(desk)
    DirectoryStorage(desk.raw).delete([stored.key])
    for _ in range(2):
        desk.archive_more()
        assert desk.compact(accept="it is lost").state == "published"
    if edit is not None:
        edit(stored)
    desk.store_again(stored, 40)
    desk.compact()
    assert [code for code, _ in codes(desk)] == [expected]
    assert audit(desk).accepted is None


def test_what_a_held_generation_saw_is_known_to_the_next(tmp_path: Path) -> None:
    """The edit is repaired before the day is published again, and another object made another generation."""
    desk = Desk(tmp_path)
    desk.compact()
    stored = segment(desk)
    before = (stored.body, dict(stored.fields))
    remove_line(stored)
    desk.store_again(stored, 30)
    assert desk.compact().state == "held"
    stored.body, stored.fields = before
    desk.store_again(stored, 40)
    desk.archive_more()
    assert desk.compact().state == "held"
    assert ("altered_object", "defect") in codes(desk)


class Rewrapped(DirectoryStorage):
    """A bucket where some objects were copied onto themselves under another key of KMS: their ETags are no MD5."""

    def __init__(self, root: Path, keys: Iterable[str]) -> None:
        super().__init__(root)
        self.keys_again = frozenset(keys)

    def _tag(self, key: str, etag: str) -> str:
        return f'"kms-{etag[1:9]}"' if key in self.keys_again else etag

    def _row(self, entry: "os.DirEntry[str] | Path", key: str) -> ListedObject:
        row = super()._row(entry, key)
        return row._replace(etag=self._tag(row.key, row.etag))

    def head(self, key: str) -> ObjectHead | None:
        """Return the other tag."""
        head = super().head(key)
        return None if head is None else head._replace(etag=self._tag(key, head.etag))

    def get(self, key: str) -> StoredObject | None:
        """Return the other tag."""
        stored = super().get(key)
        return None if stored is None else stored._replace(etag=self._tag(key, stored.etag))

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Compare with the other tag."""
        head = self.head(key)
        if head is None or etag not in {None, head.etag}:
            raise ObjectChanged(key)
        return super().open_read(key, None)


class Watched(Rewrapped):
    """Remembers which objects of the day's segments were asked for, by HEAD and by GET."""

    def __init__(self, root: Path, keys: Iterable[str] = ()) -> None:
        super().__init__(root, keys)
        self.heads: list[str] = []
        self.gets: list[str] = []

    def head(self, key: str) -> ObjectHead | None:
        """Note it."""
        self.heads += [key] if "/dt=" in key else []
        return super().head(key)

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Note it: the tag is compared by a HEAD that the service does itself."""
        self.gets.append(key)
        heads = list(self.heads)
        try:
            return super().open_read(key, etag)
        finally:
            self.heads = heads


def with_storage(desk: Desk, storage: DirectoryStorage) -> JobContext:
    """Return a context whose archive is another storage."""
    context = desk.context()
    return context._replace(archive=type(context.archive)(storage, context.archive.new_backoff))


def touch(desk: Desk, hours_later: int) -> None:
    """Let all objects of the day be stored again as they are."""
    for row in list(DirectoryStorage(desk.raw).list_objects(DAY.path("raw/"))):
        desk.age_raw(row.key, DAY.end_ms + hours_later * 3_600_000)


def inventory_of(desk: Desk) -> list[tuple[str, str, int, int]]:
    """Return the inventory that the pointer names."""
    return list(desk.publisher().inventory(pointer(desk)) or ())


@pytest.mark.parametrize("how", ["cp -r", "cp -r of large files", "KMS", "multipart"])
def test_the_same_content_stored_again_is_clean(tmp_path: Path, how: str) -> None:
    """A warning says so; files and generation stay, and the inventory names the objects as they are now."""
    desk = Desk(tmp_path, Corpus(DAY, shape=LARGE) if "large" in how else None)
    desk.compact()
    before, manifest = pointer(desk), desk.publisher().published()[1]
    assert manifest is not None
    keys = [stored.key for shard in desk.corpus.shards for stored in shard.segments]
    archive = Rewrapped(desk.raw, keys if how in {"KMS", "multipart"} else ())
    touch(desk, 30)
    for _ in range(3):
        context = with_storage(desk, archive)
        assert desk.compact(archive=context.archive).state == "already"
        after, now = pointer(desk), desk.publisher().published()[1]
        assert now is not None
        assert set(codes(desk)) == {("replaced", "warning")}
        assert (after.verdict, after.generation, now.files) == ("clean", before.generation, manifest.files)
        listed = [(row.key, row.etag, row.size) for row in archive.list_objects(DAY.path("raw/"))]
        assert [row[:3] for row in inventory_of(desk)] == sorted(listed)


def test_a_copy_is_no_first_content(tmp_path: Path) -> None:
    """What was stored again with the same content, and is edited then, is altered."""
    desk = Desk(tmp_path)
    desk.compact()
    touch(desk, 30)
    desk.compact()
    stored = segment(desk)
    edit_metadata(stored)
    desk.store_again(stored, 40)
    desk.compact()
    assert ("altered_object", "defect") in codes(desk)


REPAIRED = [
    truncated_object,
    flipped_bit,
    edited_count,
    swapped_lines,
    unreadable_metadata,
    edited_minute,
    wrong_minute,
]


@pytest.mark.parametrize("defect", REPAIRED)
def test_a_repair_is_no_alteration(tmp_path: Path, defect: Callable[..., object]) -> None:
    """An object that was published with a defect of its own, and accepted, held no first content."""
    desk = Desk(tmp_path, Corpus(DAY))
    shard = desk.corpus.shards[0]
    stored = shard.segments[3]
    records, before = list(stored.records), (stored.body, dict(stored.fields))
    defect(desk.corpus, shard, 3)
    desk.store_again(stored, 1)
    assert desk.compact(accept="known").verdict == "defects"
    stored.records, (stored.body, stored.fields) = records, before
    desk.store_again(stored, 30)
    done = desk.compact()
    assert (done.verdict, codes(desk)) == ("clean", [])
    rows = desk.published_rows()
    assert len(rows) == len(set(rows)) == desk.corpus.records


def test_a_repaired_object_that_is_edited_is_altered(tmp_path: Path) -> None:
    """The repair took the first digest."""
    desk = Desk(tmp_path, Corpus(DAY))
    shard = desk.corpus.shards[0]
    stored = shard.segments[3]
    before = (stored.body, dict(stored.fields))
    truncated_object(desk.corpus, shard, 3)
    desk.store_again(stored, 1)
    desk.compact(accept="known")
    stored.body, stored.fields = before
    desk.store_again(stored, 30)
    assert desk.compact().verdict == "clean"
    edit_payload(stored)
    desk.store_again(stored, 40)
    assert desk.compact().verdict == "defects"
    assert ("altered_object", "defect") in codes(desk)


def requests(desk: Desk) -> Watched:
    """Judge the day again; return what was asked of the archive."""
    watched = Watched(desk.raw)
    desk.compact(archive=with_storage(desk, watched).archive)
    inside = {row.key for row in DirectoryStorage(desk.raw).list_objects(DAY.path("raw/"))}
    watched.heads = [key for key in watched.heads if key in inside]
    watched.gets = [key for key in watched.gets if key in inside]
    return watched


def test_an_unchanged_day_is_judged_without_a_request_for_a_segment(tmp_path: Path) -> None:
    """Facts say what HEADs and lines would; an object that was stored again is read once, and no other one."""
    desk = Desk(tmp_path)
    desk.compact()
    asked = requests(desk)
    assert (asked.heads, asked.gets) == ([], [])
    hour = [stored for shard in desk.corpus.shards for stored in shard.segments if stored.metadata.minute in DAY]
    hour = [stored for stored in hour if stored.metadata.minute // 60 == (DAY.first_minute + 600) // 60]
    assert len(hour) > 3
    for stored in hour:
        desk.store_again(stored, 30)
    asked = requests(desk)
    assert (asked.heads, sorted(asked.gets)) == ([], sorted(stored.key for stored in hour))
    asked = requests(desk)
    assert (asked.heads, asked.gets) == ([], [])
    assert pointer(desk).verdict == "clean"


def forget_facts(desk: Desk) -> None:
    """Leave what a release without digests left."""
    for path in Path(desk.out.address.root).rglob(f"{FACTS_FOLDER}*.parquet"):
        path.unlink()


def test_a_day_of_an_earlier_release_takes_first_digests(tmp_path: Path) -> None:
    """Where its objects are those of its inventory, they are read once; then an edit shows."""
    desk = Desk(tmp_path)
    desk.compact()
    forget_facts(desk)
    objects = [row.key for row in DirectoryStorage(desk.raw).list_objects(DAY.path("raw/"))]
    assert sorted(requests(desk).gets) == sorted(objects)
    assert (requests(desk).gets, pointer(desk).verdict, codes(desk)) == ([], "clean", [])
    stored = segment(desk)
    edit_metadata(stored)
    desk.store_again(stored, 30)
    desk.compact()
    assert codes(desk) == [("altered_object", "defect")]


def test_an_object_that_changed_before_a_digest_was_held_is_unknown(tmp_path: Path) -> None:
    """Nobody can say whether it is as it was: in each night, and also where another generation is made."""
    desk = Desk(tmp_path)
    desk.compact()
    forget_facts(desk)
    stored = segment(desk)
    desk.store_again(stored, 30)
    for _ in range(3):
        desk.compact()
        assert (pointer(desk).verdict, codes(desk)) == ("unknown", [("altered_object", "unknown")])
        assert audit(desk).findings[0].reasons == ("no_first_digest",)
    desk.archive_more()
    assert desk.compact().state == "held"
    assert ("altered_object", "unknown") in codes(desk)
    edit_metadata(stored)
    desk.store_again(stored, 40)
    desk.compact()
    assert ("altered_object", "defect") in codes(desk)


def test_facts_that_are_lost_do_not_clear_an_alteration(tmp_path: Path) -> None:
    """The audit that the pointer names tells of it, too."""
    desk = Desk(tmp_path)
    desk.compact()
    stored = segment(desk)
    before = dict(stored.fields)
    edit_metadata(stored)
    desk.store_again(stored, 30)
    desk.compact()
    stored.fields = before
    os.utime(desk.raw / stored.key)
    forget_facts(desk)
    desk.compact()
    assert pointer(desk).verdict == "defects"
    assert ("altered_object", "defect") in codes(desk)


def unread(desk: Desk) -> list[str]:
    """Return the objects of the day of which the published generation holds no facts."""
    context = desk.context()
    view = view_day(context, DAY, None)
    places = KnownPlaces.of(desk.out, desk.publisher().folder, "none", pointer(desk))
    inventory = with_known(context, view, places).inventory
    groups = inventory.rows.collect(listed, dict.fromkeys(inventory.grouping.numbers))
    return [row.key for rows in groups.values() for row in rows if row.known is None or not row.known.written]


def listed(values: Sequence[list[ListedSegment]], _argument: None) -> list[ListedSegment]:
    """Return a group's rows."""
    return [row for rows in values for row in rows]


@pytest.mark.parametrize("defect", [overlapping_segments, truncated_object, swapped_lines])
def test_after_a_rewrite_every_object_has_facts(tmp_path: Path, defect: Callable[..., object]) -> None:
    """Also those that were merged, or that could not be read."""
    corpus = Corpus(DAY)
    defect(corpus, corpus.shards[0], 3)
    desk = Desk(tmp_path, corpus)
    desk.compact(accept="known")
    assert unread(desk) == []


def test_after_a_rewrite_without_copies_every_object_has_facts(tmp_path: Path) -> None:
    """Its first pass writes no part."""
    corpus, _ = repeated()
    overlapping_segments(corpus, corpus.shards[4], 3)
    mill = Mill(tmp_path, corpus)
    mill.rewrite(accept="known")
    assert unread(mill) == []
    touch(mill, 40)
    edit_metadata(segment(mill))
    mill.store_again(segment(mill), 50)
    mill.rewrite(accept="known")
    assert ("altered_object", "defect") in codes(mill)


def test_a_dropped_record_whose_original_turns_out_to_be_missing_is_brought_back(tmp_path: Path) -> None:
    """The day's objects are the same; its rows are not, and it is written again."""
    corpus = Corpus(DAY)
    shard, other = corpus.shards[1], corpus.shards[0]
    following = other.segments.pop()
    original = Position(other.segments[-1].metadata.last.sequence, 1)
    drop_records(corpus, shard, shard.in_day(DAY)[1], {1: f"corpus/{other.shard_id}/{original}"})
    desk = Desk(tmp_path, corpus)
    assert desk.compact().state == "published"
    rows = len(desk.published_rows())
    assert ("dropped_without_original", "unknown") in codes(desk)
    other.segments.append(following)
    desk.put()
    done = desk.compact()
    assert (done.state, len(desk.published_rows())) == ("published", rows + 1)
    assert [(about.code, about.repaired) for about in audit(desk).findings] == [("dropped_without_original", True)]


@pytest.mark.parametrize("damage", [None, b"", b'{"format": 1, "day'])
def test_a_first_content_is_held_without_a_pointer(tmp_path: Path, damage: bytes | None) -> None:
    """The pointer is gone, empty or cut off: the first digests still lie in the output, and an edit shows."""
    desk = Desk(tmp_path)
    desk.compact()
    forget_pointer(desk, damage)
    edit_payload(segment(desk))
    desk.store_again(segment(desk), 30)
    for _ in range(2):
        assert desk.compact().state == "held"
    assert desk.compact(accept="known").state == "published"
    assert codes(desk) == [("altered_object", "defect")]


def test_a_day_whose_pointer_is_gone_is_published_again(tmp_path: Path) -> None:
    """Where no object was edited it is as clean as it was."""
    desk = Desk(tmp_path)
    desk.compact()
    forget_pointer(desk, None)
    assert (desk.compact().verdict, codes(desk)) == ("clean", [])


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_first_content_is_held_under_an_older_pointer(tmp_path: Path, *, is_gone: bool) -> None:
    """A generation that is not the pointer's knows an object: it is edited, or goes first and comes back."""
    desk = Desk(tmp_path)
    desk.compact()
    path = Path(desk.storage.uri(desk.publisher().folder.pointer))
    before = path.read_bytes()
    desk.archive_more()
    desk.compact()
    late = desk.corpus.shards[2].segments[-1]
    path.write_bytes(before)
    if is_gone:
        DirectoryStorage(desk.raw).delete([late.key])
        desk.compact()
        folders = {row.key.split("/")[2] for row in desk.storage.list_objects(desk.publisher().folder.path)}
        (other,) = {name for name in folders if name.startswith("_gen-")} - {f"_gen-{pointer(desk).generation}"}
        desk.storage.delete([row.key for row in desk.storage.list_objects(f"{desk.publisher().folder.path}{other}/")])
    edit_metadata(late)
    desk.store_again(late, 30)
    desk.compact()
    assert desk.compact(accept="known").state in {"published", "already"}
    assert ("altered_object", "defect") in codes(desk)


def test_a_day_that_was_only_held_has_no_first_content(tmp_path: Path) -> None:
    """No reader saw it: what is repaired before the day is first published is no alteration."""
    desk = Desk(tmp_path)
    lost = desk.corpus.shards[1].segments[3]
    DirectoryStorage(desk.raw).delete([lost.key])
    assert desk.compact().state == "held"
    edit_payload(segment(desk))
    desk.store_again(segment(desk), 1)
    desk.store_again(lost, 1)
    assert (desk.compact().verdict, codes(desk)) == ("clean", [])


def test_a_late_object_that_a_held_night_has_read_is_compared(tmp_path: Path) -> None:
    """The day was published before: what is edited until it is published again is altered, whatever held it."""
    desk = Desk(tmp_path)
    late = desk.corpus.shards[1].segments[3]
    DirectoryStorage(desk.raw).delete([late.key])
    assert desk.compact(accept="late data").state == "published"
    stray = f"{DAY.path(PREFIX)}05/stray"
    DirectoryStorage(desk.raw).put_if_absent(stray, b"x", {}, "x/y")
    desk.store_again(late, 1)
    assert desk.compact().state == "held"
    edit_payload(late)
    desk.store_again(late, 30)
    DirectoryStorage(desk.raw).delete([stray])
    for _ in range(2):
        assert desk.compact().state == "held"
        assert ("altered_object", "defect") in codes(desk)


def test_a_late_object_that_stays_as_a_held_night_has_read_it_is_clean(tmp_path: Path) -> None:
    """It is its own first content."""
    desk = Desk(tmp_path)
    late = desk.corpus.shards[1].segments[3]
    DirectoryStorage(desk.raw).delete([late.key])
    assert desk.compact(accept="late data").state == "published"
    stray = f"{DAY.path(PREFIX)}05/stray"
    DirectoryStorage(desk.raw).put_if_absent(stray, b"x", {}, "x/y")
    desk.store_again(late, 1)
    assert desk.compact().state == "held"
    DirectoryStorage(desk.raw).delete([stray])
    assert (desk.compact().verdict, codes(desk)) == ("clean", [])


def test_a_first_content_is_held_where_the_symlinks_alone_say_that_the_day_was_published(tmp_path: Path) -> None:
    """Pointer and manifests are gone; facts of the files that Athena reads are there."""
    desk = Desk(tmp_path)
    desk.compact()
    folder, storage = desk.publisher().folder, desk.publisher().storage
    storage.delete([folder.pointer, *storage.keys(folder.manifests)])
    edit_payload(segment(desk))
    desk.store_again(segment(desk), 30)
    for _ in range(2):
        assert desk.compact().state == "held"


@pytest.mark.parametrize("has_pointer", [True, False])
def test_an_audit_compares_with_first_contents(tmp_path: Path, *, has_pointer: bool) -> None:
    """By what lies in the output, which it only reads."""
    desk = Desk(tmp_path)
    desk.compact()
    if not has_pointer:
        forget_pointer(desk, None)
    edit_payload(segment(desk))
    desk.store_again(segment(desk), 30)
    before = sorted(row.key for row in desk.storage.list_objects(""))
    result = audit_day(desk.context(), DAY, AuditOptions(published=desk.out))
    about = [about for about in result.audit.findings if about.code == "altered_object"]
    assert [(one.severity, one.keys) for one in about] == [("defect", (segment(desk).key,))]
    assert sorted(row.key for row in desk.storage.list_objects("")) == before


def test_an_accepted_object_that_is_edited_again_is_a_new_finding(tmp_path: Path) -> None:
    """Who accepted a content has not seen the next one; the first content again ends nothing."""
    desk = Desk(tmp_path)
    desk.compact()
    stored = segment(desk)
    first = (stored.body, dict(stored.fields))
    edit_payload(stored)
    accepted = (stored.body, dict(stored.fields))
    desk.store_again(stored, 30)
    assert desk.compact(accept="we edited it").state == "published"
    for hour, content in ((40, first), (50, accepted)):
        stored.body, stored.fields = content
        desk.store_again(stored, hour)
        assert desk.compact().accepted == "we edited it"
    remove_line(stored)
    desk.store_again(stored, 60)
    for _ in range(2):
        done = desk.compact()
        assert (done.state, done.verdict) == ("held", "defects")
        assert audit(desk).accepted is None


def forget_pointer(desk: Desk, damage: bytes | None) -> None:
    """Delete the pointer, or leave a damaged one."""
    path = Path(desk.storage.uri(desk.publisher().folder.pointer))
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
