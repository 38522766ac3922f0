"""Level inventory: names and metadata prove no day; lines that the published day knows as they are count as read."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions, JobContext
from compaction.verdict.audit_document import Audit, AuditLevel
from compaction.verdict.exit_code import DayEnd, exit_code
from minutebook.compression import Compression
from minutebook.errors import StoreRefused
from minutebook.published.generation import FACTS_FOLDER
from minutebook.store.objects import ObjectHead
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from tests.corpus.defects import break_shard, broken_shards
from tests.corpus.desk import DAY, Desk, no_engine
from tests.corpus.edits import EDITS
from tests.corpus.model import PREFIX, Corpus, Defect, Shape, Stored


def audit(desk: Desk, level: AuditLevel = "inventory", *, is_published: bool = True, **changes: object) -> Audit:
    """Audit the day; `changes` replace parts of the context."""
    options = AuditOptions(level=level, published=desk.out if is_published else None)
    context = desk.context()._replace(**changes)  # type: ignore[arg-type]
    return audit_day(context, DAY, options).audit


def unread(audit: Audit) -> list[str]:
    """Return the checks that say that lines were not read."""
    return [check.message for check in audit.checks if check.id == "lines_not_read" and check.status == "unknown"]


def files(desk: Desk) -> dict[Path, bytes]:
    """Return all that is stored below the output."""
    return {path: path.read_bytes() for path in Path(desk.out.address.root).rglob("*") if path.is_file()}


@pytest.mark.parametrize("compression", Compression)
def test_names_and_metadata_prove_no_day(tmp_path: Path, compression: Compression) -> None:
    """A sound day is unknown at level inventory, with the one reason, and ends in exit code 4."""
    desk = Desk(tmp_path, Corpus(DAY, shape=Shape(compression=compression)))
    told = audit(desk, is_published=False)
    assert (told.verdict, told.findings) == ("unknown", ())
    assert [check.id for check in told.checks if check.status == "unknown"] == ["lines_not_read"]
    assert exit_code([DayEnd(told.verdict)]) == 4
    assert audit(desk, "keys").verdict == "clean"


@pytest.mark.parametrize("edit", EDITS)
def test_a_day_with_an_edit_that_nobody_saw_is_not_clean(tmp_path: Path, edit: Callable[[Stored], None]) -> None:
    """A line gone with its counts adjusted is nothing that names and metadata show."""
    corpus = Corpus(DAY)
    edit(corpus.shards[0].segments[3])
    assert audit(Desk(tmp_path, corpus), is_published=False).verdict == "unknown"


def test_lines_that_the_published_day_knows_count_as_read(tmp_path: Path) -> None:
    """Clean by the archive's names alone: no HEAD of the day's objects, no line is read, and nothing is written."""
    desk = Desk(tmp_path)
    desk.compact()
    before = files(desk)
    storage = desk.context().archive
    heads: list[str] = []

    def head(key: str) -> ObjectHead | None:
        heads.append(key)
        return type(storage).head(storage, key)

    storage.head = head  # type: ignore[method-assign]
    told = audit(desk, engine=no_engine, archive=storage)
    assert (told.verdict, unread(told)) == ("clean", [])
    assert not [key for key in heads if key.startswith(DAY.path(PREFIX))]
    asked = {check.id for check in told.checks if check.status == "pass"}
    assert {"count_mismatch", "altered_object", "out_of_order"} <= asked
    assert files(desk) == before


def test_an_object_that_came_after_the_publication_was_not_read(tmp_path: Path) -> None:
    """One object is enough."""
    desk = Desk(tmp_path)
    desk.compact()
    desk.archive_more()
    told = audit(desk)
    assert (told.verdict, len(unread(told))) == ("unknown", 1)


def _touched(desk: Desk) -> None:
    desk.age_raw(desk.corpus.shards[0].segments[3].key, DAY.end_ms + 30 * 3_600_000)


def _edited(desk: Desk) -> None:
    stored = desk.corpus.shards[0].segments[3]
    path = desk.raw / stored.key
    EDITS[0](stored)
    path.write_bytes(stored.body)


def _facts(desk: Desk) -> Iterator[Path]:
    return Path(desk.out.address.root).rglob(f"{FACTS_FOLDER}*.parquet")


def _without_facts(desk: Desk) -> None:
    for path in _facts(desk):
        path.unlink()


def _with_damaged_facts(desk: Desk) -> None:
    for path in _facts(desk):
        path.write_bytes(path.read_bytes()[:-9])


def _without_pointer(desk: Desk) -> None:
    Path(desk.storage.uri(desk.publisher().folder.pointer)).unlink()


def _with_damaged_pointer(desk: Desk) -> None:
    Path(desk.storage.uri(desk.publisher().folder.pointer)).write_bytes(b"{")


def _output_elsewhere(desk: Desk) -> None:
    desk.out = StorePrefix(desk.out.address, "elsewhere/")


@pytest.mark.parametrize(
    "change",
    [
        _touched,
        _edited,
        _without_facts,
        _with_damaged_facts,
        _without_pointer,
        _with_damaged_pointer,
        _output_elsewhere,
    ],
)
def test_what_is_not_known_as_it_is_now_was_not_read(tmp_path: Path, change: Callable[[Desk], None]) -> None:
    """Another ETag or time, or facts that are gone or damaged: unknown, and never an exception."""
    desk = Desk(tmp_path)
    desk.compact()
    change(desk)
    told = audit(desk)
    assert (told.verdict, len(unread(told))) == ("unknown", 1)


class Closed(JobContext):
    """Opens no output."""

    def open(self, address: Address) -> RetryingStorage:
        """Refuse."""
        raise StoreRefused(f"{address.root}: AccessDenied", next_step="allow it")


def test_a_role_that_may_not_read_the_output_is_told(tmp_path: Path) -> None:
    """The audit goes on by names and metadata: unknown for its reason, and not an archive that cannot be read."""
    desk = Desk(tmp_path)
    desk.compact()
    options = AuditOptions(level="inventory", published=desk.out)
    told = audit_day(Closed(*desk.context()), DAY, options).audit
    assert [check.id for check in told.checks if check.status == "unknown"] == ["lines_not_read"]


@pytest.mark.parametrize("edit", EDITS)
def test_an_alteration_that_a_night_saw_is_a_defect_here_too(tmp_path: Path, edit: Callable[[Stored], None]) -> None:
    """The night's reading is at the object's ETag: it counts, and says what the object was."""
    desk = Desk(tmp_path)
    desk.compact()
    stored = desk.corpus.shards[0].segments[3]
    edit(stored)
    desk.store_again(stored, 30)
    desk.compact()
    told = audit(desk)
    assert (told.verdict, [about.code for about in told.findings]) == ("defects", ["altered_object"])


@pytest.mark.parametrize(("defect", "number"), broken_shards(), ids=lambda of: getattr(of, "__name__", None))
def test_no_defect_of_a_published_day_is_clean_by_what_is_known(tmp_path: Path, defect: Defect, number: int) -> None:
    """Accepted and published: at level inventory it is never better than at level keys."""
    corpus = Corpus(DAY)
    break_shard(corpus, defect, number)
    desk = Desk(tmp_path, corpus)
    desk.compact(accept="known")
    ranks = ["defects", "unknown", "clean"]
    assert ranks.index(audit(desk).verdict) <= max(ranks.index(audit(desk, "keys").verdict), 1)
