"""`minutebook compact --iceberg` as a process: local catalogs, configured ones, and what it says without any."""

import itertools
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.credentials import ReadOnlyCredentials
from pyiceberg.catalog.rest import SNAPSHOT_LOADING_MODE
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema

from compaction.job.context import AuditOptions
from compaction.night.rewrite import CompactOptions, compact_day
from compaction.tables.catalog import _glue_region, complete_properties, opened_table
from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedAws
from minutebook.apply_option import UNCHANGED
from minutebook.clock import SystemClock
from minutebook.format.day import Day
from minutebook.published.schema import SCHEMA
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX, Corpus
from tests.corpus.shelf import Row, Shelf, keys_of
from tests.integration.shell import Shell, store_checkpoints

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

DAY = Day.parse("2026-11-20")


@pytest.fixture
def shell(embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path, dynamodb_client: "DynamoDBClient") -> Shell:
    """Return a shell with an archive of one clean day."""
    made = Shell(embedded_aws, bucket, tmp_path)
    corpus = Corpus(DAY)
    made.archive(corpus)
    store_checkpoints(dynamodb_client, bucket, corpus)
    return made


def published(shell: Shell, root: str) -> list[Row]:
    """Read the rows of the current generation on S3, as a reader of Parquet does."""
    storage = open_storage(shell.address)
    pointer = storage.get(f"{root}dt={DAY}/_current.json")
    assert pointer is not None
    manifest = storage.get(json.loads(pointer.body)["manifest"])
    assert manifest is not None
    bodies = [storage.get(file["key"]) for file in json.loads(manifest.body)["files"]]
    return [row for body in bodies if body for row in pq.read_table(pa.BufferReader(body.body)).to_pylist()]


def test_a_day_on_s3_goes_into_a_configured_catalog(shell: Shell, embedded_aws: EmbeddedAws) -> None:
    """The endpoint and the credentials are those of the job; a second run starts no Spark and commits nothing.

    By event, too: Spark's tasks cut the published day, whose events are all of 1970, and so without a time.
    """
    uri, warehouse = f"sqlite:///{shell.folder / 'lake.sqlite'}", f"s3://{shell.address.bucket}/warehouse"
    shell.environment |= {"PYICEBERG_CATALOG__LAKE__URI": uri, "PYICEBERG_CATALOG__LAKE__WAREHOUSE": warehouse}
    words = ("compact", "--date", str(DAY), "--iceberg", "events.raw", "--iceberg-catalog", "lake")
    words += ("--event-time", "n as timestamp(s)")
    first = shell.run(*words, "--master", "local[1]")
    assert (first.returncode, "table lake.events.raw: committed" in first.stdout) == (0, True), first
    assert not [line for line in first.stderr.splitlines() if not line.startswith("{")]
    assert SECRET_KEY not in first.stdout + first.stderr
    second = shell.run(*words, path="/nonexistent")
    assert (second.returncode, "table lake.events.raw: was there before" in second.stdout) == (0, True), second
    properties = {
        "s3.endpoint": embedded_aws.s3_endpoint,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }
    catalog = SqlCatalog("lake", uri=uri, warehouse=warehouse, **properties)
    table = catalog.load_table("events.raw")
    rows = table.scan().to_arrow()
    assert [tuple(task.file.partition) for task in table.scan().plan_files()] == [(DAY.number, None)]
    assert "events: on time 0 + late 0 + early 0 + without 108" in first.stdout
    assert (len(table.snapshots()), rows.schema.field("arrival_time").type) == (1, SCHEMA.field("arrival_time").type)
    assert keys_of(rows.to_pylist()) == keys_of(published(shell, f"{PREFIX}_parquet/"))
    catalog.close()


def test_a_folder_needs_no_configuration(shell: Shell) -> None:
    """The catalog is a SQLite file beside the days. Columns that do not fit all payloads cost no row."""
    out = shell.folder / "out"
    (shell.folder / "columns.json").write_text('{"columns": {"n": {"type": "int64", "required": true}}}')
    with shell.file.open("a") as file:
        file.write(f"minutebook.columns = {shell.folder / 'columns.json'}\n")
    words = ("compact", "--date", str(DAY), "--out", str(out), "--iceberg", "events.raw")
    done = shell.run(*words)
    assert (done.returncode, "table default.events.raw: committed" in done.stdout) == (0, True), done
    assert "108 rows = fitted 99 + unfit 9, 1 typed column(s)" in done.stdout
    catalog = SqlCatalog("default", uri=f"sqlite:///{out / '_iceberg' / 'catalog.sqlite'}")
    rows = pq.read_table(sorted(str(path) for path in out.rglob("part-*.parquet")), partitioning=None)
    table = catalog.load_table("events.raw")
    assert (table.scan().count(), table.scan(row_filter="_unfit is not null").count()) == (len(rows), 9)
    catalog.close()


def test_a_table_that_somebody_changed_holds_the_day_until_it_is_mended(shell: Shell) -> None:
    """Exit 2, and the day is published; what is missing is made up for without Java."""
    out = shell.folder / "out"
    place = StorePrefix(Address(None, str(out)), "")
    given = job_context(shell.address, Corpus(DAY).checkpoints, clock=SystemClock())
    with opened_table("events.raw", None, place) as made:
        done = compact_day(
            given._replace(table=made), given.open(place.address), DAY, CompactOptions(AuditOptions(), place)
        )
    assert (done.state, done.table and done.table.state) == ("published", "committed")
    words = ("compact", "--date", str(DAY), "--out", str(out), "--iceberg", "events.raw")
    catalog = SqlCatalog("default", uri=f"sqlite:///{out / '_iceberg' / 'catalog.sqlite'}")
    catalog.load_table("events.raw").update_schema().rename_column("partition_key", "pk").commit()
    before = catalog.load_table("events.raw").scan().to_arrow()
    (shell.folder / "columns.json").write_text('{"columns": {"n": {"type": "int64"}}}')
    words += ("--columns", str(shell.folder / "columns.json"))

    held = shell.run(*words)

    assert (held.returncode, f"{DAY} published" in held.stdout) == (2, True), held
    assert "HELD, the day is not in it: column partition_key: the table has no such column" in held.stdout
    assert catalog.load_table("events.raw").scan().to_arrow().equals(before)
    catalog.load_table("events.raw").update_schema().rename_column("pk", "partition_key").commit()
    mended = shell.run(*words, path="/nonexistent")
    assert (mended.returncode, "table default.events.raw: committed" in mended.stdout) == (0, True), mended
    rows = catalog.load_table("events.raw").scan().to_arrow()
    assert (len(rows), rows["n"].null_count, rows["partition_key"].null_count) == (len(before), 9, 0)
    catalog.close()


def test_vacuum_shows_and_removes_what_a_crash_left_in_the_tables_folders(shell: Shell) -> None:
    """The plan names each file and deletes nothing; with --apply the same go. No such table is exit 2."""
    shelf = Shelf(StorePrefix(Address(None, str(shell.folder / "out")), ""))
    rows = shelf.publish(DAY, "one")
    with opened_table("events.raw", None, shelf.place) as table:
        shelf.commit(table, DAY)
    [folder] = (shell.folder / "out" / "_iceberg").rglob("metadata")
    old, young = (folder / f"{name}-m0.avro" for name in ("old", "young"))
    for path, days in ((old, 8), (young, 6)):
        path.write_bytes(b"left")
        os.utime(path, (SystemClock().now_ms() / 1000 - days * 86_400,) * 2)
    words = ("vacuum", "--out", str(shelf.place.address.root), "--iceberg")

    said = shell.run(*words, "events.raw")
    assert (said.returncode, old.exists()) == (0, True), said
    last = "in the folders of table default.events.raw, which does not name them: 1 object(s), 4 bytes"
    assert said.stdout.splitlines()[-3:] == [f"  file://{old}", f"would be deleted {last}", UNCHANGED]
    assert "plan_not_applied" in said.stderr
    done = shell.run(*words, "events.raw", "--apply", "--json")

    assert (done.returncode, old.exists(), young.exists()) == (0, False, True), done
    assert json.loads(done.stdout)["applied"] is True
    told = json.loads(done.stdout)["table"]
    assert (told["files"], told["objects"], told["bytes"]) == ([f"file://{old}"], 1, 4)
    with opened_table("events.raw", None, shelf.place) as table:
        assert sum(file.rows for file in table.look(DAY).files) == len(rows)
    none = shell.run(*words, "events.other")
    assert (none.returncode, "events.other: left alone: there is no table" in none.stdout) == (2, True), none


def test_files_of_a_table_are_read_with_the_credentials_of_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a role end after hours, and a process that follows lives for weeks."""
    keys = map(str, itertools.count())
    role = SimpleNamespace(get_frozen_credentials=lambda: ReadOnlyCredentials(next(keys), "secret", "token"))
    monkeypatch.setattr(
        "compaction.tables.catalog.aws_session", lambda: SimpleNamespace(get_credentials=lambda: role)
    )
    out = StorePrefix(Address("bucket", "", "eu-west-1", None), "")
    given = {"uri": f"sqlite:///{tmp_path / 'catalog.sqlite'}", "warehouse": f"file://{tmp_path}"}
    with SqlCatalog("some", **given) as catalog:
        complete_properties(catalog, out)
        catalog.create_namespace("events")
        catalog.create_table("events.raw", Schema())
        used = [catalog.load_table("events.raw").io.properties["s3.access-key-id"] for _ in range(2)]
    assert int(used[1]) > int(used[0]) > 0
    with SqlCatalog("some", **given, **{"s3.access-key-id": "own"}) as catalog:
        complete_properties(catalog, out)
        assert catalog.load_table("events.raw").io.properties["s3.access-key-id"] == "own"


@pytest.mark.parametrize(
    ("configured", "of_boto", "region"),
    [
        ({"type": "glue"}, None, "eu-west-1"),
        ({"type": "glue"}, "us-east-1", None),
        ({"type": "glue", "glue.region": "us-west-2"}, None, None),
        ({"type": "glue", "client.region": "us-west-2"}, None, None),
        ({"type": "glue", "glue.profile-name": "lake"}, None, None),
        ({"type": "sql"}, None, None),
    ],
)
def test_glue_is_asked_in_the_outputs_region_where_nobody_names_one(
    monkeypatch: pytest.MonkeyPatch, configured: dict[str, str], of_boto: str | None, region: str | None
) -> None:
    """Pyiceberg asks boto3, which has none in a task of ECS on EC2."""
    monkeypatch.setattr("compaction.tables.catalog.aws_session", lambda: SimpleNamespace(region_name=of_boto))
    out = StorePrefix(Address("bucket", "", "eu-west-1", None), "")
    assert _glue_region(configured, out).get("glue.region") == region


def test_a_catalog_is_asked_for_all_snapshots(tmp_path: Path) -> None:
    """One that is configured to give those of branches and tags alone would hide what vacuum must not take."""
    given = {"uri": f"sqlite:///{tmp_path / 'catalog.sqlite'}", SNAPSHOT_LOADING_MODE: "refs"}
    with SqlCatalog("some", **given) as catalog:
        complete_properties(catalog, StorePrefix(Address(None, str(tmp_path)), ""))
        assert catalog.properties[SNAPSHOT_LOADING_MODE] == "all"


def test_an_unknown_catalog_is_exit_2_before_any_work(shell: Shell) -> None:
    """The message names it, and says where it is configured."""
    done = shell.run("compact", "--date", str(DAY), "--iceberg", "events.raw", path="/nonexistent")
    assert (done.returncode, "knows no catalog 'default'" in done.stderr) == (2, True), done
    assert "PYICEBERG_CATALOG__NAME__" in done.stderr


class _Refusing(BaseHTTPRequestHandler):
    """A REST catalog that refuses whoever asks."""

    def do_GET(self) -> None:
        """Answer as one whose token has expired."""
        self.send_error(403, "the token has expired")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_night_goes_on_without_a_catalog_that_refuses(shell: Shell) -> None:
    """Each settled day has its row; here none can be published, for want of a Spark."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        shell.environment["PYICEBERG_CATALOG__LAKE__URI"] = f"http://127.0.0.1:{server.server_port}"
        table = ("--iceberg", "events.raw", "--iceberg-catalog", "lake")
        done = shell.run("compact", "--due", "2d", "--json", *table, path="/nonexistent")
        server.shutdown()
    assert len(json.loads(done.stdout)["days"]) == 2, done


def test_without_pyiceberg_one_sentence_says_so(shell: Shell) -> None:
    """Exit 2, with the command that installs it."""
    hidden = shell.folder / "hidden" / "pyiceberg"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('No module', name='pyiceberg')\n")
    environment = {**shell.environment, "PYTHONPATH": f"{hidden.parent}:{shell.environment['PYTHONPATH']}"}
    words = ("compact", str(shell.file), "--date", str(DAY), "--iceberg", "events.raw")
    command = [sys.executable, "-m", "minutebook", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "minutebook: --iceberg needs pyiceberg, and pyiceberg is not installed",
        "next step: install follow.lock and the wheel, as `minutebook docs iceberg` says",
    ]
