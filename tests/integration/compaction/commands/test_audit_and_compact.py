"""`minutebook compact` and `minutebook audit` as processes: exit codes, output, Spark's noise."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compaction.verdict.audit_document import decode_audit
from demo.embedded import EmbeddedAws
from minutebook.format.day import Day
from minutebook.store.places import open_storage
from tests.corpus.chain_defects import missing_object, unproven_end
from tests.corpus.desk import Desk
from tests.corpus.model import PREFIX, Corpus
from tests.corpus.object_defects import swapped_lines
from tests.integration.shell import Shell, store_checkpoints

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

DAY = Day.parse("2026-11-20")


@pytest.fixture
def shell(embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path) -> Shell:
    """Return a shell with an empty bucket."""
    return Shell(embedded_aws, bucket, tmp_path)


def test_a_clean_day_is_compacted_once(shell: Shell, dynamodb_client: "DynamoDBClient", bucket: str) -> None:
    """Exit 0, one line that says where; the second run starts no Spark and works without any Java."""
    corpus = Corpus(DAY)
    shell.archive(corpus)
    store_checkpoints(dynamodb_client, bucket, corpus)
    first = shell.run("compact", "--date", str(DAY), "--master", "local[1]", "--report", str(shell.folder / "r"))
    assert (first.returncode, "CLEAN" in first.stdout) == (0, True), first
    assert f"{DAY} published: {corpus.records} rows" in first.stdout
    assert not [line for line in first.stderr.splitlines() if not line.startswith("{")]
    assert (shell.folder / "r" / f"audit-{DAY}.html").read_text().startswith("<!doctype html>")
    second = shell.run("compact", "--date", str(DAY), path="/nonexistent")
    assert (second.returncode, "nothing to do" in second.stdout) == (0, True), second


def test_files_of_the_users_are_no_part_of_the_job(
    shell: Shell, dynamodb_client: "DynamoDBClient", bucket: str
) -> None:
    """A folder with modules of our packages' names: neither Spark's workers nor the driver import them."""
    for name in ("archive", "compaction", "consumer", "job"):
        (shell.folder / f"{name}.py").write_text("raise RuntimeError('not ours')\n")
    corpus = Corpus(DAY)
    shell.archive(corpus)
    store_checkpoints(dynamodb_client, bucket, corpus)
    done = shell.run("compact", "--date", str(DAY), "--master", "local[2]")
    assert (done.returncode, "CLEAN" in done.stdout) == (0, True), done


def test_audit_prints_its_json_and_exits_3_on_defects(
    shell: Shell, dynamodb_client: "DynamoDBClient", bucket: str
) -> None:
    """Stdout is audit.json and nothing else; the finding's command line names the file."""
    corpus = Corpus(DAY)
    swapped_lines(corpus, corpus.shards[0], 3)
    shell.archive(corpus)
    store_checkpoints(dynamodb_client, bucket, corpus)
    done = shell.run("audit", "--date", str(DAY), "--json")
    audit = decode_audit(done.stdout.encode())
    assert (done.returncode, audit.verdict, [finding.code for finding in audit.findings]) == (
        3,
        "defects",
        ["out_of_order"],
    )
    assert audit.findings[0].reproduce.startswith(f"minutebook audit {shell.file} --date {DAY}")


def test_an_unreadable_bucket_is_exit_4(shell: Shell) -> None:
    """No bucket: nothing is proven, whatever is to count as failed, and the answer says what was refused."""
    settings = shell.file.read_text().replace(f"bucket = {shell.address.bucket}", "bucket = no-such-bucket")
    shell.file.write_text(settings)
    done = shell.run("audit", "--date", str(DAY), "--level", "inventory", "--fail-on", "defects")
    assert (done.returncode, "NoSuchBucket" in done.stdout) == (4, True), done


def test_what_could_not_be_proven_fails_unless_only_defects_do(shell: Shell) -> None:
    """By `--fail-on`; a day that is held for want of its end is not done, and fails all the same."""
    corpus = Corpus(DAY)
    unproven_end(corpus, corpus.shards[0], 0)
    shell.archive(corpus)
    words = ("--date", str(DAY), "--level", "inventory", "--fail-on")
    assert [shell.run("audit", *words, verdicts).returncode for verdicts in ("unknown", "defects")] == [4, 0]
    held = shell.run("compact", "--date", "today", "--fail-on", "defects", path="/nonexistent")
    assert (held.returncode, "is not published" in held.stdout) == (4, True), held


def test_without_java_one_sentence_says_so(shell: Shell, dynamodb_client: "DynamoDBClient", bucket: str) -> None:
    """Exit 2, before Spark is tried; where Spark was not asked for, this machine does it without."""
    corpus = Corpus(DAY)
    shell.archive(corpus)
    store_checkpoints(dynamodb_client, bucket, corpus)
    done = shell.run("compact", "--date", str(DAY), "--engine", "spark", path="/nonexistent")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith("needs Java 17 or newer to run Spark, and there is no java on PATH")
    done = shell.run("compact", "--date", str(DAY), path="/nonexistent")
    assert (done.returncode, f"{corpus.records} rows" in done.stdout) == (0, True), done


def test_a_range_is_one_document_and_one_exit_code(shell: Shell) -> None:
    """A row for each day, and the worst day's code; level inventory needs no Java."""
    corpus = Corpus(DAY)
    missing_object(corpus, corpus.shards[0], 3)
    shell.archive(corpus)
    words = ("--level", "inventory", "--json", "--parallel-days", "3")
    done = shell.run("audit", "--from", "2026-11-19", "--to", str(DAY), *words, path="/nonexistent")
    told = json.loads(done.stdout)
    assert [(row["day"], row["state"]) for row in told["days"]] == [("2026-11-19", "audited"), (str(DAY), "audited")]
    assert told["days"][1]["verdict"] == "defects"
    assert (done.returncode, told["exit_code"]) == (3, 3), done


def test_properties_of_another_application_touch_no_published_day(shell: Shell, bucket: str) -> None:
    """What publishes or deletes ends with 6 and says what to correct; `audit` and `cat` say whom they disbelieve."""
    desk = Desk(shell.address, application=bucket)
    desk.out = desk.out._replace(prefix=f"{PREFIX}_parquet/")
    desk.compact()
    pointer = desk.publisher().current()
    assert pointer.pointer is not None
    shell.file.write_text(shell.file.read_text().replace(f"applicationName = {bucket}", "applicationName = another"))
    for words in (
        ("compact", "--date", str(DAY)),
        ("compact", "--date", str(DAY), "--dry-run"),
        ("compact", "--due", "14d"),
        ("vacuum",),
    ):
        done = shell.run(*words, path="/nonexistent")
        told = done.stdout + done.stderr
        assert (done.returncode, "applicationName" in told) == (6, True), (words, done)
    assert desk.publisher().current() == pointer
    disbelief = "the checkpoints of another are not believed"
    audited = shell.run("audit", "--date", str(DAY), "--level", "inventory", path="/nonexistent")
    assert (audited.returncode, disbelief in audited.stdout) == (0, True), audited
    begin, end = f"{DAY}T10:00:00Z", f"{DAY}T10:30:00Z"
    shown = shell.run("cat", "--from", begin, "--to", end, "--format", "json", path="/nonexistent")
    assert (shown.returncode, disbelief in shown.stderr) == (0, True), shown


def test_a_dry_run_shows_the_plan_and_writes_nothing(shell: Shell) -> None:
    """The plan needs names only: no Java, no object written. A pointer of a later version ends no other day's."""
    corpus = Corpus(DAY)
    store = open_storage(shell.address)
    shell.archive(corpus)
    store.put_if_absent(f"{PREFIX}_parquet/dt=2026-11-19/_current.json", b'{"format":2}', {}, "application/json")
    before = [row.key for row in store.list_objects("")]
    words = ("compact", "--from", "2026-11-19", "--to", str(DAY), "--dry-run", "--json")
    done = shell.run(*words, path="/nonexistent")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"]) == (1, 1), done
    assert [(row["state"], "plan" in row) for row in told["days"]] == [("failed", False), ("planned", True)]
    assert told["days"][1]["plan"]["segments"] == 18
    assert [row.key for row in store.list_objects("")] == before
