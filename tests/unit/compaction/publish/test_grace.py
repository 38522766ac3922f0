"""The grace of a generation counts from when it stopped being read, whatever becomes of the day's verdict."""

from pathlib import Path
from typing import Final

import pytest

from compaction.publish.publisher import GRACE_MS
from minutebook.format.minute import iso_time
from minutebook.published.generation import FACTS_FOLDER, PointerVerdict
from tests.corpus.desk import Desk
from tests.unit.compaction.commands.vacuum.scene import keys, named, put, twice_published, vacuum

_HOUR_MS: Final = 3_600_000


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a day that was published twice: a segment came late."""
    return twice_published(tmp_path)


def judge_again(desk: Desk, now_ms: int) -> str:
    """Swap in another verdict with another audit, which are both young at that time; return the audit's key."""
    publisher = desk.publisher()
    pointer, manifest = publisher.published()
    assert pointer is not None
    assert manifest is not None
    audit = publisher.folder.audit(pointer.generation, f"{now_ms:016x}")
    publisher.put_audit(audit, b"{}")
    judged = PointerVerdict("unknown", audit)
    assert publisher.swap_pointer(manifest, publisher.current(), f"run-{now_ms}", pointer.written_at, judged)
    for key in (publisher.folder.pointer, audit):
        desk.age(key, now_ms - _HOUR_MS)
    return audit


@pytest.mark.parametrize("is_vacuum", [False, True], ids=["sweep", "vacuum"])
def test_a_day_that_is_judged_each_night_is_swept(desk: Desk, *, is_vacuum: bool) -> None:
    """Its pointer is always young; what it names is not."""
    now_ms = desk.after_grace_ms()
    judge_again(desk, now_ms)
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    if is_vacuum:
        vacuum(desk)
    else:
        assert desk.publisher().sweep(now_ms)
    files = {key for key in keys(desk) if "/part-" in key}
    assert files
    assert all(f"_gen-{pointer.generation}/" in key for key in files)
    assert len(desk.published_rows()) == desk.corpus.records


def test_what_a_crashed_run_left_goes_although_the_audit_is_young(desk: Desk) -> None:
    """A day that is judged each night has a young audit in its own generation's name."""
    now_ms = desk.after_grace_ms()
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    [left] = put(desk, [f"_gen-{pointer.generation}/part-9.parquet"])
    judge_again(desk, now_ms)
    assert left in desk.publisher().sweep(now_ms)


def test_a_young_audit_that_no_pointer_names_yet_stays(desk: Desk) -> None:
    """A run has stored it, and is about to swap."""
    young, old = put(desk, ["_manifest/gone-young.audit.json", "_manifest/gone-old.audit.json"])
    desk.age(young, desk.after_grace_ms() - _HOUR_MS)
    vacuum(desk)
    assert keys(desk) == {*named(desk), young}
    assert old not in keys(desk)


@pytest.mark.parametrize("is_vacuum", [False, True], ids=["sweep", "vacuum"])
@pytest.mark.parametrize("which", ["manifest", "pointer"])
def test_a_generation_that_was_replaced_a_moment_ago_stays(desk: Desk, which: str, *, is_vacuum: bool) -> None:
    """By S3's time of the manifest, or by the time in the pointer: a host's clock may be wrong."""
    now_ms, publisher = desk.after_grace_ms(), desk.publisher()
    pointer, manifest = publisher.published()
    assert pointer is not None
    assert manifest is not None
    if which == "manifest":
        desk.age(pointer.manifest, now_ms - GRACE_MS + _HOUR_MS)
    else:
        written_at = iso_time(now_ms - GRACE_MS + _HOUR_MS)
        assert publisher.swap_pointer(manifest, publisher.current(), "later", written_at)
    before = keys(desk)
    if is_vacuum:
        assert vacuum(desk).objects == 0
    else:
        assert publisher.sweep(now_ms) == []
    assert keys(desk) == before


def test_the_sweep_keeps_what_the_symlinks_name(desk: Desk) -> None:
    """A run died between its swap and the symlinks: Athena reads the generation before."""
    old, gone = put(desk, ["_gen-before/part-1.parquet", "_gen-before/part-2.parquet"])
    Path(desk.storage.uri(desk.publisher().folder.symlinks)).write_text(f"s3a://elsewhere/{old}\n")
    swept = desk.publisher().sweep(desk.after_grace_ms())
    assert gone in swept
    assert desk.storage.head(old) is not None


@pytest.mark.parametrize("is_vacuum", [False, True], ids=["sweep", "vacuum"])
def test_facts_that_the_next_night_reads_stay(desk: Desk, *, is_vacuum: bool) -> None:
    """Those of the current generation, however old, and of one that a run of last night could not publish."""
    now_ms = desk.after_grace_ms()
    current = [key for key in named(desk) if FACTS_FOLDER in key]
    held = put(desk, [f"_gen-held/{FACTS_FOLDER}a.parquet", "_gen-held/part-1.parquet"])
    desk.age(held[0], now_ms - GRACE_MS + _HOUR_MS)
    forgotten = put(desk, [f"_gen-forgotten/{FACTS_FOLDER}a.parquet"])
    if is_vacuum:
        vacuum(desk)
    else:
        desk.publisher().sweep(now_ms)
    assert current
    assert {*current, *held} <= keys(desk)
    assert not keys(desk) & {*forgotten}


def test_symlinks_that_are_not_the_pointers_are_written_again(desk: Desk) -> None:
    """Those of another generation, of a file too many, or none."""
    publisher = desk.publisher()
    path = Path(desk.storage.uri(publisher.folder.symlinks))
    written = path.read_text()
    for text in ("", desk.storage.uri("tables/elsewhere.parquet") + "\n", written * 2):
        path.write_text(text)
        publisher.write_symlinks()
        assert path.read_text() == written
    path.unlink()
    publisher.write_symlinks()
    assert path.read_text() == written
