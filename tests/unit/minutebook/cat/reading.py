"""An archive in a folder, and `cat` of it in this process."""

import io
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from consumer.stream.port import StreamIdentity
from minutebook.cat.command import print_records
from minutebook.cat.following import Pace
from minutebook.cat.output import open_output
from minutebook.cat.request import CatRequest
from minutebook.compression import Compression
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS
from minutebook.format.record import Record
from minutebook.owner import StreamOwner, read_owned
from minutebook.retry import Backoff
from minutebook.segments.merging import Problems
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.objects import ListedObject, StoredObject
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, Storage
from tests.fakes.archive_scene import PREFIX, ArchiveScene
from tests.fakes.clock import ManualClock

DAY = Day.parse("2026-11-20")
NOON = DAY.first_minute + 720
S0, S1 = "shardId-000000000000", "shardId-000000000001"
ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/corpus"


class CountingStorage(DirectoryStorage):
    """A folder that counts the requests, by verb."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: Counter[str] = Counter()
        self.listed: list[str] = []

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """Count a LIST."""
        self.asked["LIST"] += 1
        self.listed.append(prefix)
        return super().list_objects(prefix)

    def get(self, key: str) -> StoredObject | None:
        """Count a GET."""
        self.asked["GET"] += 1
        return super().get(key)


class Screen(io.BytesIO):
    """A terminal, or a pipe."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Tell whether it is a terminal."""
        return self._is_terminal


class Site:
    """The archive; each `cat` returns what was printed, and keeps what was told and the exit code."""

    def __init__(self, folder: Path, compression: Compression = Compression.GZIP) -> None:
        self.store = CountingStorage(folder)
        self.scene = ArchiveScene(self.store, compression=compression)
        self.scene.settle(StreamIdentity(ARN, 1, 86_400_000))
        self.told: list[str] = []
        self.code = 0
        self.shown = 0
        clock = ManualClock()
        self.storage = RetryingStorage(
            cast("Storage", self.store), lambda: Backoff(clock, random.Random(1), budget_seconds=5)
        )

    def cat(
        self,
        minutes: tuple[float, float] = (NOON, NOON + 10),
        *,
        screen: Screen | None = None,
        owner: StreamOwner | None = None,
        pace: Pace | None = None,
        **asked: object,
    ) -> str:
        """Print what arrived in these minutes; returns the text."""
        begin, end = (int(minute * MINUTE_MS) for minute in minutes)
        request = CatRequest(begin, end)._replace(**asked)  # type: ignore[arg-type]  # of the request
        stdout, self.told = screen or Screen(), []
        problems = Problems(self.told.append)
        output = open_output(request, stdout)
        place, owner = StorePrefix(Address(None), PREFIX), owner or StreamOwner("corpus", "us-east-1")
        self.shown = print_records(
            self.storage, place, partial(read_owned, self.storage, PREFIX, owner), request, output, problems, pace
        )
        self.code = problems.conclude()
        return stdout.getvalue().decode(errors="surrogateescape")

    def path(self, key: str) -> Path:
        """Return where an object lies."""
        return self.store.root / key


def records(minute: float, first: int, payloads: Sequence[str | bytes], key: str = "p") -> list[Record]:
    """Return records one second apart, whose positions follow each other."""
    return [
        Record(str(first + n), 0, key, int(minute * MINUTE_MS) + n * 1000, p.encode() if isinstance(p, str) else p)
        for n, p in enumerate(payloads)
    ]
