"""A table that is followed under chaos: two followers, parts of the day that are published meanwhile, and a catalog.

Each of the processes is killed at times: a follower in the middle of its work, the second one with it or alone, a
`compact --so-far`, and Iceberg's REST catalog, which comes back with what it had acknowledged. Between them and S3
stands the proxy of the run.

What readers were shown is judged in the end, by a reader that shares no code with the product, from every snapshot
that was ever current: each row is a record of the archive and there once, as many as the commit says, and no later
snapshot lacks it. The last one has the whole archive, byte for byte.
"""

import io
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

from demo.child import Child
from demo.embedded import EmbeddedAws, free_ports
from demo.ledger import fingerprint
from demo.readback import StoredSegment
from minutebook.clock import Clock
from minutebook.errors import MinutebookError
from minutebook.store.s3 import S3Store
from tests.chaos.site import ChaosApplication
from tests.chaos.timeline import Timeline
from tests.integration.rest_catalog import address, catalog_server, is_serving

_NAME: Final = "chaos.records"
_CATALOG: Final = "chaos"
_EVERY: Final = "10s"
_FOLLOWERS: Final = 2
_RESTART_SECONDS: Final = 2.0
_STRIKE_SECONDS: Final = (3.0, 15.0)
_NIGHT_SECONDS: Final = (20.0, 90.0)
_NIGHT_SHARE: Final = 0.05
"""Of the tenths of a second of its life in which a night is killed, when one is to be struck: most come through."""
_CATALOG_SECONDS: Final = (1.0, 20.0)
_PART_MINUTES: Final = (2, 8)
"""How far behind the present a part of the day ends that is published."""
_STOP_SECONDS: Final = 60
_WHOLE_SECONDS: Final = 420
_ONCE_SECONDS: Final = 120
_DEFECTS: Final = frozenset({1, 2, 6})
"""Exit codes that no fault of these is a reason for: a defect, a mistake of the user's, somebody else's archive."""
_KINDS: Final = (*("follower",) * 4, *("night",) * 3, "catalog")

Name = tuple[str, str, int]
"""Shard, sequence number, sub-sequence number."""


Row = tuple[Name, bytes]
"""With the fingerprint of its key and payload."""


class Shown(NamedTuple):
    """What a snapshot shows: rows by the day of their file. `said`: how many its commit says of its `day`."""

    rows: Mapping[str, Sequence[Row]]
    day: str
    said: int

    @property
    def total(self) -> int:
        """How many rows there are."""
        return sum(len(rows) for rows in self.rows.values())


@dataclass(kw_only=True)
class TableFindings:
    """What readers were shown. `wrong`: in words, empty when all is well."""

    snapshots: int
    rows: int
    kills: Mapping[str, int]
    codes: Mapping[str, Sequence[int]]
    """How followers and nights ended by themselves."""
    wrong: Sequence[str] = field(default_factory=list)

    def rows_of_report(self) -> list[str]:
        """Return the lines of the report."""
        counts = {
            "snapshots": self.snapshots,
            "rows in the last one": self.rows,
            "snapshots that are wrong": len(self.wrong),
            **{f"SIGKILLs of a {kind}": count for kind, count in sorted(self.kills.items())},
        }
        rows = ["", "the table against the archive", *(f"  {name:<32} {count:>8}" for name, count in counts.items())]
        rows += [f"  {kind} ended with {dict(Counter(codes))}" for kind, codes in sorted(self.codes.items())]
        return [*rows, *(f"  table: {text}" for text in self.wrong[:10])]


class FollowedTable:
    """The processes around the table. `jars` are those of the REST catalog (`make catalogs`)."""

    def __init__(
        self,
        app: ChaosApplication,
        aws: EmbeddedAws,
        folder: Path,
        clock: Clock,
        timeline: Timeline,
        rng: random.Random,
        jars: Path,
    ) -> None:
        self._app = app
        self._aws = aws
        self._folder = folder / "table"
        self._folder.mkdir()
        self._clock = clock
        self._note = timeline.note
        self._rng = rng
        self._jars = jars
        (self._port,) = free_ports(1)
        self._file = str(app.properties("table"))
        self._followers: list[Child | None] = [None] * _FOLLOWERS
        self._gone_at = [0.0] * _FOLLOWERS
        self._worked = [0] * _FOLLOWERS
        self._night: Child | None = None
        self._catalog: Child | None = None
        self._catalog_due = 0.0
        self._begun = _utc(clock.now_ms())
        self._strike_due = clock.monotonic() + _NIGHT_SECONDS[1]
        self._night_due = clock.monotonic() + 60 * (_PART_MINUTES[0] + 1)
        self.kills: Counter[str] = Counter()
        self.codes: dict[str, list[int]] = {"follower": [], "night": []}

    def begin(self) -> None:
        """Start the catalog."""
        self._catalog = catalog_server(self._jars, self._folder, self._port)
        self._catalog.wait_until(lambda: is_serving(self._port), seconds=60)

    def tick(self) -> None:
        """Start again what is gone, and strike when it is due."""
        now = self._clock.monotonic()
        if self._catalog is None and now >= self._catalog_due:
            self._catalog = catalog_server(self._jars, self._folder, self._port)
        for number, follower in enumerate(self._followers):
            if follower is not None and (code := follower.returncode()) is not None:
                self.codes["follower"].append(code)
                self._note("follower_ended", number=number, code=code)
                self._followers[number], self._gone_at[number] = None, now
            if self._followers[number] is None and now - self._gone_at[number] >= _RESTART_SECONDS:
                self._followers[number] = self._start("follow", f"follow-{number}", "--every", _EVERY)
        if self._night is not None and (code := self._night.returncode()) is not None:
            self.codes["night"].append(code)
            self._note("night_ended", code=code)
            self._night, self._night_due = None, now + self._rng.uniform(*_NIGHT_SECONDS)
        if self._night is None and now >= self._night_due:
            self._night = self._compact()
        if now >= self._strike_due and self._strike(self._rng.choice(_KINDS)):
            self._strike_due = now + self._rng.uniform(*_STRIKE_SECONDS)

    def _strike(self, kind: str) -> bool:
        """Kill something; tell whether it was there to be killed."""
        now = self._clock.monotonic()
        if kind == "follower":
            # In the middle of its work, of which there is a second in ten.
            working = [number for number in range(_FOLLOWERS) if self._works(number)]
            for number in working if self._rng.random() < 0.5 else working[:1]:
                follower = self._followers[number]
                assert follower is not None
                follower.kill()
                self._followers[number], self._gone_at[number] = None, now
                self._killed(kind)
            return bool(working)
        if kind == "night":
            if self._night is None or self._rng.random() > _NIGHT_SHARE:
                return False
            self._night.kill()
            self._night, self._night_due = None, now + self._rng.uniform(*_NIGHT_SECONDS)
        elif self._catalog is None or self._rng.random() > _NIGHT_SHARE:
            return False
        else:
            self._catalog.kill()
            self._catalog, self._catalog_due = None, now + self._rng.uniform(*_CATALOG_SECONDS)
        self._killed(kind)
        return True

    def _killed(self, kind: str) -> None:
        self.kills[kind] += 1
        self._note(f"kill_{kind}")

    def _works(self, number: int) -> bool:
        """Tell whether a follower has used the processor since the last look, and did before it."""
        follower = self._followers[number]
        if follower is None or follower.returncode() is not None:
            return False
        fields = Path(f"/proc/{follower.pid}/stat").read_text().rpartition(")")[2].split()
        ticks, before = int(fields[11]) + int(fields[12]), self._worked[number]
        self._worked[number] = ticks
        return 0 < ticks - before < ticks / 2

    def _compact(self) -> Child:
        minutes = self._rng.randint(*_PART_MINUTES)
        until = max(_utc(self._clock.now_ms()) - timedelta(minutes=minutes), self._begun + timedelta(minutes=2))
        options = ("--date", f"{until:%Y-%m-%d}", "--so-far", f"{until:%Y-%m-%dT%H:%M}Z")
        return self._start("compact", "night", *options)

    def _start(self, command: str, log: str, *options: str) -> Child:
        prefix = f"PYICEBERG_CATALOG__{_CATALOG.upper()}__"
        environment = {
            **self._app.environment(),
            f"{prefix}TYPE": "rest",
            f"{prefix}URI": address(self._port),
            f"{prefix}S3__ENDPOINT": self._aws.s3_endpoint,
        }
        program = str(Path(sys.executable).with_name("minutebook"))
        words = [program, command, self._file, "--iceberg", _NAME, "--iceberg-catalog", _CATALOG, *options]
        return Child(command, words, log=self._folder / f"{log}.log", clock=self._clock, environment=environment)

    def end(self) -> None:
        """SIGKILL what is left."""
        for child in (*self._followers, self._night, self._catalog):
            if child is not None:
                child.kill()

    def finish(self, segments: Sequence[StoredSegment]) -> TableFindings:
        """Stop the followers in order, let the table become whole, publish the day so far, and judge."""
        if self._catalog is None:
            self._catalog = catalog_server(self._jars, self._folder, self._port)
        self._catalog.wait_until(lambda: is_serving(self._port), seconds=60)
        if self._night is not None:
            self.codes["night"].append(self._wait(self._night, _ONCE_SECONDS))
        stopped = [each.stop(grace_seconds=_STOP_SECONDS) for each in self._followers if each is not None]
        wrong = [f"a follower ended with {code} after SIGTERM" for code in stopped if code]
        wrong += [
            f"a {kind} ended with {code}" for kind, codes in self.codes.items() for code in codes if code in _DEFECTS
        ]
        self._followers = [None] * _FOLLOWERS
        records = {
            (record.ref.shard_id, str(record.ref.position.sequence), record.ref.position.sub): record.digest
            for segment in segments
            for record in segment.records
        }
        deadline = self._clock.monotonic() + _WHOLE_SECONDS
        while self._rows() < len(records) and self._clock.monotonic() < deadline:
            code = self._wait(self._start("follow", "once", "--once"), _ONCE_SECONDS)
            self._note("followed_once", code=code)
            self._clock.sleep(2)
        code = self._wait(self._compact(), _ONCE_SECONDS)
        self._note("night_ended", code=code)
        with load_catalog(_CATALOG, type="rest", uri=address(self._port)) as catalog:
            table = catalog.load_table(_NAME)
            wrong += judge(SnapshotReader(self._app.store, table).read(), records)
            snapshots = len(table.metadata.snapshot_log)
        return TableFindings(snapshots=snapshots, rows=self._rows(), kills=self.kills, codes=self.codes, wrong=wrong)

    def _wait(self, child: Child, seconds: float) -> int:
        deadline = self._clock.monotonic() + seconds
        while (code := child.returncode()) is None:
            if self._clock.monotonic() > deadline:
                child.kill()
                raise MinutebookError(f"{child.name} ran for {seconds:g} s", next_step=f"read {child.log}")
            self._clock.sleep(0.1)
        return code

    def _rows(self) -> int:
        """Count the rows that the table shows now."""
        with load_catalog(_CATALOG, type="rest", uri=address(self._port)) as catalog:
            if not catalog.table_exists(_NAME):
                return 0
            return sum(each.total for each in SnapshotReader(self._app.store, catalog.load_table(_NAME)).read(last=1))


def judge(shown: Iterable[Shown], records: Mapping[Name, bytes]) -> list[str]:
    """Return in words what is wrong with what snapshots showed, one after the other; `records`: of the archive."""
    wrong: list[str] = []
    before: set[Name] = set()
    for number, each in enumerate(shown, 1):
        rows = {name: digest for rows in each.rows.values() for name, digest in rows}
        if len(rows) < each.total:
            wrong.append(f"snapshot {number} shows {each.total - len(rows)} rows twice")
        if gone := before - rows.keys():
            wrong.append(f"snapshot {number} lacks {len(gone)} rows of the one before it, {min(gone)}")
        if strangers := [name for name, digest in rows.items() if records.get(name) != digest]:
            wrong.append(f"snapshot {number} shows {len(strangers)} rows that no segment has, {min(strangers)}")
        if each.said != len(each.rows.get(each.day, ())):
            wrong.append(f"snapshot {number} says {each.said} rows of {each.day}: {len(each.rows.get(each.day, ()))}")
        before = set(rows)
    if missing := records.keys() - before:
        wrong.append(f"the last snapshot lacks {len(missing)} records, {min(missing)}")
    return wrong


class SnapshotReader:
    """Reads what snapshots show, past the product and the proxies; each file once."""

    def __init__(self, store: S3Store, table: Table) -> None:
        self._store = store
        self._table = table
        self._paths: dict[str, list[str]] = {}
        self._rows: dict[str, list[Row]] = {}

    def read(self, *, last: int = 0) -> Iterator[Shown]:
        """Yield the snapshots that were ever current, in order; `last`: the last so many."""
        for entry in self._table.metadata.snapshot_log[-last:]:
            yield self._shown(entry.snapshot_id)

    def _shown(self, number: int) -> Shown:
        snapshot = self._table.snapshot_by_id(number)
        assert snapshot is not None
        assert snapshot.summary is not None
        rows: dict[str, list[Row]] = {}
        for manifest in snapshot.manifests(self._table.io):
            for path in self._paths_of(manifest):
                rows.setdefault(path.partition("/dt=")[2].partition("/")[0], []).extend(self._rows_of(path))
        said = int(str(snapshot.summary["minutebook.rows"]))
        return Shown(rows, str(snapshot.summary["minutebook.day"]), said)

    def _paths_of(self, manifest: ManifestFile) -> list[str]:
        if manifest.manifest_path not in self._paths:
            entries = manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
            self._paths[manifest.manifest_path] = [entry.data_file.file_path for entry in entries]
        return self._paths[manifest.manifest_path]

    def _rows_of(self, path: str) -> list[Row]:
        if path not in self._rows:
            stored = self._store.get(path.partition("://")[2].partition("/")[2])
            assert stored is not None, f"{path} is gone, and a snapshot names it"
            self._rows[path] = [
                (
                    (row["shard_id"], row["sequence_number"], row["sub_sequence_number"]),
                    fingerprint(row["partition_key"], _payload(row["data"], row["data_bytes"])),
                )
                for row in pq.read_table(io.BytesIO(stored.body)).to_pylist()
            ]
        return self._rows[path]


def _utc(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC)


def _payload(text: str | None, raw: bytes | None) -> bytes:
    return raw or b"" if text is None else text.encode()
