"""An archive of three days on the embedded S3, drivers on it as processes, and the published rows against the raw."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from compaction.commands.vacuum.command import PublishedOutput, vacuum_output
from compaction.publish.publisher import Publisher
from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.format.day import Day
from minutebook.format.record import Record
from minutebook.published.generation import DayFolder
from minutebook.retry import Backoff
from minutebook.store.places import open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from tests.corpus.model import PREFIX, Corpus, Shape

ROOT = Path(__file__).parents[2]
DAY = Day.parse("2026-11-20")
DAYS = (DAY.shift(-2), DAY.shift(-1), DAY)
OUT = f"{PREFIX}_parquet/"
_SHARDS = 4
_DAY_MS = 86_400_000
_PATIENCE_SECONDS = 900
_CLOCK = SystemClock()
Row = tuple[str, str, int, str, int, bytes]


class Parts(NamedTuple):
    """Of a published day: its files, and how many of them were there before the last run began."""

    files: int
    taken_over: int


class House:
    """One bucket with the archive, a properties file, and the drivers' log.

    Each shard has so many minutes a day: a driver that is killed late leaves little for the next one to be killed at.
    """

    def __init__(self, aws: EmbeddedAws, folder: Path, minutes: int = 16) -> None:
        self.bucket = f"nights-{new_id()[:10]}"
        aws.s3_client().create_bucket(Bucket=self.bucket)
        waits = lambda: Backoff(_CLOCK, new_random(), budget_seconds=60)  # noqa: E731 - said once
        self.storage = RetryingStorage(open_storage(Address(self.bucket, "", REGION, aws.s3_endpoint)), waits)
        every = range(-2 * 1440, 1440, 1440 // minutes)
        self.corpus = Corpus(DAY, shape=Shape(shards=_SHARDS, minutes=tuple(every), records=200, payload_bytes=300))
        self.corpus.write(open_storage(Address(self.bucket, "", REGION, aws.s3_endpoint)), application=self.bucket)
        self.file = folder / f"{self.bucket}.properties"
        self.file.write_text(
            f"streamName=corpus\napplicationName={self.bucket}\nregionName={REGION}\nminutebook.bucket={self.bucket}\n"
            f"kinesisEndpoint={aws.kinesis_endpoint}\ndynamoDBEndpoint={aws.dynamodb_endpoint}\n"
            f"minutebook.prefix={PREFIX}\nminutebook.s3Endpoint={aws.s3_endpoint}\n"
        )
        self._log = folder / f"{self.bucket}.log"
        kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
        self._environment = {**aws.environment, **kept, "PYTHONPATH": str(ROOT), "HOME": str(folder)}

    @contextmanager
    def driver(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Start `minutebook WORD FILE WORDS...`; whatever is left of it is killed at the end."""
        command = [sys.executable, "-m", "tests.nights.driver", words[0], str(self.file), *words[1:]]
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command, env=self._environment, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def run(self, *words: str) -> tuple[int, str]:
        """Run a command to its end; returns its exit code and what it printed."""
        with self.driver(*words) as process:
            printed, _ = process.communicate(timeout=_PATIENCE_SECONDS)
            return process.returncode, printed

    def done(self, *days: Day) -> int:
        """Count the tasks that have left their facts."""
        return sum("/_facts/" in key for day in days for key in self.storage.keys(f"{OUT}dt={day}/"))

    def wait_for(self, process: subprocess.Popen[str], ready: Callable[[], bool]) -> bool:
        """Wait until something is so; False: the process ended before."""
        end = _CLOCK.monotonic() + _PATIENCE_SECONDS
        while process.poll() is None:
            if ready():
                return True
            assert _CLOCK.monotonic() < end, "nothing gets further"
            _CLOCK.sleep(0.1)
        return False

    def vacuum_of_next_month(self) -> int:
        """Vacuum as of thirty days from now: returns how many objects went."""
        output = PublishedOutput(self.storage, PREFIX, self.storage, OUT)
        return vacuum_output(output, _CLOCK.now_ms() + 30 * _DAY_MS, 7 * _DAY_MS, apply=True).objects

    def rows(self, day: Day = DAY) -> list[Row]:
        """Read the published day as a reader does, in order; empty when it is not published."""
        _, manifest = self._published(day)
        rows: list[Row] = []
        for file in () if manifest is None else manifest.files:
            stored = self.storage.get(file.key)
            assert stored is not None, f"{file.key} is published, and gone"
            rows += map(_row, pq.read_table(pa.BufferReader(stored.body)).to_pylist())
        return sorted(rows)

    def raw_rows(self, day: Day = DAY) -> list[Row]:
        """Return what the day's segments hold, by whoever wrote them."""
        return sorted(
            (shard.shard_id, *_named(each), each.arrival_ms, bytes(each.data))
            for shard in self.corpus.shards
            for index in shard.in_day(day)
            for each in shard.segments[index].records
        )

    def parts(self, since_ms: int, day: Day = DAY) -> Parts:
        """Return how many of the published files are older than a run that began then."""
        _, manifest = self._published(day)
        assert manifest is not None
        modified = {row.key: row.last_modified_ms for row in self.storage.list_objects(f"{OUT}dt={day}/")}
        return Parts(len(manifest.files), sum(modified[file.key] < since_ms for file in manifest.files))

    def _published(self, day: Day) -> Any:  # noqa: ANN401 - pointer and manifest
        return Publisher(self.storage, DayFolder(OUT, day)).published()


def _named(record: Record) -> tuple[str, int, str]:
    return record.sequence_number, record.sub_sequence_number, record.partition_key


def _row(found: dict[str, Any]) -> Row:
    data = found["data_bytes"] if found["data"] is None else found["data"].encode()
    arrival_ms = round(found["arrival_time"].timestamp() * 1000)
    names = ("shard_id", "sequence_number", "sub_sequence_number", "partition_key")
    shard, number, sub, key = (found[name] for name in names)
    return shard, number, sub, key, arrival_ms, data
