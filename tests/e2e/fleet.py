"""A fleet under test: some streams of one folder, each with an application, a bucket and a ledger of its own."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.harness import Application
from tests.e2e.worker import Worker

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

_BIN = Path(sys.executable).parent
_AGAIN = """
import sys
from consumer.fleet.stream import FleetStream
from minutebook.cli import main

FleetStream.__init__.__kwdefaults__["again_seconds"] = float(sys.argv.pop(1))
main()
"""


class FleetSite:
    """Streams by the stem of their file; `shards` is how many each begins with, so that their ids are equal."""

    def __init__(
        self, aws: "EmbeddedAws", folder: Path, names: tuple[str, ...], *, shards: int = 1, **ours: object
    ) -> None:
        self.folder = folder
        self.streams_folder = folder / "streams"
        self.streams_folder.mkdir()
        self.apps: dict[str, Application] = {}
        for name in names:
            own = folder / name
            own.mkdir()
            self.apps[name] = Application(aws, own, shards=shards, **ours)

    def write(self, worker_id: str = "w1", **kcl: str | None) -> Path:
        """Write the file of each stream; return the folder."""
        for name, app in self.apps.items():
            written = app.properties(worker_id, kcl=kcl)
            (self.streams_folder / f"{name}.properties").write_text(written.read_text())
        return self.streams_folder

    def seed(self, worker_id: str = "w1") -> None:
        """Make the lease tables, each shard with this owner: a start then takes seconds."""
        for app in self.apps.values():
            app.seed_leases(dict.fromkeys(app.open_shards(), worker_id))

    def consume(
        self,
        worker_id: str = "w1",
        *,
        environment: Mapping[str, str] | None = None,
        again_seconds: float | None = None,
    ) -> Worker:
        """Start `minutebook consume DIR` on what `write` has written.

        `again_seconds`: how soon a stream that gave up is tried again.
        """
        first = next(iter(self.apps.values()))
        variables = first.environment({"TMPDIR": str(self.folder), **(environment or {})})
        state = str(self.folder / f"state-{worker_id}")
        program = [str(_BIN / "minutebook")]
        if again_seconds is not None:
            program = [sys.executable, "-c", _AGAIN, str(again_seconds)]
        command = [*program, "consume", str(self.streams_folder), "--state-dir", state]
        return Worker(command, variables, self.folder / f"{worker_id}.log")
