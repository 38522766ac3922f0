"""What the commands are asked, as one value each: checked before any I/O."""

from pathlib import Path
from typing import NamedTuple

from archive.errors import SettingsError
from compaction.day import Day, day_range
from compaction.neighbours import LOOKBACK_DAYS
from compaction.result import Level


class AuditRequest(NamedTuple):
    """`minutebook audit`: one day (`date`) or a range (`first`, `last`), all as text."""

    file: Path
    date: str | None = None
    first: str | None = None
    last: str | None = None
    level: str = "keys"
    shard: str | None = None
    lookback_days: int = LOOKBACK_DAYS
    report: Path | None = None
    as_json: bool = False
    master: str = "local[*]"

    def days(self) -> list[Day]:
        """Return the days; raises SettingsError."""
        return days_of(self.date, self.first, self.last)

    def checked_level(self) -> Level:
        """Return the level; raises SettingsError."""
        levels: dict[str, Level] = {"inventory": "inventory", "keys": "keys", "stream": "stream"}
        if self.level not in levels:
            raise SettingsError(f"no level {self.level!r}", next_step=f"--level takes {', '.join(levels)}")
        return levels[self.level]


class CompactRequest(NamedTuple):
    """`minutebook compact`; `out` None: `_parquet/` beside the archive."""

    file: Path
    date: str | None = None
    first: str | None = None
    last: str | None = None
    out: str | None = None
    report: Path | None = None
    lookback_days: int = LOOKBACK_DAYS
    dry_run: bool = False
    accept_defects: bool = False
    as_json: bool = False
    master: str = "local[*]"

    def days(self) -> list[Day]:
        """Return the days; raises SettingsError."""
        return days_of(self.date, self.first, self.last)


def days_of(date: str | None, first: str | None, last: str | None) -> list[Day]:
    """Return the one day, or the days of the range.

    Raises:
        SettingsError: none is given, or both.
    """
    if date is not None and first is None and last is None:
        return [Day.parse(date)]
    if date is None and first is not None and last is not None:
        return list(day_range(Day.parse(first), Day.parse(last)))
    raise SettingsError("which day?", next_step="give --date D, or --from D and --to D")
