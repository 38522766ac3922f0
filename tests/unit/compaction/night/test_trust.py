"""What a run finds of a day that is published already: nothing is believed that was not looked at."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from compaction.publish.publisher import GRACE_MS
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.audit_document import publishable
from minutebook.errors import OutcomeUnknown
from minutebook.published.generation import FACTS_FOLDER, Manifest, Pointer
from minutebook.published.verdict import RULES
from minutebook.reader import days
from minutebook.store.objects import PutOutcome
from minutebook.store.places import open_storage
from tests.corpus.auditing import in_process
from tests.corpus.desk import DAY, Desk, unproven
from tests.fakes.failing_storage import Crash, FailingStorage

if TYPE_CHECKING:
    from compaction.night.rewrite import Compacted


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a clean day that is not published."""
    return Desk(tmp_path)


def published(desk: Desk) -> tuple[Pointer, Manifest]:
    """Return what readers see now."""
    pointer, manifest = desk.publisher().published()
    assert pointer is not None
    assert manifest is not None
    return pointer, manifest


def forge(desk: Desk, key: str, document: Pointer | Manifest) -> None:
    """Write over an object of the output, as whoever has the right to may."""
    Path(desk.storage.uri(key)).write_bytes(msgspec.json.encode(document))


def assert_whole(desk: Desk) -> None:
    """Readers find each row of the day once, in files that are there."""
    rows = desk.published_rows()
    assert (len(rows), len(set(rows))) == (desk.corpus.records, desk.corpus.records)
    assert desk.publisher().is_whole(published(desk)[1])


def test_hours_that_earlier_versions_published_change_nothing(desk: Desk) -> None:
    """Below `_hours/` lies what looks like a day, or is damaged: neither a run nor a reader opens it."""
    desk.out = desk.out._replace(prefix="")
    desk.compact()
    folder = desk.publisher().folder
    for row in list(desk.storage.list_objects(folder.path)):
        stored = desk.storage.get(row.key)
        assert stored is not None
        desk.storage.put_if_absent(row.key.replace(folder.path, f"{folder.hours}10/"), stored.body, {}, "x/y")
    desk.storage.put_if_absent(f"{folder.hours}11/_current.json", b"{", {}, "x/y")
    before = [row.key for row in desk.storage.list_objects(folder.hours)]
    desk.archive_more()
    assert desk.compact().state == "published"
    assert_whole(desk)
    assert days.published(desk.storage.uri(""), str(DAY), str(DAY)).days[0].rows == desk.corpus.records
    assert desk.publisher().sweep(desk.after_grace_ms())
    assert [row.key for row in desk.storage.list_objects(folder.hours)] == before


def test_a_published_file_that_is_gone_is_made_again(desk: Desk) -> None:
    """The day is not `already` there when its Parquet is not."""
    desk.compact()
    desk.storage.delete([published(desk)[1].files[0].key])
    assert desk.compact().state == "published"
    assert_whole(desk)


def test_a_published_file_that_was_cut_is_made_again(desk: Desk) -> None:
    """Nor when a file of it has another size."""
    desk.compact()
    path = Path(desk.storage.uri(published(desk)[1].files[0].key))
    path.write_bytes(path.read_bytes()[:-1])
    assert desk.compact().state == "published"
    assert_whole(desk)


def test_the_manifest_of_files_that_are_gone_never_comes_back(desk: Desk) -> None:
    """The run that made them anew is named by the pointer, not who named the lost ones before."""
    desk.compact()
    before = published(desk)
    desk.storage.delete([file.key for file in before[1].files])
    desk.compact()
    after = published(desk)
    assert after[0].manifest != before[0].manifest
    assert {file.key for file in after[1].files}.isdisjoint(file.key for file in before[1].files)
    assert_whole(desk)


def test_a_manifest_that_is_planted_beside_the_day_is_not_read(tmp_path: Path) -> None:
    """Whatever name a run might look for: its rows come from the raw objects."""
    other = Desk(tmp_path / "other")
    other.compact()
    pointer, manifest = published(other)
    desk = Desk(tmp_path / "desk")
    folder = desk.publisher().folder
    desk.storage.put_if_absent(f"{folder.path}planted.parquet", b"PAR1", {}, "x")
    file = msgspec.structs.replace(manifest.files[0], key=f"{folder.path}planted.parquet", bytes=4)
    planted = msgspec.structs.replace(manifest, files=(file,), rows=file.rows)
    for key in (f"{folder.manifests}{manifest.generation}.json", pointer.manifest):
        desk.storage.put_if_absent(key, msgspec.json.encode(planted), {}, "application/json")
    assert desk.compact().state == "published"
    assert_whole(desk)


FORGERIES: dict[str, Callable[[Pointer, Manifest], tuple[Pointer, Manifest]]] = {
    "another day": lambda pointer, manifest: (pointer, msgspec.structs.replace(manifest, day="2026-11-19")),
    "another generation": lambda pointer, manifest: (
        pointer,
        msgspec.structs.replace(manifest, generation="0123456789abcdef"),
    ),
    "made of other objects": lambda pointer, manifest: (
        pointer,
        msgspec.structs.replace(manifest, inventory="0" * 64),
    ),
    "rows that its files do not have": lambda pointer, manifest: (
        msgspec.structs.replace(pointer, rows=manifest.rows + 1),
        msgspec.structs.replace(manifest, rows=manifest.rows + 1),
    ),
    "fewer files": lambda pointer, manifest: (
        msgspec.structs.replace(pointer, rows=0),
        msgspec.structs.replace(manifest, files=manifest.files[:-1]),
    ),
    "older rules": lambda pointer, manifest: (
        msgspec.structs.replace(pointer, rules=RULES - 1),
        msgspec.structs.replace(manifest, rules=RULES - 1),
    ),
    "older rules of the manifest alone": lambda pointer, manifest: (
        pointer,
        msgspec.structs.replace(manifest, rules=RULES - 1),
    ),
    "another writer": lambda pointer, manifest: (pointer, msgspec.structs.replace(manifest, writer="somebody")),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_manifest_that_contradicts_what_is_known_is_not_believed(desk: Desk, name: str) -> None:
    """The day is read again, and published again."""
    desk.compact()
    pointer, manifest = published(desk)
    changed = FORGERIES[name](pointer, manifest)
    forge(desk, desk.publisher().folder.pointer, changed[0])
    forge(desk, pointer.manifest, changed[1])
    assert desk.compact().state == "published"
    assert_whole(desk)
    assert desk.compact().state == "already"


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff"], ids=["empty", "no fields", "no text"])
def test_a_manifest_that_does_not_parse_is_not_believed(desk: Desk, body: bytes) -> None:
    """It is made anew; nobody has to restore it first."""
    desk.compact()
    Path(desk.storage.uri(published(desk)[0].manifest)).write_bytes(body)
    assert desk.compact().state == "published"
    assert_whole(desk)


def test_a_file_outside_of_its_generation_is_not_believed(desk: Desk) -> None:
    """Its size may be right: it is somebody's."""
    desk.compact()
    pointer, manifest = published(desk)
    file = manifest.files[0]
    moved = msgspec.structs.replace(file, key=f"{desk.publisher().folder.path}mine.parquet")
    Path(desk.storage.uri(file.key)).rename(desk.storage.uri(moved.key))
    forge(desk, pointer.manifest, msgspec.structs.replace(manifest, files=(moved, *manifest.files[1:])))
    assert desk.compact().state == "published"
    assert_whole(desk)


def test_a_file_that_is_named_twice_is_not_believed(desk: Desk) -> None:
    """Readers would see its rows twice."""
    desk.compact()
    pointer, manifest = published(desk)
    rows = manifest.rows + manifest.files[0].rows
    forge(desk, desk.publisher().folder.pointer, msgspec.structs.replace(pointer, rows=rows))
    forge(desk, pointer.manifest, msgspec.structs.replace(manifest, rows=rows, files=manifest.files * 2))
    assert desk.compact().state == "published"
    assert_whole(desk)


def test_everything_that_is_published_says_by_which_rules(desk: Desk) -> None:
    """Pointer, manifest and audit."""
    done = desk.compact()
    pointer, manifest = published(desk)
    assert done.result is not None
    assert (pointer.rules, manifest.rules, done.result.audit.rules) == (RULES, RULES, RULES)


def test_a_lost_swap_of_a_verdict_is_lost(tmp_path: Path) -> None:
    """A run that proves a day while another publishes it anew says what the pointer says, not what it meant."""
    desk, proof = unproven(tmp_path)
    desk.corpus.shards[2].checkpoint = proof
    inner: list[Compacted] = []

    class Meanwhile(FailingStorage):
        """Lets another run publish a late object before the pointer is swapped."""

        def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
            if key.endswith("_current.json") and not inner:
                desk.archive_more()
                desk.corpus.shards[2].checkpoint = None
                inner.append(desk.compact())
            return super().put_if_match(key, body, etag, content_type)

    outer = desk.compact(Meanwhile(desk.storage, 0, applied=False))
    assert (inner[0].state, inner[0].verdict) == ("published", "unknown")
    assert (outer.verdict, published(desk)[0].verdict) == ("unknown", "unknown")
    assert outer.manifest == published(desk)[1]


def test_a_day_that_another_run_publishes_while_it_is_blocked_is_withdrawn(desk: Desk) -> None:
    """It had listed the segment that is gone: nobody reads clean behind the run that found the loss."""
    archive = open_storage(desk.archive)
    lost = desk.corpus.shards[0].segments[desk.corpus.shards[0].in_day(DAY)[3]]
    inner: list[Compacted] = []

    class Meanwhile(FailingStorage):
        """Lets another run publish the day as it was, before the audit of the blocked one is stored."""

        def put_if_absent(self, key: str, *arguments: Any, **named: Any) -> PutOutcome:  # noqa: ANN401 - as the port
            if key.endswith(".audit.json") and not inner:
                desk.store_again(lost, 1)
                inner.append(desk.compact())
                archive.delete([lost.key])
            return super().put_if_absent(key, *arguments, **named)

    archive.delete([lost.key])
    outer = desk.compact(Meanwhile(desk.storage, 0, applied=False))
    assert (inner[0].state, inner[0].verdict) == ("published", "clean")
    assert (outer.state, outer.verdict, outer.done) == ("held", "defects", ("withdrawn",))
    assert published(desk)[0].verdict == "defects"


def test_an_equation_that_does_not_balance_holds_the_day_back(desk: Desk) -> None:
    """Rows that the files lack are no finding of a line; they must not be published all the same."""

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        return [
            result if result.part is None else result._replace(part=result.part._replace(rows=result.part.rows - 1))
            for result in in_process(orders)
        ]

    done = desk.compact(engine=engine)
    assert (done.state, done.verdict) == ("held", "defects")
    assert done.result is not None
    assert not publishable(done.result.audit)
    assert not done.result.audit.findings


def old(desk: Desk) -> list[str]:
    """Replace a generation, and let all that is there grow old but the pointer's; returns the replaced files."""
    first = desk.compact().manifest
    desk.archive_more()
    desk.compact()
    assert first is not None
    return [file.key for file in first.files]


def manifests(desk: Desk) -> list[Manifest]:
    """Return every manifest that is stored."""
    bodies = [desk.storage.get(row.key) for row in desk.storage.list_objects(desk.publisher().folder.manifests)]
    return [
        msgspec.json.decode(stored.body, type=Manifest)
        for stored in bodies
        if stored is not None and b'"generation"' in stored.body[:200]
    ]


def test_a_crash_in_a_sweep_leaves_no_manifest_of_files_that_are_gone(tmp_path: Path) -> None:
    """Manifests go first: before and after each request, whatever is named is there."""
    for applied in (False, True):
        for at in range(1, 100):
            desk = Desk(tmp_path / f"{applied}-{at}")
            old(desk)
            assert len(manifests(desk)) == 2
            failing = FailingStorage(desk.storage, at, applied=applied)
            with contextlib.suppress(Crash):
                desk.publisher(failing).sweep(desk.after_grace_ms())
            assert all(desk.publisher().is_whole(manifest) for manifest in manifests(desk))
            if not failing.reached:
                assert len(manifests(desk)) == 1
                break


@pytest.mark.parametrize("young", ["a file", "a manifest"])
def test_a_generation_of_which_anything_is_young_is_not_swept(desk: Desk, young: str) -> None:
    """A run may be about to publish it: the age of each file alone says nothing."""
    files, folder, now_ms = old(desk), desk.publisher().folder, desk.after_grace_ms()
    generation = folder.generation_of(files[0])
    keys = {"a file": f"{folder.generation(generation)}part-new.parquet"}
    key = (keys | {"a manifest": folder.manifest(generation, "run-of-now")})[young]
    desk.storage.put_if_absent(key, b"x", {}, "x")
    desk.age(key, now_ms)
    assert not set(files) & set(desk.publisher().sweep(now_ms))
    assert all(desk.storage.head(file) for file in files)
    assert set(files) <= set(desk.publisher().sweep(now_ms + GRACE_MS + 60_000))


def test_what_a_crashed_run_left_of_the_current_generation_goes(desk: Desk) -> None:
    """Files and manifests that are not the pointer's, once they are old; the pointer's stay, and all facts."""
    desk.compact()
    first = published(desk)
    desk.storage.delete([first[1].files[0].key])
    desk.compact()
    facts = [key for key in desk.publisher().storage.keys(desk.publisher().folder.path) if FACTS_FOLDER in key]
    swept = set(desk.publisher().sweep(desk.after_grace_ms()))
    assert facts
    assert all(desk.storage.head(key) for key in facts)
    assert swept == {file.key for file in first[1].files[1:]}
    assert desk.storage.head(first[0].manifest) is None
    assert_whole(desk)


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_lost_answer_in_a_verdicts_swap_is_settled(tmp_path: Path, applied: bool) -> None:  # noqa: FBT001 - a case
    """An unknown outcome is asked again, and the verdict is the pointer's."""
    desk, proof = unproven(tmp_path)
    desk.corpus.shards[2].checkpoint = proof
    lost: list[str] = []

    class Lossy(FailingStorage):
        """Loses the answer to the first swap of the pointer."""

        def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
            if lost or not key.endswith("_current.json"):
                return super().put_if_match(key, body, etag, content_type)
            lost.append(key)
            if applied:
                super().put_if_match(key, body, etag, content_type)
            raise OutcomeUnknown("time-out")

    assert desk.compact(Lossy(desk.storage, 0, applied=False)).verdict == "clean"
    assert published(desk)[0].verdict == "clean"
    assert lost
    assert str(DAY) == published(desk)[0].day
