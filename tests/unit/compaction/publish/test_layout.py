"""Where the files of a day lie: readers of the folder never see two generations, and the former layout is known."""

from pathlib import Path

import msgspec
import pyarrow.dataset as ds
import pytest

from minutebook.published.generation import DayFolder, Manifest, Pointer
from tests.corpus.desk import DAY, OUT, Desk
from tests.unit.compaction.commands.vacuum.scene import twice_published


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
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


def test_a_reader_of_the_folder_sees_no_generation(desk: Desk) -> None:
    """It would see both: who follows the pointer sees one."""
    assert ds.dataset(desk.storage.uri(OUT), format="parquet", partitioning="hive").count_rows() == 0
    assert len(desk.published_rows()) == desk.corpus.records
    folders = [path.name for path in Path(desk.storage.uri(f"{OUT}dt={DAY}/")).iterdir() if path.is_dir()]
    # Spark passes over names that begin with an underscore only when there is no "=" in them.
    assert all(name.startswith("_") and "=" not in name for name in folders)


def test_the_files_of_one_generation_can_be_read(desk: Desk) -> None:
    """By the folder that the command prints."""
    pointer, _ = desk.publisher().published()
    assert pointer is not None
    folder = desk.storage.uri(DayFolder(OUT, DAY).generation(pointer.generation))
    assert ds.dataset(folder, format="parquet").count_rows() == desk.corpus.records


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
