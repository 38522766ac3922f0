"""Reading on the embedded servers: `run_cat` as a process, and what reading asks of AWS against its policies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from compaction.commands.ddl import print_ddl
from compaction.job.request import DdlRequest
from consumer.stream.port import StreamIdentity
from demo.embedded import REGION, EmbeddedAws
from minutebook.cat.command import run_cat
from minutebook.cat.options import CatOptions
from minutebook.clock import SystemClock
from minutebook.completeness.command import run_wait
from minutebook.completeness.options import WaitOptions
from minutebook.format.boundaries import (
    CompleteMarker,
    RowsObject,
    ShardRow,
    encode_boundary,
    marker_key,
    rows_key,
)
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position
from minutebook.reader import complete_until, published
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.s3 import S3Store
from tests.corpus.shelf import Shelf
from tests.fakes.archive_scene import PREFIX, ArchiveScene
from tests.fakes.stream import DAY_MS
from tests.integration.asking import Home, check
from tests.unit.minutebook.cat.reading import DAY, NOON, S0, S1, records
from tests.unit.minutebook.reader.live_scene import LiveScene
from tests.witness.requests import hearing
from tests.witness.waiting import PATIENCE_SECONDS

HOUR_MS = 60 * MINUTE_MS
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
    """Start `minutebook cat FILE WORDS...`, by default of the ten minutes."""
    command = [sys.executable, "-m", "minutebook", "cat", str(home.file), *(words or _SPAN)]
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

    assert (len(first), process.wait(PATIENCE_SECONDS), told) == (9_001, 0, b"")


def test_damage_is_told_on_stderr_and_by_the_exit_code(home: Home, s3_store: S3Store) -> None:
    """Stdout has the records, and nothing else."""
    key = f"{PREFIX}2026/11/20/12/00/\x1b[1m"
    s3_store.put_if_absent(key, b"", {}, "x/y")
    process = start(home)
    out, told = process.communicate(timeout=PATIENCE_SECONDS)

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


def test_what_waiting_asks(home: Home, s3_store: S3Store, capsys: pytest.CaptureFixture[str]) -> None:
    """The markers; and where it is not yet, all that says what holds the next one. The reader asks for less."""
    names, now_ms = home.names, SystemClock().now_ms()
    arn = f"arn:aws:kinesis:{names.region}:{names.account}:stream/{names.stream}"
    identity = StreamIdentity(arn=arn, created_ms=(NOON - 60) * MINUTE_MS, retention_ms=DAY_MS)
    ArchiveScene(s3_store).settle(identity, application=names.application)
    until_ms = now_ms // HOUR_MS * HOUR_MS - HOUR_MS
    marker = CompleteMarker(
        since=iso_time(until_ms - HOUR_MS), boundary=iso_time(until_ms), shards={}, gaps=(), writer="run"
    )
    rows = RowsObject(worker="worker", run="run", rows={S0: [ShardRow(until_ms, until_ms, until_ms, None)]})
    for key, body in (
        (marker_key(PREFIX, until_ms), encode_boundary(marker)),
        (rows_key(PREFIX, until_ms, "run", until_ms), encode_boundary(rows)),
    ):
        s3_store.put_if_absent(key, body, {}, "application/json")
    with hearing(names) as heard:
        assert run_wait(WaitOptions(iso_time(until_ms), home.file), {}) == 0
        assert run_wait(WaitOptions(iso_time(now_ms), home.file, once=True), {}) == 7
        known = complete_until(f"s3://{home.bucket}/{PREFIX}", endpoint=home.aws.s3_endpoint, region=REGION)
    assert known is not None
    assert (known.until.timestamp() * 1000, known.gaps) == (until_ms, ())
    told = capsys.readouterr()
    assert [line.partition(":")[0] for line in told.out.splitlines()] == ["complete", "not yet"]
    assert f"held by {S0}" in told.err
    check("wait", heard)


def test_live_days_are_sql_on_s3(home: Home) -> None:
    """A published part and the segments behind it, by DuckDB, with the rights of `cat` and no other."""
    place = StorePrefix(home.address, f"{PREFIX}_parquet/")
    scene = LiveScene(open_storage(home.address), PREFIX, place, f"s3://{home.bucket}/{PREFIX}_parquet")
    scene.publish(until=NOON + 5)
    with hearing(home.names) as heard:
        days = scene.read(endpoint=home.aws.s3_endpoint, region=REGION)
        sql = "SELECT count(*), count(DISTINCT sequence_number), sum(length(data)), min(dt) FROM days"
        for _ in range(2):
            assert duckdb.sql(sql).fetchall() == [(200, 200, 200 * 9_000, str(DAY))]
    assert days.published[0].rows == 100
    check("cat", heard)


def test_follow_shows_what_is_committed_and_ends_in_order(home: Home, s3_store: S3Store) -> None:
    """By SIGTERM or Ctrl-C: code 0, and stderr says what is not shown."""
    scene, minute = ArchiveScene(s3_store), SystemClock().now_ms() // MINUTE_MS
    for number, word in ((signal.SIGTERM, "a"), (signal.SIGINT, "b")):
        first = ord(word) * 100
        scene.segment(S1, minute - 2, records(minute - 2, first, [word]))
        process = start(home, "--follow", "--from", iso_time((minute - 60) * MINUTE_MS), "--shard", S1)
        assert process.stdout is not None
        assert line_of(process, word) == word
        scene.segment(S1, minute - 1, records(minute - 1, first + 10, [word * 2]), after=Position(1))
        assert line_of(process, word * 2) == word * 2
        process.send_signal(number)
        out, told = process.communicate(timeout=PATIENCE_SECONDS)
        assert (out, process.returncode) == (b"", 0)
        assert told.decode().splitlines() == [
            "minutebook: following; a segment that is committed more than 120 minutes after its minute is not shown"
        ]


def line_of(process: subprocess.Popen[bytes], word: str) -> str:
    """Return the line with a word; earlier ones are passed over."""
    assert process.stdout is not None
    while (line := process.stdout.readline().decode().strip()) and line != word:
        pass
    return line


def test_follow_ends_when_nobody_reads(home: Home, s3_store: S3Store) -> None:
    """Also if no record comes: `head` has read enough, and nothing is written that would tell."""
    minute = SystemClock().now_ms() // MINUTE_MS
    ArchiveScene(s3_store).segment(S1, minute - 2, records(minute - 2, 1, ["a"]))
    process = start(home, "--follow", "--from", iso_time((minute - 60) * MINUTE_MS))
    assert process.stdout is not None
    assert line_of(process, "a") == "a"
    process.stdout.close()
    assert process.stderr is not None
    told = process.stderr.read()
    process.stderr.close()
    assert (process.wait(PATIENCE_SECONDS), told.count(b"\n")) == (0, 1)


def test_follow_refuses_an_end(home: Home) -> None:
    """Exit code 2."""
    process = start(home, "--follow", *_SPAN)
    _, told = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, told.splitlines()[0]) == (2, b"minutebook: --follow has no end")


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
