"""Vacuum: what nothing names goes when it is old, and nothing else does; a damaged day is left alone."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from compaction.commands.vacuum.command import PublishedOutput, run_vacuum, vacuum_age_ms, vacuum_output
from compaction.job.request import VacuumRequest
from compaction.publish.publisher import GRACE_MS
from minutebook.clock import SystemClock
from minutebook.errors import SettingsError, StoreRefused
from minutebook.format.document import encode_document
from minutebook.format.tombstone import tombstone_key
from minutebook.published.generation import Manifest, PointerVerdict, is_inventory, is_manifest
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.places import open_storage
from tests.corpus.desk import DAY, OUT, Desk, expire
from tests.corpus.model import PREFIX
from tests.fakes.failing_storage import Crash, FailingStorage
from tests.unit.compaction.commands.vacuum.scene import generation, keys, named, put, twice_published, vacuum

OF_AN_HOUR = (
    "_current.json",
    "_gen-a/part-00000-1.parquet",
    "_gen-a/_facts/f-1.parquet",
    "_gen-a/_ids/00000-1.parquet",
    "_manifest/a-w.json",
    "_manifest/a-w.tasks.json",
    "_manifest/a-w.inventory.jsonl.gz",
    "_manifest/a-e.audit.json",
)
"""What earlier versions wrote of an hour, below `_hours/HH/`."""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a day that was published twice: a segment came late."""
    return twice_published(tmp_path)


def test_the_generation_before_goes_with_all_that_is_its(desk: Desk) -> None:
    """Its files, manifest, audit and inventory; what is left is what the pointer names."""
    before = {row.key: row.size for row in desk.storage.list_objects(OUT)}
    report = vacuum(desk)
    assert keys(desk) == named(desk)
    gone = before.keys() - keys(desk)
    assert len(gone) >= 4
    assert (report.objects, report.bytes) == (len(gone), sum(before[key] for key in gone))
    assert len(desk.published_rows()) == desk.corpus.records
    assert desk.compact().state == "already"


def test_schemas_of_a_registry_stay(desk: Desk) -> None:
    """However old: a day is made again by them."""
    schema = f"{OUT}_schemas/00000000-0000-0000-0000-000000000007"
    desk.storage.put_if_absent(schema, b"{}", {}, "x/y")
    vacuum(desk, later=10 * GRACE_MS)
    assert keys(desk) == named(desk) | {schema}


def test_a_plan_says_the_same_and_deletes_nothing(desk: Desk) -> None:
    """Object by object."""
    before = keys(desk)
    said = vacuum(desk, apply=False)
    assert keys(desk) == before
    done = vacuum(desk)
    assert (said.objects, said.bytes, said.days) == (done.objects, done.bytes, done.days)
    assert (said.applied, done.applied) == (False, True)


def test_what_is_young_stays(desk: Desk) -> None:
    """All of the generation: a run that is about to publish it has just written the first of it."""
    old = put(desk, ["_gen-crashed/part-1.parquet", "_manifest/crashed-w.json"])
    young = put(desk, ["_gen-working/part-1.parquet"])
    working = put(desk, ["_gen-working/part-2.parquet"])
    desk.age(working[0], desk.after_grace_ms() - GRACE_MS + 1)
    vacuum(desk)
    assert keys(desk) == {*named(desk), *young, *working}
    assert not keys(desk) & set(old)


def test_while_the_pointer_is_young_all_stays(tmp_path: Path) -> None:
    """A query may have begun on the generation before."""
    desk = Desk(tmp_path)
    desk.compact()
    desk.clock.advance((desk.after_grace_ms() - desk.clock.now_ms()) / 1000)
    desk.archive_more()
    desk.compact()
    before = keys(desk)
    context = desk.context()
    report = vacuum_output(
        PublishedOutput(context.archive, PREFIX, context.open(desk.out.address), OUT),
        desk.clock.now_ms() + GRACE_MS - 1,
        GRACE_MS,
        apply=True,
    )
    assert (keys(desk), report.objects) == (before, 0)


def test_what_a_table_may_name_stays(desk: Desk) -> None:
    """Its generation, whole, however old; the mark, too."""
    kept = put(desk, ["_gen-tabled/part-1.parquet", "_manifest/tabled-w.json", "_tables/tabled.t.r.json"])
    vacuum(desk)
    assert keys(desk) == {*named(desk), *kept}


def test_what_the_symlinks_still_name_stays(desk: Desk) -> None:
    """A run crashed between its swap and the symlinks: Athena reads the generation before."""
    [old] = put(desk, ["_gen-before/part-1.parquet"])
    symlinks = Path(desk.storage.uri(desk.publisher().folder.symlinks))
    symlinks.write_text(desk.storage.uri(old) + "\n")
    vacuum(desk)
    assert old in keys(desk)


def test_what_the_symlinks_name_stays_wherever_they_were_written(desk: Desk) -> None:
    """The run saw the output at another place: a folder that is mounted, or a scheme that Hadoop knows."""
    [old] = put(desk, ["_gen-before/part-1.parquet"])
    Path(desk.storage.uri(desk.publisher().folder.symlinks)).write_text(f"s3a://elsewhere/{old}\n")
    vacuum(desk)
    assert old in keys(desk)


def test_what_others_put_among_ours_stays(desk: Desk) -> None:
    """By names that no run gives; a folder that looks like a day's, and is none, stops nobody."""
    theirs = put(
        desk,
        [
            "_gen-notes.txt",
            "_gen-old/README.md",
            "_gen-old/copy/part-1.parquet",
            "gen=theirs/data.csv",
            "_manifest/README.md",
            "_manifest/notes.json",
            "_manifest/sub/a-w.json",
        ],
    )
    elsewhere = [f"{OUT}dt=latest/x", f"{OUT}dt={DAY}-backup/_gen-a/part-1.parquet"]
    for key in elsewhere:
        desk.storage.put_if_absent(key, b"left", {}, "x/y")
    assert vacuum(desk).exit_code == 0
    assert keys(desk) == {*named(desk), *theirs, *elsewhere}


def test_hours_that_earlier_versions_published_go_when_they_are_old(desk: Desk) -> None:
    """Pointers, files, facts, ids and what is beside manifests; not what is young, and not what others put there."""
    old = put(desk, [f"_hours/{hour}/{name}" for hour in ("00", "13") for name in OF_AN_HOUR])
    young = put(desk, ["_hours/23/_current.json"], age_ms=-GRACE_MS - 120_000)
    theirs = put(
        desk, ["_hours/notes.txt", "_hours/13/README.md", "_hours/1/_current.json", "_hours/13/data/_current.json"]
    )
    unfinished = put(desk, ["_hours/13/_gen-a/part-2.parquet.writing"])
    others = vacuum(desk, apply=False)
    assert vacuum(desk).uploads == others.uploads == 1
    assert keys(desk) == {*named(desk), *young, *theirs}
    assert not keys(desk) & {*old, *unfinished}


def test_hours_stay_where_no_raw_object_is_left(tmp_path: Path) -> None:
    """They may be all there is of a day that was never published as a whole."""
    desk = Desk(tmp_path)
    hours = put(desk, [f"_hours/13/{name}" for name in OF_AN_HOUR])
    assert vacuum(desk, apply=False).objects == len(hours)
    open_storage(desk.archive).delete([row.key for row in open_storage(desk.archive).list_objects(DAY.path(PREFIX))])
    assert (vacuum(desk).exit_code, keys(desk)) == (6, set(hours))


def test_a_pointer_that_was_put_back_is_young(desk: Desk) -> None:
    """It says when it was written first; a query may have begun on what it named until a moment ago."""
    folder, now_ms = desk.publisher().folder, desk.after_grace_ms()
    late = {key for key in named(desk) if "/_gen-" in key or "/_manifest/" in key}
    put_back(desk)
    before = keys(desk)
    desk.age(folder.pointer, now_ms - 600_000)
    assert (vacuum(desk).objects, keys(desk)) == (0, before)
    assert desk.publisher().sweep(now_ms) == []
    desk.age(folder.pointer, now_ms - GRACE_MS - 600_000)
    desk.publisher().write_symlinks()
    vacuum(desk)
    # What the day was last published clean with stays: nights compare with it.
    assert {key for key in keys(desk) - named(desk) if not is_inventory(key)} == set()
    assert {is_inventory(key) for key in keys(desk) & late} == {True}


def put_back(desk: Desk) -> None:
    """Let a person put the first version of the pointer back, which named the first generation."""
    folder = desk.publisher().folder
    documents = {key: desk.storage.get(key) for key in desk.publisher().storage.keys(folder.manifests)}
    manifests = {
        key: msgspec.json.decode(stored.body, type=Manifest)
        for key, stored in documents.items()
        if stored is not None and is_manifest(key)
    }
    key, first = min(manifests.items(), key=lambda entry: entry[1].rows)
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    fields = {"manifest": key, "generation": first.generation, "rows": first.rows, "audit": first.audit}
    before = msgspec.structs.replace(pointer, **fields, written_at=first.written_at)
    Path(desk.storage.uri(folder.pointer)).write_bytes(encode_document(before))


def test_what_lies_in_folders_of_the_current_generation_stays(desk: Desk) -> None:
    """It is about its files; a file beside them that no manifest names goes."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    inside, unnamed = put(
        desk, [f"_gen-{pointer.generation}/_facts/f.parquet", f"_gen-{pointer.generation}/part-9.parquet"]
    )
    vacuum(desk)
    assert keys(desk) == {*named(desk), inside}
    assert unnamed not in keys(desk)


def test_a_day_that_was_never_published_is_cleared(tmp_path: Path) -> None:
    """Runs crashed; the raw objects are there."""
    desk = Desk(tmp_path)
    put(desk, ["_gen-a/part-1.parquet", "_manifest/a-w.json", "_manifest/a-e.audit.json"])
    report = vacuum(desk)
    assert (report.objects, report.exit_code, keys(desk)) == (3, 0, set())


def test_an_unfinished_upload_is_given_up(desk: Desk) -> None:
    """An old one; that of a run at work stays."""
    root = Path(desk.storage.uri(desk.publisher().folder.path))
    for name, age_ms in (("old", 0), ("young", -GRACE_MS - 120_000)):
        folder = root / f"_gen-{name}"
        folder.mkdir()
        (folder / "part-1.parquet.writing").write_bytes(b"half")
        desk.age(f"tables/dt={DAY}/_gen-{name}/part-1.parquet.writing", SystemClock().now_ms() - age_ms)
    report = vacuum(desk)
    assert report.uploads == 1
    assert [path.parent.name for path in root.rglob("*.writing")] == ["_gen-young"]


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_crash_at_any_request_takes_nothing_that_is_named(tmp_path: Path, *, applied: bool) -> None:
    """And the next vacuum finishes."""
    at = 0
    while True:
        at += 1
        desk = Desk(tmp_path / f"{applied}-{at}")
        desk.compact()
        put(desk, ["_gen-a/part-1.parquet", "_manifest/a-w.json", "_manifest/a-e.audit.json"])
        failing = FailingStorage(desk.storage, at, applied=applied)
        try:
            vacuum(desk, storage=failing)
        except Crash:
            assert named(desk) <= keys(desk)
            assert vacuum(desk).exit_code == 0
        assert keys(desk) == named(desk)
        if not failing.reached:
            return


class Interrupting(DirectoryStorage):
    """Lets somebody else work just before or after a delete of audits."""

    def __init__(self, root: Path, work: Callable[[], None], *, before: bool) -> None:
        super().__init__(root)
        self._work = work
        self._before = before

    def delete(self, keys: Iterable[str]) -> None:
        """Delete, with the others' work in front of it or behind it."""
        doomed = list(keys)
        is_audit = any(key.endswith(".audit.json") for key in doomed)
        if is_audit and self._before:
            self._work()
        super().delete(doomed)
        if is_audit and not self._before:
            self._work()


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_an_old_audit_that_a_pointer_names_again_is_there(desk: Desk, *, before: bool) -> None:
    """The evidence is again what it was, so a run swaps the pointer to the old audit while vacuum deletes it."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    manifest = desk.publisher().manifest(pointer)
    assert manifest is not None
    audit, body = f"{pointer.audit.removesuffix('.audit.json')[:-4]}back.audit.json", b"{}"
    desk.storage.put_if_absent(audit, body, {}, "x/y")
    publisher = desk.publisher()
    publisher.put_audit(audit, body)  # the run has looked, and found it there

    def swap() -> None:
        assert publisher.swap_pointer(
            manifest, desk.publisher().current(), "again", pointer.written_at, PointerVerdict("clean", audit)
        )

    assert isinstance(desk.storage, DirectoryStorage)
    vacuum(desk, storage=Interrupting(desk.storage.root, swap, before=before))
    stored = desk.storage.get(audit)
    assert stored is not None
    assert stored.body == body


def test_a_swap_puts_its_audit_again(desk: Desk) -> None:
    """Vacuum has deleted it between the look and the swap: nobody named it then."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    manifest = desk.publisher().manifest(pointer)
    assert manifest is not None
    publisher, audit = desk.publisher(), f"{desk.publisher().folder.manifests}g-back.audit.json"
    publisher.put_audit(audit, b"{}")
    desk.storage.delete([audit])
    judged = PointerVerdict("clean", audit)
    assert publisher.swap_pointer(manifest, publisher.current(), "again", pointer.written_at, judged)
    assert desk.storage.head(audit) is not None


@pytest.mark.parametrize("text", ["1d", "2d", "0d", "3", "", "3h", "-3d", "999999d"])
def test_an_age_is_days_and_not_below_the_grace(text: str) -> None:
    """Whoever asks for less would take what is being written."""
    with pytest.raises(SettingsError):
        vacuum_age_ms(text)


def test_three_days_are_enough() -> None:
    """The grace of the sweep."""
    assert vacuum_age_ms("3d") == GRACE_MS


@pytest.mark.parametrize(
    ("table", "catalog", "why"),
    [("raw", None, "not the name of a table"), (None, "lake", "--iceberg-catalog needs --iceberg")],
)
def test_a_table_is_named_whole(table: str | None, catalog: str | None, why: str) -> None:
    """Before anything is asked or deleted."""
    with pytest.raises(SettingsError, match=why):
        run_vacuum(VacuumRequest("/nonexistent", iceberg=table, iceberg_catalog=catalog), {})


def test_an_expired_day_keeps_what_its_pointer_names(desk: Desk) -> None:
    """That is all there is of it."""
    expire(desk, generation(desk), days=0)
    wanted = named(desk)
    vacuum(desk)
    assert keys(desk) == wanted


def test_the_generation_by_which_a_day_was_expired_stays(desk: Desk) -> None:
    """An older pointer was put back: whoever restores the one of then needs all that it names."""
    wanted = named(desk)
    expire(desk, generation(desk), days=0)
    path = Path(desk.storage.uri(desk.publisher().folder.pointer))
    last = path.read_bytes()
    pointer, manifest = desk.publisher().published()
    assert pointer is not None
    assert manifest is not None
    folder = desk.publisher().folder.manifests
    manifests = [key for key in keys(desk) if key.startswith(folder) and is_manifest(key)]
    older = next(key for key in manifests if key != pointer.manifest)
    fields = json.loads(Path(desk.storage.uri(older)).read_bytes())
    path.write_text(
        json.dumps(
            json.loads(last)
            | {name: fields[name] for name in ("generation", "rows", "verdict", "audit")}
            | {"manifest": older}
        )
    )
    assert desk.publisher().published()[1] is not None
    report = vacuum(desk, later=2 * GRACE_MS)
    assert (keys(desk) >= wanted, report.exit_code) == (True, 0)
    path.write_bytes(last)
    assert desk.publisher().damage(pointer, manifest) == ""


@pytest.mark.parametrize(("damage", "code"), [(b"{}", 1), (None, 6)], ids=["damaged", "refused"])
def test_a_day_whose_tombstone_cannot_be_read_is_left_alone(desk: Desk, damage: bytes | None, code: int) -> None:
    """Nobody knows which generation is the only copy of it."""
    expire(desk, generation(desk), days=0)
    key = tombstone_key(PREFIX, DAY)
    if damage is not None:
        Path(open_storage(desk.archive).uri(key)).write_bytes(damage)
    before = keys(desk)
    refused = StoreRefused(f"GET {key}: AccessDenied")
    report = vacuum(desk, refuse=lambda asked: refused if damage is None and asked == key else None)
    assert (keys(desk), report.exit_code, report.objects) == (before, code, 0)


def _without_pointer(desk: Desk) -> None:
    desk.storage.delete([desk.publisher().folder.pointer])


def test_without_a_pointer_the_files_stay_where_no_raw_object_is_left(desk: Desk) -> None:
    """A lifecycle rule took them, or the prefix is another one: no tombstone says so, and they are gone."""
    _without_pointer(desk)
    open_storage(desk.archive).delete([row.key for row in open_storage(desk.archive).list_objects(DAY.path(PREFIX))])
    before = keys(desk)
    report = vacuum(desk)
    assert (keys(desk), report.exit_code, report.objects) == (before, 6, 0)


def _without_manifest(desk: Desk) -> None:
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    desk.storage.delete([pointer.manifest])


def _without_a_file(desk: Desk) -> None:
    desk.storage.delete([max(key for key in named(desk) if key.endswith(".parquet"))])


def _with_another_pointer(desk: Desk) -> None:
    current = desk.publisher().current()
    assert current.pointer is not None
    said = json.loads(encode_document(current.pointer)) | {"rows": 1}
    desk.storage.put_if_match(desk.publisher().folder.pointer, json.dumps(said).encode(), current.etag, "x/y")


@pytest.mark.parametrize(
    ("damage", "code"),
    [(_without_pointer, 6), (_without_manifest, 1), (_without_a_file, 6), (_with_another_pointer, 1)],
)
def test_a_damaged_day_is_left_alone(desk: Desk, damage: Callable[[Desk], None], code: int) -> None:
    """What looks left over may be all there is: nothing goes, and the exit code says so."""
    expire(desk, generation(desk), days=0)
    damage(desk)
    before = keys(desk)
    report = vacuum(desk)
    assert (keys(desk), report.exit_code, report.objects) == (before, code, 0)
    [row] = report.days
    assert row.reason
    assert row.next_step
