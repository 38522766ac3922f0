"""`--event-id` as it is typed: on the command line, and under spark-submit."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from compaction.spark.session import class_archive_folder
from demo.embedded import EmbeddedAws
from minutebook.class_archive import use_options
from minutebook.format.day import Day
from minutebook.store.places import open_storage
from tests.corpus.event_defects import repeated_after_midnight
from tests.corpus.model import Corpus
from tests.integration.shell import ROOT, Shell, store_checkpoints

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

DAY = Day.parse("2026-11-20")


@pytest.fixture
def shell(embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path, dynamodb_client: "DynamoDBClient") -> Shell:
    """Return a shell with an archive in which two records repeat an event of the day before."""
    made = Shell(embedded_aws, bucket, tmp_path)
    corpus = Corpus(DAY)
    repeated_after_midnight(corpus, corpus.shards[1], 3)
    made.archive(corpus)
    store_checkpoints(dynamodb_client, bucket, corpus)
    return made


def test_copies_are_left_out_and_counted(shell: Shell) -> None:
    """Terminal, page and exit code; the plan then says that there is nothing to do. On Spark: `test_copies.py`."""
    words = ("--date", str(DAY), "--event-id", "n", "--drop-producer-duplicates")
    done = shell.run("compact", *words, "--report", str(shell.folder / "r"))
    assert done.returncode == 0, done
    assert "raw 108 = unique 106 + duplicates 0 + producer duplicates left out 2 + rejected 0" in done.stdout
    assert "producer_duplicate" in done.stdout
    page = (shell.folder / "r" / f"audit-{DAY}.html").read_text()
    assert "<b>2</b>producer duplicates left out" in page
    assert "--event-id n" in page
    plan = shell.run("compact", *words, "--dry-run", path="/nonexistent")
    assert (plan.returncode, "nothing to do" in plan.stdout) == (0, True), plan


def test_spark_submit_runs_the_same_job(shell: Shell) -> None:
    """By keys and values, with settings and report on S3, as platforms have it; the exit code comes through.

    The platform's session is used and Glue's own arguments are ignored. The event id is taken, and the verdict is
    clean: a retry is not a defect of the archive. The metrics are a line of their own, and so is the progress.
    """
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    store = open_storage(shell.address)
    store.put_if_absent("code/my.properties", shell.file.read_bytes(), {}, "text/plain")
    shell.environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    shell.environment |= {"MINUTEBOOK_S3_ENDPOINT": str(shell.address.endpoint), "MINUTEBOOK_METRICS": "emf"}
    shell.environment.pop("SPARK_HOME", None)
    job = str(ROOT / "compaction" / "spark_submit.py")
    prepared = " ".join(["-XX:+UseSerialGC", *use_options(class_archive_folder())])
    program = (
        submit,
        "--master",
        "local[1]",
        "--conf",
        "spark.ui.enabled=false",
        "--driver-java-options",
        prepared,
        job,
    )
    bucket = shell.address.bucket
    words = ["--file", f"s3://{bucket}/code/my.properties", "--date", str(DAY), "--report", f"s3://{bucket}/reports/"]
    words += ["--json", "true", "--event-id", "n", "--JOB_NAME", "nightly", "--enable-metrics", ""]
    command = [*program, "--command", "audit", *words]
    environment = {**shell.environment, "PATH": os.environ["PATH"]}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    # spark-submit sends a driver's stderr to stdout, warnings of pyspark's own modules included.
    audit = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{\n") :])[0]
    assert audit["verdict"] == "clean"
    assert [(finding["code"], finding["severity"], finding["count"]) for finding in audit["findings"]] == [
        ("producer_duplicate", "warning", 2)
    ]
    stored = store.get(f"reports/audit-{DAY}.json")
    assert stored is not None
    assert json.loads(stored.body) == audit
    page = store.get(f"reports/audit-{DAY}.html")
    assert page is not None
    assert b"This day is not published at" in page.body
    lines = [json.loads(line) for line in (done.stdout + done.stderr).splitlines() if line.startswith('{"')]
    assert [line["DayWarnings"] for line in lines if line["event"] == "day_judged"] == [1]
    assert {line["phase"] for line in lines if line["event"] == "night_progress"} >= {
        f"read with event ids {DAY}",
        "find repeated events",
    }


def test_level_inventory_refuses_an_event_id(shell: Shell) -> None:
    """Exit 2 and the levels that take it, before anything is read."""
    done = shell.run("audit", "--date", str(DAY), "--level", "inventory", "--event-id", "n")
    assert (done.returncode, "use --level keys or stream" in done.stderr) == (2, True), done
