"""The packed environment of the nightly job, run as a platform runs it: by spark-submit, from an empty folder.

`make nightly-env` first. A day is made on the embedded AWS, with the settings on S3. The archive is unpacked beside
the driver, as EMR does, and given to the executors by `--archives`: processes of their own (`local-cluster`), whose
working folders hold nothing else. Neither sees the checkout or its virtual environment; Spark itself is PySpark's.
Then `compact` and `audit` run by keys and values, with report, output and metrics; `compact` commits to an Iceberg
table, by the archive's pyiceberg.

    python -m benchmarks nightly_env dist/minutebook-nightly-0.1.0-py311-x86_64.tar.gz [--python /usr/bin/python3.11]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Final

import pyspark

from demo.embedded import EmbeddedAws
from minutebook.format.day import Day
from minutebook.store.places import open_storage
from tests.corpus.model import Corpus
from tests.integration.shell import Shell, store_checkpoints

_DAY: Final = Day.parse("2026-11-20")
_BUCKET: Final = "nightly"
_SPARK: Final = Path(pyspark.__file__).parent
_CLUSTER: Final = "local-cluster[2,1,1024]"


def main(arguments: list[str]) -> int:
    """Run both commands; exit code 1 when one does not do what it should."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks nightly_env", description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--python", default="", help="the platform's Python; else the one that the archive finds")
    parser.add_argument("--master", default=_CLUSTER)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="minutebook-nightly-") as name:
        folder = Path(name)
        (folder / "empty").mkdir()
        with EmbeddedAws(folder / "aws") as aws:
            shell = _scene(aws, folder)
            environment = _unpacked(shell, folder / "empty", options.archive, options.python)
            told = _run(folder / "empty", environment, options, "compact")
            told += _run(folder / "empty", environment, options, "audit")
            return _judged(shell, told)


def _scene(aws: EmbeddedAws, folder: Path) -> Shell:
    os.environ |= aws.environment
    aws.s3_client().create_bucket(Bucket=_BUCKET)
    shell = Shell(aws, _BUCKET, folder)
    corpus = Corpus(_DAY)
    store = open_storage(shell.address)
    shell.archive(corpus)
    store_checkpoints(aws.dynamodb_client(), _BUCKET, corpus)
    store.put_if_absent("code/my.properties", shell.file.read_bytes(), {}, "text/plain")
    return shell


def _unpacked(shell: Shell, empty: Path, archive: Path, python: str) -> dict[str, str]:
    """Lay out what a platform lays out; return the environment of its driver."""
    with tarfile.open(archive) as packed:
        packed.extractall(empty / "environment", filter="data")
    shutil.copyfile(archive.parent / "spark_submit.py", empty / "spark_submit.py")
    java = Path(shutil.which("java") or "java").parent
    given = {name: text for name, text in shell.environment.items() if name.startswith("AWS_")}
    return {
        **given,
        "HOME": str(empty),
        "PATH": f"{java}:/usr/bin:/bin",
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_DRIVER_PYTHON": "./environment/bin/python",
        "PYSPARK_PYTHON": "./environment/bin/python",
        "MINUTEBOOK_S3_ENDPOINT": str(shell.address.endpoint),
        "MINUTEBOOK_METRICS": "emf",
        "PYICEBERG_CATALOG__LAKE__TYPE": "sql",
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{empty}/catalog.db",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"file://{empty}/warehouse",
        **({"NIGHTLY_PYTHON": python} if python else {}),
    }


def _run(
    empty: Path, environment: dict[str, str], options: argparse.Namespace, command: str
) -> list[dict[str, object]]:
    """Submit a command; returns the lines of its log."""
    submit = [str(_SPARK / "bin" / "spark-submit"), "--master", options.master]
    submit += ["--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=1g"]
    if options.python:
        submit += ["--conf", f"spark.executorEnv.NIGHTLY_PYTHON={options.python}"]
    submit += ["--archives", f"{options.archive.absolute()}#environment", "spark_submit.py"]
    submit += ["--command", command, "--file", f"s3://{_BUCKET}/code/my.properties", "--date", str(_DAY)]
    submit += ["--report", f"s3://{_BUCKET}/reports/{command}/", "--JOB_NAME", "night"]
    submit += ["--iceberg", "events.flights", "--iceberg-catalog", "lake"] if command == "compact" else []
    began = time.monotonic()  # noqa: TID251 - a benchmark measures
    done = subprocess.run(submit, cwd=empty, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    seconds = time.monotonic() - began  # noqa: TID251 - same
    sys.stdout.write(f"{command}: exit code {done.returncode} after {seconds:.1f} s\n")
    if done.returncode != 0:
        sys.stdout.write(done.stdout[-4000:] + done.stderr[-4000:])
    lines = (done.stdout + done.stderr).splitlines()
    return [json.loads(line) for line in lines if line.startswith('{"')]


def _judged(shell: Shell, told: list[dict[str, object]]) -> int:
    judged = [
        (line["Command"], line["verdict"], line.get("DayRows")) for line in told if line["event"] == "day_judged"
    ]
    phases = sorted({str(line["phase"]) for line in told if line["event"] == "night_progress"})
    keys = [row.key for row in open_storage(shell.address).list_objects("reports/")]
    rows = [line["rows"] for line in told if line["event"] == "table_committed"]
    sys.stdout.write(f"judged: {judged}\nphases: {phases}\nreports: {keys}\nrows of the table: {rows}\n")
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}\n")
    is_right = [verdict for _, verdict, _ in judged] == ["clean", "clean"] and len(keys) == 4  # noqa: PLR2004 - two each
    is_right = is_right and rows == [judged[0][2]]
    return 0 if is_right else 1
