"""What is damaged beside a day's pointer is an outcome of that day: it is made again, or named where it cannot be."""

import gzip
import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from compaction.job.context import AuditOptions
from compaction.night.days.run import row_of_compaction
from compaction.night.days.side_by_side import DayDone, DayWorkers
from compaction.night.days.stop import StopRequest
from compaction.night.due import do_due, find_due
from compaction.night.rewrite import CompactOptions
from compaction.tasks.task import Order, TaskResult
from minutebook.clock import SystemClock
from minutebook.errors import FormatError, SafetyRefusal
from minutebook.format.tombstone import tombstone_key
from minutebook.published.generation import Pointer, inventory_beside
from minutebook.store.places import open_storage
from tests.corpus.auditing import in_process
from tests.corpus.desk import DAY, Desk, no_engine
from tests.corpus.model import PREFIX
from tests.searching import one_in

if TYPE_CHECKING:
    from compaction.night.rewrite import Compacted
    from minutebook.format.day import Day

POINTER: Final = "pointer"
NO_KEYS: Final = ["x" * 2000, "x" * 300, "é" * 120, "a\0", "a\nb", "../../../etc/hostname"]
BESIDE: Final[dict[str, Callable[[Desk, Pointer], str]]] = {
    "audit": lambda _, pointer: pointer.audit,
    "inventory": lambda _, pointer: inventory_beside(pointer.manifest),
    "manifest": lambda _, pointer: pointer.manifest,
    POINTER: lambda desk, _: desk.publisher().folder.pointer,
}
DAMAGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "no fields": lambda _: b"{}",
    "empty": lambda _: b"",
    "cut": lambda body: body[: len(body) // 2],
    "its last byte": lambda body: body[:-3],
    "no text": lambda _: b"\xff\xfe",
    "a list": lambda _: b"[1]",
    "nested": lambda _: b"[" * 100_000,
    "of nothing": lambda _: gzip.compress(b""),
}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a clean day that is published."""
    desk = Desk(tmp_path)
    assert desk.compact().verdict == "clean"
    return desk


def key_of(desk: Desk, what: str) -> str:
    """Return the key of an object of the published day."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    return BESIDE[what](desk, pointer)


def damage(desk: Desk, what: str, how: str) -> str:
    """Damage an object of the published day; return its key."""
    key = key_of(desk, what)
    path = Path(desk.storage.uri(key))
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(DAMAGES[how](path.read_bytes()))
    return key


def expire(desk: Desk) -> None:
    """Delete the day's raw objects, and leave a tombstone."""
    store = open_storage(desk.archive)
    store.put_if_absent(tombstone_key(PREFIX, DAY), b"{}", {}, "application/json")
    store.delete([row.key for row in store.list_objects(DAY.path(PREFIX))])


def assert_made_again(desk: Desk) -> None:
    """One run publishes the day whole and clean, and the next one finds nothing to do."""
    done = desk.compact()
    assert (done.state, done.verdict) == ("published", "clean")
    rows = desk.published_rows()
    assert (len(rows), len(set(rows))) == (desk.corpus.records, desk.corpus.records)
    assert desk.compact(engine=no_engine).state == "already"


@pytest.mark.parametrize(("what", "how"), one_in(4, [*product(BESIDE, [*DAMAGES, "gone"])]))
def test_what_is_damaged_is_made_again_from_the_raw_objects(desk: Desk, what: str, how: str) -> None:
    """As if nothing were published: nobody has to restore an object first."""
    damage(desk, what, how)
    assert_made_again(desk)


def test_a_damaged_pointer_alone_makes_no_new_file(desk: Desk) -> None:
    """What the night before has read and written today is whole: readers and tables keep the files they know."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    before = desk.publisher().manifest(pointer)
    damage(desk, POINTER, "cut")
    again = desk.compact().manifest
    assert before is not None
    assert again is not None
    assert [file.key for file in again.files] == [file.key for file in before.files]


@pytest.mark.parametrize(("what", "how"), one_in(4, [*product(BESIDE, [*DAMAGES, "gone"])]))
def test_a_late_object_is_published_whatever_is_damaged(desk: Desk, what: str, how: str) -> None:
    """What came late is compared with the inventory, which may be what is damaged."""
    damage(desk, what, how)
    desk.archive_more()
    assert_made_again(desk)


@pytest.mark.parametrize(
    ("what", "how"), one_in(4, [*product([name for name in BESIDE if name != POINTER], [*DAMAGES, "gone"])])
)
def test_an_expired_day_names_what_is_damaged(desk: Desk, what: str, how: str) -> None:
    """Nothing can make it again: it is unknown, and its files stay."""
    expire(desk)
    key = damage(desk, what, how)
    before = {row.key: row.etag for row in desk.storage.list_objects("")}
    done = desk.compact(engine=no_engine)
    assert (done.state, done.verdict) == ("held", "unknown")
    assert key in done.reason
    assert "restore the object" in done.reason
    assert {row.key: row.etag for row in desk.storage.list_objects("")} == before
    row = row_of_compaction(DAY, done, "unknown")
    assert (row.exit_code, row.verdict) == (4, "unknown")


@pytest.mark.parametrize("how", one_in(4, [*DAMAGES]))
def test_an_expired_day_names_a_damaged_pointer(desk: Desk, how: str) -> None:
    """One that is gone is refused as a day that was never published here."""
    expire(desk)
    key = damage(desk, POINTER, how)
    assert key in desk.compact(engine=no_engine).reason


def test_an_expired_day_without_a_pointer_is_refused(desk: Desk) -> None:
    """Nothing is deleted or written."""
    expire(desk)
    damage(desk, POINTER, "gone")
    with pytest.raises(SafetyRefusal, match="expired"):
        desk.compact(engine=no_engine)


def change(desk: Desk, what: str, **fields: object) -> None:
    """Change fields of a JSON object of the published day."""
    path = Path(desk.storage.uri(key_of(desk, what)))
    path.write_text(json.dumps(json.loads(path.read_bytes()) | fields))


def test_a_manifest_that_names_a_file_too_few_is_not_believed(desk: Desk) -> None:
    """Manifest and pointer agree, and the audit counted more rows."""
    _, manifest = desk.publisher().published()
    assert manifest is not None
    files = [{"key": file.key, "rows": file.rows, "bytes": file.bytes} for file in manifest.files]
    rows = manifest.rows - manifest.files[-1].rows
    change(desk, "manifest", files=files[:-1], rows=rows)
    change(desk, POINTER, rows=rows)
    assert_made_again(desk)


@pytest.mark.parametrize(
    "fields", [{"verdict": "unknown"}, {"equation": {"compacted": None}}, {"equation": {"compacted": 1}}]
)
def test_an_audit_that_contradicts_the_pointer_is_not_believed(desk: Desk, fields: dict[str, object]) -> None:
    """It is of another verdict, or of other files."""
    change(desk, "audit", **fields)
    assert_made_again(desk)


Basis = dict[str, Any]
FOLDER: Final = {"folder": "raw/2026/11/18/00/", "objects": 1, "bytes": 1, "digest": "x"}
BASES: Final[dict[str, Callable[[Basis], Basis | None]]] = {
    "none": lambda _: None,
    "a digest": lambda basis: basis | {"marks": "x"},
    "originals": lambda basis: basis | {"originals": [FOLDER]},
    "originals outside": lambda basis: basis | {"originals": [FOLDER | {"folder": "../x/"}]},
    "originals at the root": lambda basis: basis | {"originals": [FOLDER | {"folder": "/etc/"}]},
    "originals of another prefix": lambda basis: basis | {"originals": [FOLDER | {"folder": "2026/11/18/00/"}]},
    "originals of no hour": lambda basis: basis | {"originals": [FOLDER | {"folder": "raw/2026/11/31/00/"}]},
    "all originals": lambda basis: basis | {"originals": [FOLDER | {"folder": ""}]},
    "a shard outside": lambda basis: _with_shard(basis, shard="../../x"),
    "a shard without a name": lambda basis: _with_shard(basis, shard=""),
    "a minute": lambda basis: _with_shard(basis, minute_after=DAY.shift(9).first_minute, first_after="1:0"),
    "a position": lambda basis: _with_shard(basis, stands_on="9" * 5000 + ":0"),
}


def _with_shard(basis: Basis, **fields: object) -> Basis:
    first, *others = basis["shards"]
    return basis | {"shards": [first | fields, *others]}


@pytest.mark.parametrize("how", BASES)
def test_a_damaged_basis_is_its_days_matter_and_is_made_again(desk: Desk, how: str) -> None:
    """The new audit has the name of the damaged one: once it is judged, nothing is due."""
    path = Path(desk.storage.uri(key_of(desk, "audit")))
    audit = json.loads(path.read_bytes())
    path.write_text(json.dumps(audit | {"basis": BASES[how](audit["basis"])}))
    options = CompactOptions(AuditOptions(published=desk.out), desk.out)
    whys = []
    for _ in range(2):
        each = find_due(desk.context(), desk.out, options.audit, 1).by_day[DAY]
        whys.append(bool(each.why))
        assert do_due(desk.context()._replace(engine=no_engine), each, options).verdict == "clean"
    assert whys == [True, False]


def test_an_audit_elsewhere_is_not_read(desk: Desk) -> None:
    """Whatever key the pointer names."""
    change(desk, POINTER, audit="/etc/hostname")
    assert_made_again(desk)


@pytest.mark.parametrize(
    ("field", "name"),
    one_in(5, [*product(["manifest", "audit"], NO_KEYS)]),
)
def test_a_pointer_that_names_a_key_which_no_store_has_is_damaged(desk: Desk, field: str, name: str) -> None:
    """Over-long for S3 or for a file system, or no name at all: the store is not asked for it."""
    folder = desk.publisher().folder
    change(desk, POINTER, **{field: f"{folder.manifests}{name}.json"})
    with pytest.raises(FormatError, match="names a key that no run writes: 'tables/dt=2026-11-20/_manifest/") as told:
        desk.publisher().current()
    assert len(str(told.value)) < 300
    assert_made_again(desk)


def test_an_over_long_key_in_a_manifest_or_an_audit_is_damage(desk: Desk) -> None:
    """That of the manifest's first audit."""
    folder = desk.publisher().folder
    change(desk, "manifest", audit=f"{folder.manifests}{'x' * 2000}.audit.json")
    assert_made_again(desk)


def test_an_inventory_of_other_objects_is_not_believed(desk: Desk) -> None:
    """It parses, and `expire` would refuse the day by it."""
    path = Path(desk.storage.uri(key_of(desk, "inventory")))
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:-1])))
    assert_made_again(desk)


def test_a_time_in_the_pointer_that_is_none_is_no_time(desk: Desk) -> None:
    """Sweeps go by it."""
    change(desk, POINTER, written_at="soon")
    assert_made_again(desk)


def test_a_night_publishes_a_day_again_whose_pointer_has_no_time(desk: Desk) -> None:
    """The sweep of a day that is as it was would fail by it each night."""
    change(desk, POINTER, written_at="soon")
    options = CompactOptions(AuditOptions(published=desk.out), desk.out)
    whys = []
    for _ in range(2):
        each = find_due(desk.context(), desk.out, options.audit, 1).by_day[DAY]
        whys.append(each.why.partition(":")[0])
        assert do_due(desk.context(), each, options).verdict == "clean"
    assert whys == ["what is published is damaged", ""]


def test_an_expired_day_names_a_pointer_without_a_time(desk: Desk) -> None:
    """Nothing is swept by it."""
    expire(desk)
    change(desk, POINTER, written_at="soon")
    done = desk.compact(engine=no_engine)
    assert (done.state, "was written at 'soon', which is not a time" in done.reason) == ("held", True)


def test_an_end_in_the_pointer_that_is_no_time_is_replaced(desk: Desk) -> None:
    """Nobody can say how far it reaches."""
    change(desk, POINTER, until="soon")
    assert_made_again(desk)


@pytest.mark.parametrize("fields", [{"format": 2}, {"added": 1}])
def test_a_pointer_of_a_later_version_is_not_replaced(desk: Desk, fields: dict[str, object]) -> None:
    """It is not damaged: this version does not know it."""
    change(desk, POINTER, **fields)
    before = desk.storage.get(key_of_pointer := desk.publisher().folder.pointer)
    with pytest.raises(FormatError, match=r"_current\.json"):
        desk.compact()
    assert desk.storage.get(key_of_pointer) == before


def test_a_damaged_pointer_is_replaced_only_as_it_was_read(desk: Desk) -> None:
    """Another run repairs it meanwhile: its pointer stays, and this run finds nothing to do."""
    damage(desk, POINTER, "cut")
    inner: list[Compacted] = []

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        if not inner:
            inner.append(desk.compact())
        return in_process(orders)

    assert desk.compact(engine=engine).state == "already"
    assert inner[0].state == "published"


@pytest.mark.parametrize("what", BESIDE)
def test_the_other_days_go_on(tmp_path: Path, what: str) -> None:
    """A run of three days, the middle one damaged and expired: each is an outcome."""
    desk = Desk(tmp_path)
    desk.compact()
    damage(desk, what, "no fields")
    expire(desk)
    ends: dict[Day, DayDone[Compacted]] = {}
    days = [DAY.shift(-1), DAY, DAY.shift(1)]
    workers = DayWorkers(1, StopRequest(), SystemClock(), lambda: None, lambda: None)
    workers.run(days, lambda day: desk.compact(day=day), lambda done: ends.update({done.day: done}))
    assert list(ends) == days
    middle = ends[DAY].result
    assert middle is not None
    assert middle.verdict == "unknown"
