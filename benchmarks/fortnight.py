"""Fourteen days of `minutebook follow` and their nights: 20,160 real commits, and what they leave in the catalog.

Each minute each shard of an archive in a folder gets a segment of two or three records, and the follower does a tick;
each night the day before is compacted, audited and taken over. Time is made up, and pyiceberg's clock with it, so
that snapshots grow old and expire; commits, metadata and manifests are real, in a SQLite catalog. At the end the
table's folders are vacuumed as if they were old.

    python -m benchmarks fortnight [--days 14] [--shards 4] [--every 1] [--hours 24] [--commits 1440]

With `--every`, a shard gets its segment each so many minutes, and each minute some shards get theirs. With `--hours`,
the table says that its snapshots are kept so long. `--commits` ends it, without another night. A night looks at two
days; what lies before them stays on disk, and is forgotten.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from benchmarks.figures import Column, publish
from compaction.commands.follow import collect_rarely
from compaction.commands.vacuum.command import vacuum_table
from compaction.follow.follower import Follower
from compaction.tables.commit import TableCommit, TableCommitter
from compaction.tables.orphans import TableFolders
from compaction.tables.table import IcebergTable
from minutebook.format.day import MINUTES_A_DAY
from minutebook.format.minute import MINUTE_MS
from tests.follows.house import Between, follow_ports
from tests.integration.lake import Lake, local_lake
from tests.lives.night import Site
from tests.lives.world import FIRST_DAY, HOUR, World

_NIGHT_MINUTE: Final = 180
"""At three o'clock."""
_FIRST: Final = 200
_AROUND: Final = 100
_COLUMNS: Final = (
    Column("commits", "commits", ","),
    Column("CPU ms a commit, median of the last hundred", "commit", ",.0f"),
    Column("CPU ms a tick", "tick", ",.0f"),
    Column("snapshots", "snapshots", ","),
    Column("metadata.json, KB", "metadata", ",.0f"),
    Column("the largest of the day, KB", "largest", ",.0f"),
    Column("manifests", "manifests", ","),
    Column("files", "files", ","),
)


def _timed(seconds: list[float]) -> Callable[..., TableCommit | None]:
    """Return `TableCommitter.commit` that notes the CPU seconds of each call that committed."""
    commit = TableCommitter.commit

    def timed(committer: TableCommitter, *args: Any) -> TableCommit | None:  # noqa: ANN401 - as `commit`
        begin = time.process_time()
        done = commit(committer, *args)
        if done is not None and done.state == "committed":
            seconds.append(time.process_time() - begin)
        return done

    return timed


class _WorldTime:
    """pyiceberg's `time`, as the world has it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def time(self) -> float:
        """Return the seconds of the epoch."""
        return self._world.clock.now_ms() / 1000


class _Site(Site):
    """Leaves files with the machine's time: a file of this size is told from others by it."""

    def stamp_files(self) -> None:
        """Do nothing."""


def run(folder: Path, days: int, shards: int, every: int, hours: int, most: int) -> list[dict[str, Any]]:
    """Let the days pass, and vacuum; return what was seen each day."""
    lake = local_lake(folder)
    world = World(folder / "raw", 7, begin_ms=FIRST_DAY.begin_ms, shards=shards)
    for number in range(days + 1):
        world.plan_day(FIRST_DAY.shift(number))
    site = _Site(folder / "days", world)
    rows: list[dict[str, Any]] = []
    commits, ticks = list[float](), list[float]()
    with (
        patch("pyiceberg.table.snapshots.time", _WorldTime(world)),
        patch.object(TableCommitter, "commit", _timed(commits)),
        lake.catalog() as catalog,
    ):
        site.table = table = IcebergTable(catalog, lake.name, clock=world.clock)
        follower = Follower(follow_ports(site, table, Between()))
        table.look(FIRST_DAY)
        table.set_properties({"history.expire.max-snapshot-age-ms": str(hours * HOUR)})
        collect_rarely()
        for minute in range(1, days * MINUTES_A_DAY + _NIGHT_MINUTE + 2):
            for name in sorted(world.readings)[minute % every :: every]:
                world.arrive(name, FIRST_DAY.first_minute + minute)
            world.live_until(FIRST_DAY.begin_ms + (minute + 1) * MINUTE_MS + 8_000)
            begin = time.process_time()
            tick = follower.tick()
            ticks.append(time.process_time() - begin)
            if tick.exit_code:
                raise RuntimeError(f"minute {minute}: exit code {tick.exit_code}")
            if minute > MINUTES_A_DAY and minute % MINUTES_A_DAY == _NIGHT_MINUTE:
                site.night(2)
                world.forget(FIRST_DAY.shift(minute // MINUTES_A_DAY - 2))
            is_first, is_last = not rows and len(commits) >= _FIRST, len(commits) >= most
            if is_first or is_last or (rows and minute % MINUTES_A_DAY == _NIGHT_MINUTE + 1):
                rows.append(_seen(lake, commits, ticks))
                sys.stderr.write(f"{rows[-1]}\n")
            if is_last:
                break
    begin = time.process_time()
    with lake.catalog() as catalog:
        done = vacuum_table(TableFolders(catalog, lake.name), world.clock.now_ms() + 1_000, apply=True)
    if done.reason:
        raise RuntimeError(done)
    seconds = time.process_time() - begin
    sys.stdout.write(f"vacuum deleted {done.objects:,} files in {seconds:.1f} CPU s\n")
    sys.stdout.flush()  # to delete what was made may take longer than all of it
    return rows


def _seen(lake: Lake, commits: Sequence[float], ticks: Sequence[float]) -> dict[str, Any]:
    def look(table: Any) -> Mapping[str, Any]:  # noqa: ANN401 - pyiceberg's
        snapshot = table.current_snapshot()
        newest = Path(table.metadata_location.removeprefix("file://"))
        kept = sorted(newest.parent.glob("*.metadata.json"))[-MINUTES_A_DAY:]
        return {
            "snapshots": len(table.metadata.snapshots),
            "metadata": newest.stat().st_size / 1000,
            "largest": max(file.stat().st_size for file in kept) / 1000,
            "manifests": len(snapshot.manifests(table.io)),
            "files": int(snapshot.summary["total-data-files"]),
        }

    return {
        "commits": len(commits),
        "commit": 1000 * statistics.median(commits[-_AROUND:]),
        "tick": 1000 * statistics.median(ticks[-_AROUND:]),
        **lake.table(look),
    }


def main(arguments: list[str]) -> int:
    """Print a table. Raises RuntimeError if a tick or the vacuum ends with an error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fortnight", description=__doc__)
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--every", type=int, default=1, help="minutes from one segment of a shard to the next")
    parser.add_argument("--hours", type=int, default=24, help="how long snapshots are kept")
    parser.add_argument("--commits", type=int, default=1_000_000, help="end after so many")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="minutebook-fortnight-") as folder:
        rows = run(Path(folder), options.days, options.shards, options.every, options.hours, options.commits)
    publish(
        f"{options.days} days of {options.shards} shards, a segment each {options.every} min, followed",
        _COLUMNS,
        rows,
        rows,
        options.json,
    )
    grown = rows[-1]["commit"] / rows[0]["commit"]
    sys.stdout.write(f"the last commits take {grown:.2f} times the first ones\n")
    return 0
