"""KCL's start is chosen before each start of the daemon, from the lease rows as they are then."""

from pathlib import Path

import pytest

from consumer.archived.application import KclStart
from consumer.daemon.properties import write_effective
from consumer.daemon.start import StartChooser
from consumer.leases.rows import Checkpoint, Lease
from minutebook.errors import SettingsError, StreamUnavailable, TableUnavailable
from minutebook.format.document import FORMAT
from minutebook.format.markers import ApplicationRecord
from tests.fakes.clock import ManualClock
from tests.fakes.lease_table import MemoryLeaseTable
from tests.fakes.shard import SHARD
from tests.fakes.stream import ARN, DAY_MS, FakeStream


class Scene:
    """A daemon's file, and what its content follows from. The stored start is an hour younger than the retention."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.stream = FakeStream(created_ms=self.clock.now_ms() - 30 * DAY_MS)
        self.table = MemoryLeaseTable()
        self.path = folder / "daemon.properties"
        self.start_ms = self.clock.now_ms() - DAY_MS + 3_600_000
        record = ApplicationRecord(
            format=FORMAT,
            stream_arn=ARN,
            stream_created_ms=self.stream.created_ms,
            application="app",
            start="oldest",
            start_at_ms=self.start_ms,
            writer="w",
            written_at_ms=0,
        )
        self.chooser = StartChooser(record, self.stream, self.table, self._write, self.clock)

    def row(self, checkpoint: Checkpoint) -> None:
        """Leave a lease row of the only shard."""
        self.table.create()
        self.table.seed(Lease(SHARD, checkpoint))

    def prepare(self) -> str:
        """Prepare a start; return the file."""
        self.chooser.prepare()
        return self.path.read_text().strip()

    def _write(self, start: KclStart) -> None:
        write_effective(self.path, {"start": str(start.at_seconds)})


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return a scene."""
    return Scene(tmp_path)


def test_a_later_start_of_the_daemon_looks_again(scene: Scene) -> None:
    """The time runs out of retention while a daemon runs and a shard stays without a record."""
    stored = f"start={scene.start_ms // 1000}"
    assert scene.prepare() == stored
    scene.row("AT_TIMESTAMP")
    scene.clock.advance(7200)
    assert scene.prepare() == stored
    scene.row("TRIM_HORIZON")
    assert scene.prepare() == "start=None"


def test_an_old_start_on_an_empty_table_is_the_trim_horizon(scene: Scene) -> None:
    """Also where there is no table at all."""
    scene.clock.advance(7200)
    assert scene.prepare() == "start=None"
    scene.table.create()
    assert scene.prepare() == "start=None"


def test_a_table_that_nobody_has_to_read_is_not_read(scene: Scene) -> None:
    """While the stored time is held, the rows decide nothing."""
    scene.table.unavailable = True
    assert scene.prepare() == f"start={scene.start_ms // 1000}"


def test_what_cannot_be_known_is_not_guessed(scene: Scene) -> None:
    """A guess might leave a shard without a reader."""
    scene.clock.advance(7200)
    scene.table.unavailable = True
    with pytest.raises(TableUnavailable):
        scene.prepare()
    scene.stream.unavailable = True
    with pytest.raises(StreamUnavailable):
        scene.prepare()


def test_a_folder_that_takes_no_file_is_named(scene: Scene) -> None:
    """A full disk, a folder that was removed: one sentence, no traceback."""
    scene.path.parent.rmdir()
    with pytest.raises(SettingsError, match=r"daemon\.properties.*No such file"):
        scene.prepare()
