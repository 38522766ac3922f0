"""Hours on a real S3 server: what the night asks for, with which rights, and what it does in an Iceberg table."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from compaction.job.context import AuditOptions
from compaction.tables.table import IcebergTable
from demo.embedded import REGION, EmbeddedAws
from minutebook.aws.clients import aws_session
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import PREFIX, Corpus, Shape
from tests.fakes.failing_catalog import Fault
from tests.fakes.failing_storage import Crash
from tests.integration.lake import Lake
from tests.unit.compaction.hours.scene import HELD, Hours
from tests.witness.policies import Names, bucket_policy, command_policy, is_allowed
from tests.witness.requests import hearing

_MINUTES = (-700, 0, 59, 60, 600, 1439, 1441)


def test_the_night_sends_no_get_of_a_segment_that_an_hour_has_read(embedded_aws: EmbeddedAws, bucket: str) -> None:
    """S3 copies the files, with the rights that compact has; what is read is pointers, facts and footers."""
    desk = Desk(Address(bucket, "", REGION, embedded_aws.s3_endpoint), Corpus(DAY, shape=Shape(minutes=_MINUTES)))
    desk.out = desk.out._replace(prefix=f"{PREFIX}_parquet/")
    for hour in (0, 1, 10, 23):
        assert desk.compact(hour=hour).verdict == "clean"
    asked: list[tuple[str, str]] = []

    def note(event_name: str, params: dict[str, Any], **_: object) -> None:
        asked.append((event_name.rpartition(".")[2], params.get("Key", "")))

    events = aws_session().events
    with hearing(Names(bucket=bucket, prefix=PREFIX)) as heard:
        events.register("provide-client-params.s3.*", note, unique_id="asked")
        try:
            done = desk.compact()
        finally:
            events.unregister("provide-client-params.s3.*", unique_id="asked")
    read = [
        key for verb, key in asked if verb == "GetObject" and ".jsonl" in key and not key.startswith(f"{PREFIX}_")
    ]
    copied = [key for verb, key in asked if verb == "CopyObject"]
    rows = desk.published_rows()
    assert done.manifest is not None
    assert (done.verdict, read, len(copied)) == ("clean", [], len(done.manifest.files))
    assert len(rows) == len(set(rows)) == desk.corpus.records
    caller = {"aws:PrincipalArn": f"arn:aws:iam::{heard.names.account}:role/compact"}
    policies = [*command_policy("compact", heard.names), *bucket_policy(heard.names)]
    asked_for = [one for one in heard.requests if one.context and f"{PREFIX}_read/" not in one.resource]
    wanted = [one._replace(context={**one.context, **caller}) for one in asked_for]
    assert [one for one in wanted if not is_allowed(policies, one)] == []


def test_only_the_object_that_was_looked_at_is_copied(embedded_aws: EmbeddedAws, bucket: str) -> None:
    """Another one under its key, or none: nothing is copied."""
    storage = open_storage(Address(bucket, "", REGION, embedded_aws.s3_endpoint))
    storage.put_if_absent("a", b"body", {}, "x/y")
    head = storage.head("a")
    assert head is not None
    assert [storage.copy("a", "b", '"0123"'), storage.copy("gone", "b", head.etag)] == [False, False]
    assert storage.head("b") is None
    assert storage.copy("a", "b", head.etag)
    stored = storage.get("b")
    assert stored is not None
    assert stored.body == b"body"


if TYPE_CHECKING:
    from compaction.night.rewrite import Compacted

HOUR_MS = 3_600_000


@pytest.fixture
def desk(tmp_path: Path) -> Hours:
    """Return a day of which nothing is published."""
    return Hours(tmp_path / "day")


def publish(desk: Hours, lake: Lake, fault: Fault | None = None, **asked: Any) -> "Compacted":  # noqa: ANN401 - whatever a run is asked
    """Compact the day into the table."""
    with lake.catalog(fault) as catalog:
        return desk.publish(table=IcebergTable(catalog, lake.name), **asked)


def files_of(table: Any) -> set[str]:  # noqa: ANN401 - a table of pyiceberg
    """Return the files of the table's current snapshot."""
    return {task.file.file_path for task in table.scan().plan_files()}


def check(desk: Hours, lake: Lake, snapshots: int) -> None:
    """Assert that the table has each record of the day once, in the files that the day's manifest names."""
    rows = [(row["shard_id"], row["sequence_number"], row["sub_sequence_number"]) for row in lake.rows()]
    assert sorted(rows) == sorted(desk.published_rows())
    desk.check_whole()
    _, manifest = desk.publisher().published()
    assert manifest is not None
    assert lake.table(files_of) == {desk.publisher().address(file.key) for file in manifest.files}
    assert lake.snapshots() == snapshots


def test_a_table_gets_the_day_and_never_an_hour(desk: Hours, lake: Lake) -> None:
    """The part of the day so far, and then the day, each in one snapshot; the hours between them are the reader's."""
    desk.publish_hours(*HELD[:2])
    publish(desk, lake, audit=AuditOptions(so_far_ms=DAY.begin_ms + 10 * HOUR_MS))
    so_far = lake.table(files_of)
    desk.publish_hours(*HELD[2:])
    assert lake.table(files_of) == so_far
    done = publish(desk, lake)
    assert done.table is not None
    assert (done.table.state, desk.read) == ("committed", [])
    check(desk, lake, snapshots=2)


@pytest.mark.parametrize("late", [False, True])
def test_a_commit_that_a_crash_took_is_made_up_for(desk: Hours, lake: Lake, *, late: bool) -> None:
    """The day is published and its hours have given way; the next run commits it, also where an object came since."""
    desk.publish_hours()
    with pytest.raises(Crash):
        publish(desk, lake, Fault(1, applied=False))
    desk.check_whole()
    if late:
        desk.archive_more()
    done = publish(desk, lake)
    assert done.state == ("published" if late else "already")
    check(desk, lake, snapshots=1)
