"""Reading on the embedded servers: `run_cat` as a process, and what reading asks of AWS against its policies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compaction.commands.ddl import print_ddl
from compaction.job.request import DdlRequest
from demo.embedded import REGION, EmbeddedAws
from minutebook.cat.command import run_cat
from minutebook.cat.options import CatOptions
from minutebook.format.minute import iso_time
from minutebook.reader import published
from minutebook.store.places import StorePrefix
from minutebook.store.s3 import S3Store
from tests.corpus.shelf import Shelf
from tests.fakes.archive_scene import PREFIX, ArchiveScene
from tests.integration.asking import Home, check
from tests.unit.minutebook.cat.reading import DAY, NOON, S0, records
from tests.witness.requests import hearing

_SPAN = ("--from", iso_time(NOON * 60_000), "--to", iso_time((NOON + 10) * 60_000))


@pytest.fixture
def home(embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path, s3_store: S3Store) -> Home:
    """Return an archive of ten minutes; its payloads fill more than a pipe."""
    made = Home(embedded_aws, tmp_path, bucket, s3_store)
    scene = ArchiveScene(s3_store)
    for minute in range(NOON, NOON + 10):
        scene.segment(S0, minute, records(minute, minute * 100, ["x" * 9_000] * 20))
    return made


def start(home: Home, *words: str) -> subprocess.Popen[bytes]:
    """Start `minutebook cat FILE WORDS...`."""
    command = [sys.executable, "-m", "minutebook", "cat", str(home.file), *_SPAN, *words]
    environment = {**os.environ, **home.aws.environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, bufsize=0)


def test_who_has_read_enough_closes_the_pipe(home: Home) -> None:
    """As `head` does: no traceback, no error, code 0."""
    process = start(home)
    assert process.stdout is not None
    first = process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    told = process.stderr.read()
    process.stderr.close()

    assert (len(first), process.wait(60), told) == (9_001, 0, b"")


def test_damage_is_told_on_stderr_and_by_the_exit_code(home: Home, s3_store: S3Store) -> None:
    """Stdout has the records, and nothing else."""
    key = f"{PREFIX}2026/11/20/12/00/\x1b[1m"
    s3_store.put_if_absent(key, b"", {}, "x/y")
    process = start(home)
    out, told = process.communicate(timeout=60)

    assert (len(out.splitlines()), process.returncode) == (200, 3)
    assert (
        told.decode() == f"minutebook: {PREFIX}2026/11/20/12/00/\\x1b[1m: among the segments, and none by its name\n"
    )


def test_what_cat_asks(home: Home, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Names and bodies below the prefix, of the expired day, too."""
    with hearing(home.names) as heard:
        code = run_cat(CatOptions(home.file, _SPAN[1], _SPAN[3], limit=1), {})
    assert (code, len(capfdbinary.readouterr().out)) == (0, 9_001)
    check("cat", heard)


def test_what_readers_ask(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Pointers and manifests; the files are read with GETs of keys below the same folder."""
    place = StorePrefix(home.address, f"{PREFIX}_parquet/")
    shelf = Shelf(place)
    shelf.publish(DAY, "a")
    with hearing(home.names) as heard:
        days = published(
            f"s3://{home.bucket}/{PREFIX}_parquet",
            str(DAY),
            "2026-11-21",
            missing="skip",
            endpoint=home.aws.s3_endpoint,
            region=REGION,
        )
        assert print_ddl(DdlRequest("events.raw", str(home.file)), {}) == 0
    assert [len(day.files) for day in days.days] == [2]
    assert f"LOCATION 's3://{home.bucket}/{PREFIX}_parquet/_symlinks/'" in capsys.readouterr().out
    check("reader", heard)
