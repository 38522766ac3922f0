"""Vacuum on days that were expired, or are damaged: what is there may be all there is."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from minutebook.format.document import encode_document
from minutebook.format.tombstone import tombstone_key
from minutebook.store.places import open_storage
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import PREFIX
from tests.unit.compaction.commands.vacuum.scene import keys, named, twice_published, vacuum


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a day that was published twice: a segment came late."""
    return twice_published(tmp_path)


def expire(desk: Desk) -> None:
    """Write the day's tombstone; whether it parses matters to nobody here."""
    open_storage(desk.archive).put_if_absent(tombstone_key(PREFIX, DAY), b"{}", {}, "application/json")


def test_an_expired_day_keeps_what_its_pointer_names(desk: Desk) -> None:
    """That is all there is of it."""
    expire(desk)
    wanted = named(desk)
    vacuum(desk)
    assert keys(desk) == wanted


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
    expire(desk)
    damage(desk)
    before = keys(desk)
    report = vacuum(desk)
    assert (keys(desk), report.exit_code, report.objects) == (before, code, 0)
    [row] = report.days
    assert row.reason
    assert row.next_step
