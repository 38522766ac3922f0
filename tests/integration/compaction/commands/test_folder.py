"""`compact` and `audit` of a folder of streams: one Spark, one table, and a broken archive that stops no other."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any, Final

import pytest

from compaction.job.scope import is_settled
from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import SystemClock, new_id
from minutebook.format.day import Day, day_of_ms
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.chain_defects import missing_object
from tests.corpus.model import PREFIX, Corpus
from tests.integration.forked import run_forked
from tests.integration.shell import ROOT
from tests.witness.waiting import wait_until

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NAMES: Final = ("clean", "damaged", "lossy")
_CLOCK: Final = SystemClock()


def settled_day() -> Day:
    """Return the newest day that a night would judge now."""
    now_ms = _CLOCK.now_ms()
    newest = day_of_ms(now_ms).shift(-1)
    return newest if is_settled(newest, now_ms) else newest.shift(-1)


class Fleet:
    """Three archives, each in a bucket of its own, and a folder of files about them."""

    def __init__(self, aws: EmbeddedAws, s3: "S3Client", folder: Path, day: Day) -> None:
        self.day, self.aws, self.home, self.folder = day, aws, folder, folder / "streams"
        self.folder.mkdir()
        self.buckets = {name: f"test-{name}-{new_id()[:10]}" for name in NAMES}
        (self.folder / "shared.properties").write_text(
            f"regionName = {REGION}\nkinesisEndpoint = {aws.kinesis_endpoint}\nstreamName = corpus\n"
            f"dynamoDBEndpoint = {aws.dynamodb_endpoint}\nminutebook.s3Endpoint = {aws.s3_endpoint}\n"
            f"minutebook.prefix = {PREFIX}\n"
        )
        for name, bucket in self.buckets.items():
            s3.create_bucket(Bucket=bucket)
            corpus = Corpus(day)
            if name == "lossy":
                missing_object(corpus, corpus.shards[0], 3)
            corpus.write(open_storage(self.address(name)), application=f"app-{name}")
            text = f"applicationName = app-{name}\nminutebook.bucket = {bucket}\n"
            (self.folder / f"{name}.properties").write_text(text)
        second = _CLOCK.now_ms() // 1000
        wait_until(lambda: _CLOCK.now_ms() // 1000 > second, "the next second")

    def address(self, name: str) -> Address:
        """Return the bucket of a stream."""
        return Address(self.buckets[name], "", REGION, self.aws.s3_endpoint)

    def lose_bucket(self, name: str) -> None:
        """Let the file of a stream name a bucket that is not there."""
        file = self.folder / f"{name}.properties"
        file.write_text(file.read_text().replace(self.buckets[name], "no-such-bucket-at-all"))

    def run(self, command: str, *words: str, path: str | None = None) -> CompletedProcess[str]:
        """Run a command on the folder."""
        environment = {**self.aws.environment, "HOME": str(self.home), "PYTHONPATH": str(ROOT)}
        environment["PATH"] = os.environ["PATH"] if path is None else path
        return run_forked([command, str(self.folder), *words], environment=environment, folder=self.home)


@pytest.fixture
def fleet(embedded_aws: EmbeddedAws, s3_client: "S3Client", tmp_path: Path) -> Fleet:
    """Return three archives of the day that a night would judge now."""
    return Fleet(embedded_aws, s3_client, tmp_path, settled_day())


def of_streams(done: CompletedProcess[str]) -> dict[str, Any]:
    """Return the rows of the one document, by the stems of the files."""
    told = json.loads(done.stdout)
    assert told["exit_code"] == done.returncode
    return {row["stream"]: row for row in told["streams"]}


def test_a_night_over_a_folder_publishes_what_it_can_and_names_the_rest(fleet: Fleet) -> None:
    """One Spark for all; the worst exit code; each application has folders of its own below --out and --report."""
    fleet.lose_bucket("damaged")
    (fleet.folder / "wrong.properties").write_text(
        "applicationName = app-wrong\nminutebook.bucket = b\nminutebook.prefix = raw\n"
    )
    out, reports = fleet.home / "out", fleet.home / "reports"
    words = ("--due", "1d", "--out", str(out), "--report", str(reports), "--master", "local[1]")
    done = fleet.run("compact", *words, "--json")
    rows = of_streams(done)
    codes = {name: row["exit_code"] for name, row in rows.items()}
    assert (done.returncode, codes) == (3, {"clean": 0, "damaged": 2, "lossy": 3, "wrong": 2}), done
    assert "NoSuchBucket" in rows["damaged"]["outcome"]
    (day,) = rows["clean"]["report"]["days"]
    assert (day["day"], day["pointer"]) == (str(fleet.day), "clean")
    audit = f"minutebook audit {fleet.folder} --stream lossy --published {out} --date {fleet.day} shows it"
    assert rows["lossy"]["next_step"].startswith(audit)
    assert (out / "app-clean" / f"dt={fleet.day}" / "_current.json").is_file()
    assert {path.parent.name for path in reports.glob("*/audit-*.html")} == {"app-clean", "app-lossy"}
    assert done.stderr.count("Spark") <= 1

    again = fleet.run("compact", *words, path="/nonexistent")  # nothing but the lossy day is due
    lines = again.stdout.splitlines()
    table = lines[next(at for at, line in enumerate(lines) if line.startswith("stream ")) :]
    told = {line.split()[0]: int(line.split()[1]) for line in table if line.split()[0] in codes}
    assert (again.returncode, told) == (3, codes), again
    page = (reports / "index.html").read_text()
    assert f'href="app-clean/audit-{fleet.day}.html"' in page
    assert "there is no such bucket" in page

    report = of_streams(fleet.run("vacuum", "--out", str(out), "--json", path="/nonexistent"))
    assert {name: each["exit_code"] for name, each in report.items()} == codes | {"lossy": 0}
    assert report["clean"]["report"]["output"].rstrip("/").endswith("app-clean")
    audited = fleet.run("audit", "--date", str(fleet.day), "--level", "inventory", "--json", path="/nonexistent")
    verdicts = {
        name: row["report"]["days"][0]["verdict"] for name, row in of_streams(audited).items() if name != "wrong"
    }
    assert (audited.returncode, verdicts) == (3, {"clean": "unknown", "damaged": "unknown", "lossy": "defects"}), (
        audited
    )
    words = ("--stream", "lossy", "--date", str(fleet.day), "--level", "inventory", "--json")
    one = fleet.run("audit", *words, path="/nonexistent")
    assert f"minutebook audit {fleet.folder} --stream lossy --date {fleet.day}" in one.stdout
