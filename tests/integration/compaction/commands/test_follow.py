"""`minutebook follow` as a process, on the embedded S3 and a local catalog: without a JVM, once and as a service."""

import signal
import subprocess
import sys
import urllib.request

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.format.day import Day, day_of_ms
from tests.corpus.model import Corpus
from tests.integration.shell import Shell
from tests.witness.waiting import PATIENCE_SECONDS, wait_until


@pytest.fixture
def shell(embedded_aws: EmbeddedAws, bucket: str, tmp_path: object) -> Shell:
    """Return a shell with an archive of yesterday."""
    made = Shell(embedded_aws, bucket, tmp_path)  # type: ignore[arg-type]  # pytest's path
    made.archive(Corpus(_today().shift(-1)))
    return made


def _today() -> Day:
    """Return the day as it is asked: a run of all tests may pass midnight."""
    return day_of_ms(SystemClock().now_ms())


def _positions(shell: Shell, *more: str) -> list[tuple[object, ...]]:
    """Return the positions of yesterday's rows, and more columns; the corpus has neighbours."""
    uri = f"sqlite:///{shell.folder / 'out' / '_iceberg' / 'catalog.sqlite'}"
    with SqlCatalog("default", uri=uri) as catalog:
        yesterday = f"arrival_time < '{_today()}T00:00:00+00:00'"
        rows = catalog.load_table("events.raw").scan(row_filter=yesterday).to_arrow().to_pylist()
    rows.sort(key=lambda row: (row["shard_id"], row["sequence_number"], row["sub_sequence_number"]))
    return [
        tuple(row[name] for name in ("shard_id", "sequence_number", "sub_sequence_number", *more)) for row in rows
    ]


def _words(shell: Shell) -> tuple[str, ...]:
    return "--out", str(shell.folder / "out"), "--iceberg", "events.raw"


def test_once_brings_the_table_up_to_now_without_a_jvm(shell: Shell) -> None:
    """What is archived is there, each row once, with the columns of payloads; a second run commits nothing."""
    (shell.folder / "columns.toml").write_text('[columns.n]\ntype = "int64"\n')
    words = (*_words(shell), "--columns", str(shell.folder / "columns.toml"), "--once")
    first = shell.run("follow", *words, path="/nonexistent")
    assert (first.returncode, "; 0 segment(s) left out" in first.stdout) == (0, True), first
    rows = _positions(shell, "n", "_unfit")
    assert (len(rows), len({*rows})) == (108, 108)
    assert {(n is None, why is None) for *_, n, why in rows} == {(False, True), (True, False)}  # some are no JSON
    rows = _positions(shell)
    second = shell.run("follow", *words, path="/nonexistent")
    assert (second.returncode, _positions(shell)) == (0, rows), second
    assert "table_committed" not in second.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--every", "5s"), "less than 10 s"),
        (("--every", "soon"), "not a span of time"),
        (("--columns", "none.toml"), "none.toml cannot be read"),
        (("--event-id", "id"), "which rows are copies, a night knows alone"),
        (("--drop-producer-duplicates",), "which rows are copies, a night knows alone"),
    ],
)
def test_what_follow_cannot_do_is_refused_before_anything_is_read(
    shell: Shell, words: tuple[str, ...], reason: str
) -> None:
    """With the reason, and exit code 2."""
    done = shell.run("follow", *_words(shell), *words)
    assert (done.returncode, reason in done.stderr) == (2, True), done


def test_a_service_ends_orderly_on_sigterm(shell: Shell) -> None:
    """It serves its health and metrics meanwhile, tells each tick to CloudWatch, and exits with 0."""
    with shell.file.open("a") as file:
        file.write("minutebook.metrics = emf\n")
    log = shell.folder / "follow.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "minutebook", "follow", str(shell.file), *_words(shell), "--port", "0"],
            env=shell.environment,
            cwd=shell.folder,
            stderr=stderr,
        )
        try:
            wait_until(lambda: '"table_followed"' in log.read_text(), "the first tick")
            line = next(line for line in log.read_text().splitlines() if '"serving"' in line)
            port = line.partition('"port": ')[2].partition(",")[0].rstrip("}")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
                assert answer.status == 200
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                assert b'minutebook_rows_until_timestamp_seconds{application="' in answer.read()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
    assert len(_positions(shell)) == 108
