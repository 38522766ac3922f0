"""Tables that are gone, damaged, or of another kind: the day is published, the message says what is there."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pyiceberg.catalog.glue import GlueCatalog

from compaction.tables.failures import translated
from compaction.tables.table import IcebergTable
from minutebook.errors import CatalogRefused
from tests.corpus.shelf import keys_of
from tests.integration.lake import DAY, NEXT, REST_JARS, Lake
from tests.integration.table_folders import path_of


def test_a_table_that_is_dropped_during_a_commit_is_made_again(lake: Lake) -> None:
    """As one that was dropped before: the day that is committed is in it, others come with their own next run."""
    other = lake.shelf.publish(NEXT, "one")
    lake.commit(NEXT)
    rows = lake.shelf.publish(DAY, "one")
    with lake.catalog() as catalog:
        catalog.before_commit = lambda: lake.table(lambda table: table.catalog.drop_table(lake.name))
        done = lake.shelf.commit(IcebergTable(catalog, lake.name), DAY)
    assert (done and done.state, keys_of(lake.rows())) == ("committed", keys_of(rows))
    assert lake.commit(NEXT) == "committed"
    assert keys_of(lake.rows()) == keys_of(rows + other)


@pytest.mark.skipif(REST_JARS is not None, reason="the server reads its metadata itself")
@pytest.mark.parametrize("what", ["metadata.json", "manifest list", "manifest"])
@pytest.mark.parametrize("damage", [b"", b"Obj\x01 no Avro", b"{"])
def test_a_damaged_table_is_refused_and_ends_no_other_day(lake: Lake, what: str, damage: bytes) -> None:
    """No reader can open it: it is not this day's fault, and repeating would not mend it."""
    lake.shelf.publish(DAY, "one")
    lake.commit()
    lake.shelf.publish(DAY, "two", (4,))

    def file_of(table: Any) -> str:  # noqa: ANN401 - pyiceberg's
        snapshot = table.current_snapshot()
        manifest = snapshot.manifests(table.io)[0].manifest_path
        return {"metadata.json": table.metadata_location, "manifest": manifest}.get(what, snapshot.manifest_list)

    Path(lake.table(file_of).removeprefix("file://")).write_bytes(damage)
    with pytest.raises(CatalogRefused, match="pyiceberg cannot work with what is there") as caught:
        lake.commit()
    assert "damaged" in caught.value.next_step


def _negative_length(data: bytes) -> bytes:
    return data[:5] + b"\x0b" + data[6:]


def _no_name(data: bytes) -> bytes:
    return data.replace(b'"name"', b'"nbme"', 1)


def _no_type(data: bytes) -> bytes:
    return data.replace(b'"long"', b'"lonf"', 1)


def _no_deflate(data: bytes) -> bytes:
    """Keep the header, with the mark of 16 bytes that ends it and each block, and the block's two lengths."""
    begin = data.index(data[-16:]) + 16 + 4
    return data[:begin] + b"\xff" * (len(data) - begin - 16) + data[-16:]


@pytest.mark.skipif(REST_JARS is not None, reason="the server reads its metadata itself")
@pytest.mark.parametrize(
    ("what", "damage", "cause"),
    [
        ("manifest", _negative_length, SystemError),
        ("manifest list", _negative_length, SystemError),
        ("manifest list", _no_name, KeyError),
        ("manifest list", _no_type, TypeError),
        ("manifest list", _no_deflate, zlib.error),
    ],
)
def test_whatever_the_decoder_of_a_damaged_file_raises_is_a_refusal(
    lake: Lake, what: str, damage: Callable[[bytes], bytes], cause: type[Exception]
) -> None:
    """Otherwise it would end the run of all days."""
    lake.shelf.publish(DAY, "one")
    lake.commit()
    lake.shelf.publish(DAY, "two", (4,))
    snapshot = lake.table(lambda table: table.current_snapshot())
    manifest = lake.table(lambda table: snapshot.manifests(table.io)[0].manifest_path)
    path = Path(path_of(manifest if what == "manifest" else snapshot.manifest_list))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CatalogRefused, match="pyiceberg cannot work with what is there") as caught:
        lake.commit()
    assert isinstance(caught.value.__cause__, cause)


@pytest.mark.parametrize("defect", [KeyError("name"), TypeError(), AssertionError(), SystemError()])
def test_such_an_error_from_anywhere_else_is_a_defect(defect: Exception) -> None:
    """It says nothing of a file."""
    with pytest.raises(type(defect)), translated("loading"):
        raise defect


def test_a_name_that_glue_gave_to_another_kind_of_table_is_refused(lake: Lake) -> None:
    """`--iceberg events.raw` where that is a table of Hive's: at once, not when the waits are over."""
    glue = _OneTable({"EXTERNAL": "TRUE"})
    lake.shelf.publish(DAY, "one")
    catalog = GlueCatalog("glue", client=cast("Any", glue), warehouse="s3://tables")
    with pytest.raises(CatalogRefused, match=r"pyiceberg cannot work with what is there.*table_type") as caught:
        lake.shelf.commit(IcebergTable(catalog, "events.raw"), DAY)
    assert "name another table" in caught.value.next_step
    glue.parameters["table_type"] = "HUDI"
    with pytest.raises(CatalogRefused, match="HUDI"):
        lake.shelf.commit(IcebergTable(catalog, "events.raw"), DAY)


class _OneTable:
    """A client of a catalog that has `events.raw`, with the classes of errors that boto3's has."""

    def __init__(self, parameters: dict[str, str]) -> None:
        self.parameters = parameters

    def get_table(self, *, DatabaseName: str, Name: str) -> Any:  # noqa: ANN401, N803 - boto3's
        """Answer GetTable."""
        return {"Table": {"Name": Name, "DatabaseName": DatabaseName, "Parameters": self.parameters}}

    class exceptions:  # noqa: N801 - boto3's
        """None of them is raised."""

        class EntityNotFoundException(Exception):  # noqa: N818 - boto3's
            """There is no such table."""
