"""The nightly job at the end of the demo: `minutebook compact` and `minutebook audit`, as an operator types them."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from demo.front_door import run_minutebook
from demo.readback import StoredSegment
from demo.stage import Stage
from demo.table import OPTIONS, TableRows
from demo.tamper import Tampered, audit_command, tamper
from minutebook.errors import MinutebookError
from minutebook.format.minute import MINUTE_MS, iso_time, minute_text

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_MASTER = "local[2]"
_JOB_SECONDS = 600
_PROVEN_AFTER_MS = 70_000
"""What arrived up to a minute ago may still be stamped by another of Kinesis' hosts: nothing proves it yet."""


@dataclass(frozen=True, kw_only=True)
class Nightly:
    """What the job left: exit codes (0 clean, 3 defects, 4 unproven), reports, Parquet, and rows per shard."""

    compact_code: int
    audit_code: int
    reports: list[Path] = field(default_factory=list)
    parquet: Path
    rows: dict[str, int] = field(default_factory=dict)
    table: TableRows | None = None
    """What the table holds afterwards; None: pyiceberg is not installed."""

    @property
    def is_clean(self) -> bool:
        """Tell whether both commands did."""
        return (self.compact_code, self.audit_code) == (0, 0)

    def holds(self, lines: Mapping[str, int]) -> bool:
        """Return whether Parquet, and the table if there is one, have as many rows of each shard as were archived."""
        rows = [self.rows] if self.table is None else [self.rows, self.table.by_shard]
        return all(dict(each) == dict(lines) for each in rows)


def is_installed() -> bool:
    """Tell whether the extra `spark` is."""
    return all(importlib.util.find_spec(name) is not None for name in ("pyspark", "pyarrow"))


def run_nightly(
    console: Console,
    stage: Stage,
    segments: list[StoredSegment],
) -> Nightly:
    """Compact and audit the days of these segments into folders of the run; the table is taken over.

    The days are those so far: nobody can know yet what else arrives today. So the last minute is waited for, and one
    more: what arrived a moment ago is not proven yet.

    Raises:
        MinutebookError: a command did not come to a verdict.
    """
    clock, properties, environment = stage.clock, stage.properties("a"), stage.environment
    span = days_so_far(segments)
    end_ms = _end_ms(segments)
    console.print(
        f"the day is not over: compacted and audited is what arrived before {iso_time(end_ms)}, all that was sent",
        highlight=False,
        soft_wrap=True,
    )
    clock.sleep(max(0, end_ms + _PROVEN_AFTER_MS - clock.now_ms()) / 1000)
    reports, table = stage.folder / "report", () if stage.follower is None else OPTIONS
    # The comparison with the stream comes first: what it proves of a day that is not over, the compaction builds on.
    commands = (
        ["audit", str(properties), *span, "--level", "stream", "--report", str(reports)],
        ["compact", str(properties), *span, "--out", str(stage.parquet), *table],
    )
    codes = []
    for words in commands:
        console.print(f"[dim]$[/] minutebook {' '.join(words)}", highlight=False, soft_wrap=True)
        begun = clock.monotonic()
        codes.append(_minutebook(console, words, environment))
        console.print(f"[dim]exit {codes[-1]} after {clock.monotonic() - begun:.0f} s[/]", highlight=False)
    stage.stop_follow()
    return Nightly(
        compact_code=codes[1],
        audit_code=codes[0],
        reports=sorted(reports.glob("*.html")),
        parquet=stage.parquet,
        rows=count_rows(stage.parquet),
        table=stage.read_table(),
    )


def tamper_with(
    client: "S3Client",
    place: tuple[str, str],
    properties: Path,
    segments: list[StoredSegment],
    environment: Mapping[str, str],
) -> list[Tampered]:
    """Break copies of the archive at `place` (bucket, prefix), one after the other, and audit each."""
    options = [*days_so_far(segments), "--level", "stream"]
    return tamper(client, *place, segments, audit_command(properties, options, environment))


def count_rows(parquet: Path) -> dict[str, int]:
    """Return the rows of each shard in all published files: one query on the Parquet."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - an extra, and heavy

    files = sorted(str(path) for path in parquet.glob("dt=*/_gen-*/*.parquet"))
    if not files:
        return {}
    table = ds.dataset(files, format="parquet").to_table(columns=["shard_id"])
    found = table.group_by("shard_id").aggregate([([], "count_all")]).to_pylist()
    return {row["shard_id"]: row["count_all"] for row in sorted(found, key=lambda row: str(row["shard_id"]))}


def days_so_far(segments: list[StoredSegment]) -> list[str]:
    """Return the options that name the days of these segments, up to the end of the last minute of them."""
    days = sorted({minute_text(segment.metadata.minute)[:10] for segment in segments})
    return ["--from", days[0], "--to", days[-1], "--so-far", iso_time(_end_ms(segments)), "--master", _MASTER]


def _end_ms(segments: list[StoredSegment]) -> int:
    return (max(segment.metadata.minute for segment in segments) + 1) * MINUTE_MS


def _minutebook(console: Console, words: list[str], environment: Mapping[str, str]) -> int:
    """Run a command of the front door, as wide as our console; its verdict is its exit code."""
    width = {"COLUMNS": str(console.width)} if console.is_terminal else {}
    done = run_minutebook(words, {**environment, **width}, _JOB_SECONDS)
    console.print(done.stdout.rstrip(), markup=False, highlight=False, soft_wrap=True)
    if done.returncode not in {0, 3, 4}:
        raise MinutebookError(f"minutebook {words[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.returncode
