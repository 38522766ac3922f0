"""Publishing a day: whole, once, clean or with its verdict, where its files lie, and what is swept afterwards."""

from pathlib import Path

import msgspec
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from minutebook.clock import SystemClock
from minutebook.errors import SafetyRefusal
from minutebook.published.generation import DayFolder, Manifest, Pointer
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.chain_defects import overlapping_segments
from tests.corpus.desk import DAY, OUT, Desk, no_engine
from tests.corpus.model import PREFIX, Corpus
from tests.corpus.object_defects import truncated_object
from tests.unit.compaction.commands.vacuum.scene import twice_published


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a clean day that is not published."""
    return Desk(tmp_path)


def test_a_clean_day_is_published_whole_and_sorted(desk: Desk) -> None:
    """Every record of the day is in the files once, in the order of shard and position."""
    assert desk.compact().state == "published"
    rows = desk.published_rows()
    assert len(rows) == desk.corpus.records
    assert rows == sorted(set(rows), key=lambda row: (row[0], int(row[1]), row[2]))


def test_rows_carry_exact_payloads(desk: Desk) -> None:
    """Text and bytes come back as they were, in the column of their kind."""
    desk.compact()
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    manifest = desk.publisher().manifest(pointer)
    assert manifest is not None
    tables = [pq.ParquetFile(Path(desk.storage.uri(file.key))).read() for file in manifest.files]
    found = {
        row["sequence_number"]: row["data"].encode() if row["data"] is not None else row["data_bytes"]
        for table in tables
        for row in table.to_pylist()
    }
    expected = {
        record.sequence_number: record.data
        for shard in desk.corpus.shards
        for index in shard.in_day(DAY)
        for record in shard.segments[index].records
    }
    assert found == expected


def test_a_second_run_does_nothing(desk: Desk) -> None:
    """The same input has the same name: nothing is read, written or swapped."""
    first = desk.compact()
    before = {row.key: row.etag for row in desk.storage.list_objects("")}
    second = desk.compact(engine=no_engine)
    assert (first.state, second.state) == ("published", "already")
    assert {row.key: row.etag for row in desk.storage.list_objects("")} == before


def test_late_objects_make_a_new_generation(desk: Desk) -> None:
    """A segment that arrives after publishing is in the next generation, and the old one's files are gone later."""
    first = desk.compact()
    desk.archive_more()
    second = desk.compact()
    assert first.manifest is not None
    assert second.manifest is not None
    assert first.manifest.generation != second.manifest.generation
    assert len(desk.published_rows()) == desk.corpus.records
    old = [file.key for file in first.manifest.files]
    assert all(desk.storage.head(key) for key in old)
    assert set(old) <= set(desk.publisher().sweep(desk.after_grace_ms()))
    assert not any(desk.storage.head(key) for key in old)
    assert len(desk.published_rows()) == desk.corpus.records


def test_a_sweep_before_the_grace_deletes_nothing(desk: Desk) -> None:
    """Files that nobody names yet may belong to a run at work."""
    desk.compact()
    desk.archive_more()
    desk.compact()
    assert desk.publisher().sweep(SystemClock().now_ms()) == []


def test_a_generation_stays_for_the_grace_after_it_was_replaced(desk: Desk) -> None:
    """However old its files are: a query may have begun on them just before."""
    first = desk.compact()
    desk.clock.advance((desk.after_grace_ms() - desk.clock.now_ms()) / 1000)
    desk.archive_more()
    desk.compact()
    assert first.manifest is not None
    assert all(desk.storage.head(file.key) for file in first.manifest.files)


def test_defects_hold_the_day_back(tmp_path: Path) -> None:
    """An audit with defects is not published: the pointer stays where it is."""
    corpus = Corpus(DAY)
    truncated_object(corpus, corpus.shards[0], 3)
    desk = Desk(tmp_path, corpus)
    done = desk.compact()
    assert (done.state, done.verdict) == ("held", "defects")
    assert desk.published_rows() == []


def test_accepted_defects_are_published_with_their_verdict(tmp_path: Path) -> None:
    """Duplicates are left out, the first in key order stays, and pointer and manifest say `defects`."""
    corpus = Corpus(DAY)
    records = corpus.records
    overlapping_segments(corpus, corpus.shards[0], 3)
    desk = Desk(tmp_path, corpus)
    done = desk.compact(accept="known")
    pointer = desk.publisher().current().pointer
    assert (done.state, done.verdict) == ("published", "defects")
    assert pointer is not None
    assert pointer.verdict == "defects"
    assert len(desk.published_rows()) == len(set(desk.published_rows())) == records


def test_an_expired_day_is_refused(desk: Desk) -> None:
    """Raw objects that were deleted on purpose must not become a smaller day."""
    store = open_storage(Address(None, str(desk.raw)))
    store.put_if_absent(f"{PREFIX}_expired/{DAY}.json", b"{}", {}, "application/json")
    with pytest.raises(SafetyRefusal, match="expired"):
        desk.compact()


def test_the_symlink_manifest_names_the_current_files(desk: Desk) -> None:
    """Athena and Trino read the same files as who follows the pointer."""
    done = desk.compact()
    stored = desk.storage.get(f"tables/_symlinks/dt={DAY}/manifest")
    assert stored is not None
    assert done.manifest is not None
    assert stored.body.decode().splitlines() == [desk.storage.uri(file.key) for file in done.manifest.files]


def test_a_day_that_is_proven_later_becomes_clean(tmp_path: Path) -> None:
    """A day whose end was open is published as `unknown`; once it is proven a run says `clean`."""
    corpus = Corpus(DAY)
    proof, corpus.shards[2].checkpoint = corpus.shards[2].checkpoint, None
    desk = Desk(tmp_path, corpus)
    assert desk.compact().verdict == "unknown"
    assert desk.compact(engine=no_engine).verdict == "unknown"
    corpus.shards[2].checkpoint = proof
    assert desk.compact(engine=no_engine).verdict == "clean"
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    assert pointer.verdict == "clean"
    assert len(desk.published_rows()) == corpus.records


def test_a_generation_that_comes_again_after_its_files_are_swept_is_written_again(desk: Desk) -> None:
    """A late object appears, its day is published, the old files go, the object is deleted: they are made again."""
    first = desk.compact()
    records = desk.corpus.records
    desk.archive_more()
    desk.compact()
    desk.publisher().sweep(desk.after_grace_ms())
    shard = desk.corpus.shards[2]
    late = shard.segments.pop()
    shard.checkpoint = shard.segments[-1].metadata.last
    open_storage(Address(None, str(desk.raw))).delete([late.key])
    assert desk.compact().state == "held"  # its records were archived, and are gone
    again = desk.compact(accept="they were no records of the stream")
    assert first.manifest is not None
    assert again.manifest is not None
    assert again.manifest.generation == first.manifest.generation
    assert len(desk.published_rows()) == records


def test_late_objects_are_named(desk: Desk) -> None:
    """The new generation's audit warns of what came after publishing, and stays clean."""
    desk.compact()
    desk.archive_more()
    result = desk.compact().result
    assert result is not None
    assert [(finding.code, finding.severity, finding.keys) for finding in result.audit.findings] == [
        ("late_minutes", "warning", (desk.corpus.shards[2].segments[-1].key,))
    ]
    assert result.audit.verdict == "clean"


@pytest.fixture
def twice(tmp_path: Path) -> Desk:
    """Return a day of two generations, the first of which is not swept yet."""
    return twice_published(tmp_path)


def as_before(desk: Desk) -> list[str]:
    """Turn a published day into one of the former layout and rules; returns the keys of its files."""
    done = desk.compact()
    pointer, manifest = desk.publisher().published()
    assert pointer is not None
    assert manifest is not None
    folder = DayFolder(OUT, DAY)
    files = []
    for file in manifest.files:
        key = f"{folder.path}gen={manifest.generation}/{file.key.rpartition('/')[2]}"
        Path(desk.storage.uri(key)).parent.mkdir(exist_ok=True)
        Path(desk.storage.uri(file.key)).rename(desk.storage.uri(key))
        files.append(msgspec.structs.replace(file, key=key))
    key = f"{folder.manifests}{manifest.generation}.json"
    old = msgspec.structs.replace(manifest, files=tuple(files), rules=1)
    _write(desk, key, old)
    _write(desk, folder.pointer, msgspec.structs.replace(pointer, manifest=key, rules=1))
    desk.storage.delete([pointer.manifest])
    assert done.manifest is not None
    return [file.key for file in files]


def _write(desk: Desk, key: str, document: Manifest | Pointer) -> None:
    said = {name: value for name, value in msgspec.to_builtins(document).items() if name not in {"rules", "until"}}
    Path(desk.storage.uri(key)).write_bytes(msgspec.json.encode(said))


def test_a_reader_of_the_folder_sees_no_generation(twice: Desk) -> None:
    """It would see both: who follows the pointer sees one."""
    assert ds.dataset(twice.storage.uri(OUT), format="parquet", partitioning="hive").count_rows() == 0
    assert len(twice.published_rows()) == twice.corpus.records
    folders = [path.name for path in Path(twice.storage.uri(f"{OUT}dt={DAY}/")).iterdir() if path.is_dir()]
    # Spark passes over names that begin with an underscore only when there is no "=" in them.
    assert all(name.startswith("_") and "=" not in name for name in folders)


def test_the_files_of_one_generation_can_be_read(twice: Desk) -> None:
    """By the folder that the command prints."""
    pointer, _ = twice.publisher().published()
    assert pointer is not None
    folder = twice.storage.uri(DayFolder(OUT, DAY).generation(pointer.generation))
    assert ds.dataset(folder, format="parquet").count_rows() == twice.corpus.records


def test_a_day_of_the_former_layout_stays_readable(tmp_path: Path) -> None:
    """Its pointer, its manifest and its files are what they were."""
    desk = Desk(tmp_path)
    files = as_before(desk)
    _, manifest = desk.publisher().published()
    assert manifest is not None
    assert [file.key for file in manifest.files] == files
    assert len(desk.published_rows()) == desk.corpus.records


def test_files_of_the_former_layout_are_swept(tmp_path: Path) -> None:
    """Once the day was published again, by today's rules, and the grace has passed."""
    desk = Desk(tmp_path)
    files = as_before(desk)
    assert desk.compact().state == "published"
    assert all(desk.storage.head(key) for key in files)
    assert set(files) <= set(desk.publisher().sweep(desk.after_grace_ms()))
    assert len(desk.published_rows()) == desk.corpus.records
    assert desk.publisher().is_whole(desk.publisher().published()[1] or pytest.fail("not published"))
