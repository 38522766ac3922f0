"""A published day whose records hold several events, or none: records and rows are both in its equation."""

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from compaction.columns.columns import Columns
from compaction.columns.event_time import with_event_time
from compaction.event_ids.dropping import read_published_ids
from compaction.event_ids.rows import IdCollector, IdOrder
from compaction.report.screen import show_audit
from minutebook.errors import FormatError
from minutebook.format.payload import PayloadPath
from minutebook.published.schema import SCHEMA
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.retrying import RetryingStorage
from minutebook.terminal import TerminalConsole
from tests.corpus.desk import DAY, Desk
from tests.corpus.typed_day import miscounting, payload_day
from tests.fakes.typed_lines import mapping

if TYPE_CHECKING:
    from compaction.night.rewrite import Compacted

COLUMNS = {"group": {"path": "logGroup", "type": "string"}, "id": {"path": "logEvents.id", "type": "int64"}}
STEPS = ["gzip", "cloudwatch-logs"]


def payload(number: int) -> bytes:
    """Return a record of `number % 4` log events; one in five is none of CloudWatch Logs."""
    if number % 5 == 4:
        return b'{"id":7}'
    events = [{"id": number, "timestamp": DAY.begin_ms + index} for index in range(number % 4)]
    record = {"messageType": "DATA_MESSAGE", "logGroup": "/g", "logEvents": events}
    return gzip.compress(json.dumps(record).encode(), 1, mtime=0)


def in_time() -> Columns:
    """Return the columns, with the time of events."""
    when = "logEvents.timestamp as timestamp(ms)"
    return with_event_time(mapping(COLUMNS, STEPS), when, 30, SCHEMA.names)


class Night:
    """A day that was published with columns of several events."""

    def __init__(self, folder: Path) -> None:
        corpus = payload_day(DAY, 3, payload)
        self.records = corpus.records
        self.desk = Desk(folder, corpus)
        self.done: Compacted = self.desk.compact(columns=in_time())

    def sql(self, query: str) -> list[tuple[object, ...]]:
        """Ask DuckDB; `day` are the published files."""
        assert self.done.manifest is not None
        with duckdb.connect() as engine:
            engine.read_parquet([self.desk.storage.uri(f.key) for f in self.done.manifest.files]).create_view("day")
            return engine.execute(query).fetchall()


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """Publish it once."""
    return Night(tmp_path_factory.mktemp("night"))


def test_positions_are_the_records_and_rows_their_events(night: Night) -> None:
    """The payload is there once for each; those without events are rows, too."""
    found = [number for number in range(night.records) if number % 5 != 4]
    events = sum(number % 4 for number in found)
    rows = events + sum(number % 4 == 0 for number in found) + night.records - len(found)
    assert night.sql(
        "select count(*), count(distinct (shard_id, sequence_number, sub_sequence_number)), "
        "count(*) filter (data is not null or data_bytes is not null), "
        "count(event_index), count(id), count(event_time) from day"
    ) == [(rows, night.records, night.records, events, events, events)]
    assert night.sql("select count(*) from day where _unfit is not null") == [(night.records - len(found),)]
    assert night.done.result is not None
    audit = night.done.result.audit
    assert (audit.verdict, audit.equation.compacted, audit.equation.records) == ("clean", rows, night.records)
    assert audit.equation.balanced
    assert audit.typed is not None
    assert audit.typed.rows == rows
    assert [each.status for each in audit.checks if each.id == "events_of_records"] == ["pass"]
    console = TerminalConsole(width=200)
    with console.capture() as capture:
        show_audit(audit, console)
    assert f", {rows:,} rows of {night.records:,} records in Parquet" in capture.get()


def test_the_published_day_is_believed_and_not_written_again(night: Night) -> None:
    """Pointer, manifest and audit agree about rows."""
    again = night.desk.compact(columns=in_time())
    assert (again.state, again.manifest) == ("already", night.done.manifest)
    assert night.done.manifest is not None
    assert night.done.manifest.columns == {
        "event_index": "int32",
        "group": "string",
        "id": "int64",
        "event_time": "timestamp(ms)",
    }


def test_a_day_whose_records_are_miscounted_is_held(tmp_path: Path) -> None:
    """A record without its first row is our error: nothing is published."""
    desk = Desk(tmp_path, payload_day(DAY, 1, payload))
    lost = miscounting(lambda typed: typed._replace(records=(typed.records or 0) - 1))
    done = desk.compact(columns=mapping(COLUMNS, STEPS), engine=lost)
    assert done.state == "held"


def test_a_killed_run_leaves_parts_that_the_next_one_takes(tmp_path: Path) -> None:
    """Their records are as many as their objects' lines, whatever their rows."""
    desk = Desk(tmp_path, payload_day(DAY, 1, payload))
    first = desk.compact(columns=mapping(COLUMNS, STEPS))
    assert first.manifest is not None
    desk.storage.delete([desk.publisher().folder.pointer])
    again = desk.compact(columns=mapping(COLUMNS, STEPS))
    assert again.manifest is not None
    assert (again.state, again.manifest.files) == ("published", first.manifest.files)


def test_ids_of_an_expired_day_are_read_once_for_each_record(night: Night) -> None:
    """Rows behind the first of a record hold no payload."""
    assert night.done.manifest is not None
    keys = [file.key for file in night.done.manifest.files]
    collector = IdCollector(IdOrder("id", 0, 1), keys)
    read_published_ids(night.desk.publisher().storage, keys, collector)
    assert len([*collector.rows()]) > 0
    plain = sum(number % 5 == 4 for number in range(night.records))
    assert sum(collector.missing().values()) == night.records - plain


@pytest.mark.parametrize("left", [0, 100])
def test_a_damaged_file_of_an_expired_day_is_named(night: Night, tmp_path: Path, left: int) -> None:
    """It costs the days that are compared with it, and not the night."""
    assert night.done.manifest is not None
    key = night.done.manifest.files[0].key
    body = Path(night.desk.storage.uri(key)).read_bytes()[:left]
    storage = RetryingStorage(DirectoryStorage(tmp_path), night.desk.context().archive.new_backoff)
    storage.put_if_absent(key, body, {}, "application/vnd.apache.parquet")
    with pytest.raises(FormatError, match=re.escape(key)):
        read_published_ids(storage, [key], IdCollector(IdOrder("id", 0, 1), [key]))


def test_ids_are_those_of_the_payload_as_it_came() -> None:
    """A compressed one has none."""
    assert PayloadPath("id").text(payload(1)) is None
    assert PayloadPath("id").text(payload(4)) == "7"
