"""What the commands are asked, as one value each: checked before any I/O."""

import re
from pathlib import Path
from typing import Final, NamedTuple

import jmespath

from archive.errors import SettingsError
from archive.format.day import Day, Hour, day_of_ms, day_range, hour_of_ms, parse_day
from archive.format.payload import PayloadPath
from archive.published.schema import SCHEMA
from compaction.inventory.neighbours import LOOKBACK_DAYS
from compaction.job.context import MAX_REPEATS
from compaction.job.scope import SETTLED_MS
from compaction.job.settings import JobSettings
from compaction.stream.pace import SHARE
from compaction.tasks.parquet import ZSTD_LEVEL
from compaction.typed.columns import Columns
from compaction.typed.event_time import WINDOW_DAYS, with_event_time
from compaction.typed.files.columns_file import read_columns
from compaction.verdict.audit_document import AuditLevel
from compaction.verdict.exit_code import FAIL_ON, FailOn

PARALLEL_DAYS: Final = 2
"""How many days of a range are worked on at once: while one is judged in the driver, Spark reads another."""
LAST: Final = "last"
"""As an hour: the last one that is settled, of whatever day."""
_OF_THE_NIGHT: Final = {
    "--drop-producer-duplicates": "give it to the night: copies are found over the whole day; an hour with "
    "--event-id keeps its ids for it, and holds all records",
    "--iceberg": "give it to the night: it takes the hour over into the day; minutebook.reader reads it now "
    "(intraday=True)",
}
"""What to do instead, of options that people add to an hour as they have them at night."""
_TABLE: Final = re.compile(r"[^\s./]+(\.[^\s./]+)+")


class AuditRequest(NamedTuple):
    """`minutebook audit`: one day (`date`) or a range (`first`, `last`), all as text."""

    file: Path | str | None
    date: str | None = None
    first: str | None = None
    last: str | None = None
    level: str = "keys"
    shard: str | None = None
    lookback_days: int = LOOKBACK_DAYS
    report: Path | str | None = None
    as_json: bool = False
    master: str = "local[*]"
    event_id: str | None = None
    published: str | None = None
    so_far: str | None = None
    parallel_days: int = PARALLEL_DAYS
    stream_budget: float | None = None
    sample: int | None = None
    fail_on: str = "unknown"

    @property
    def is_range(self) -> bool:
        """Tell whether days are asked for, not one: they go on past each other."""
        return self.date is None

    def checked_budget(self) -> float:
        """Return the share of each shard's reads that level stream may take; raises SettingsError."""
        if self.stream_budget is None:
            return SHARE
        self._check_is_of_stream("--stream-budget")
        if not 0 < self.stream_budget <= 1:
            raise SettingsError(
                f"--stream-budget {self.stream_budget:g} is not a share",
                next_step=f"write what of a shard's reads may be taken, from above 0 to 1, as in {SHARE}",
            )
        return self.stream_budget

    def checked_sample(self) -> int | None:
        """Return the minutes of each shard that are compared with the stream; raises SettingsError."""
        if self.sample is not None:
            self._check_is_of_stream("--sample")
        return self.sample

    def _check_is_of_stream(self, option: str) -> None:
        if self.level != "stream":
            raise SettingsError(f"{option} is about reading the stream", next_step="use it with --level stream")

    def days(self, today: Day) -> list[Day]:
        """Return the days; raises SettingsError."""
        return days_of(today, date=self.date, first=self.first, last=self.last)

    def checked_level(self) -> AuditLevel:
        """Return the level; raises SettingsError."""
        levels: dict[str, AuditLevel] = {"inventory": "inventory", "keys": "keys", "stream": "stream"}
        if self.level not in levels:
            raise SettingsError(f"{self.level!r} is not a level", next_step=f"--level takes {', '.join(levels)}")
        if self.event_id is not None and self.level == "inventory":
            raise SettingsError(
                "--event-id needs the lines, and level inventory reads names and metadata alone",
                next_step="use --level keys or stream with it",
            )
        return levels[self.level]

    def checked_event_id(self) -> str | None:
        """Return the path of the event id; raises SettingsError."""
        return checked_path(self.event_id)


class CompactRequest(NamedTuple):
    """`minutebook compact`; `out` None: `_parquet/` beside the archive."""

    file: Path | str | None
    date: str | None = None
    first: str | None = None
    last: str | None = None
    out: str | None = None
    report: Path | str | None = None
    lookback_days: int = LOOKBACK_DAYS
    dry_run: bool = False
    accept_defects: bool = False
    as_json: bool = False
    master: str = "local[*]"
    event_id: str | None = None
    drop_producer_duplicates: bool = False
    iceberg: str | None = None
    iceberg_catalog: str | None = None
    so_far: str | None = None
    recheck: int | None = None
    max_repeats: float = MAX_REPEATS
    zstd_level: int = ZSTD_LEVEL
    columns: Path | None = None
    hour: str | None = None
    event_time: str | None = None
    event_window: int | None = None
    parallel_days: int = PARALLEL_DAYS
    fail_on: str = "unknown"

    @property
    def is_range(self) -> bool:
        """Tell whether days are asked for, or may be, not one: they go on past each other."""
        return (self.date is None and self.hour is None) or self.recheck is not None

    def checked_budget(self) -> float:
        """Return the share of each shard's reads that may be taken: none are."""
        return SHARE

    def days(self, today: Day) -> list[Day]:
        """Return the days; raises SettingsError."""
        return days_of(today, date=self.date, first=self.first, last=self.last)

    def asked_hour(self, now_ms: int) -> Hour | None:
        """Return the hour that is asked for, `last` being the last one that is settled; raises SettingsError."""
        if self.hour is None:
            return None
        options = {
            "--from and --to": self.first is not None or self.last is not None,
            "--recheck": self.recheck is not None,
            "--drop-producer-duplicates": self.drop_producer_duplicates,
            "--iceberg": self.iceberg is not None,
            "--so-far": self.so_far is not None,
            "--report": self.report is not None,
            "--dry-run": self.dry_run,
        }
        if of_days := [option for option, is_given in options.items() if is_given]:
            raise SettingsError(
                f"--hour is one hour of one day, and {of_days[0]} is about days",
                next_step=_OF_THE_NIGHT.get(
                    of_days[0], "name --date and --hour alone, and the rest when the day is compacted"
                ),
            )
        if self.hour == LAST and self.date is None:
            return hour_of_ms(now_ms - SETTLED_MS).before()
        if self.hour == LAST or re.fullmatch(r"[01]?[0-9]|2[0-3]", self.hour, re.ASCII) is None:
            raise SettingsError(
                f"--hour {self.hour}: which one?", next_step="write --date D --hour 0 to 23, or --hour last alone"
            )
        return Hour(self.days(day_of_ms(now_ms))[0], int(self.hour))

    def checked_event_id(self) -> str | None:
        """Return the path of the event id; raises SettingsError."""
        if self.drop_producer_duplicates and self.event_id is None:
            raise SettingsError(
                "--drop-producer-duplicates: by what are they recognised?",
                next_step="name the path of the event id, as in --event-id event.id",
            )
        return checked_path(self.event_id)

    def read_columns(self, settings: JobSettings) -> Columns | None:
        """Return the payloads' columns, of the options or else of the properties; raises SettingsError."""
        path, event_time = self.columns or settings.columns, self.event_time or settings.event_time
        columns = None if path is None else read_columns(path, SCHEMA.names)
        window = settings.event_window if self.event_window is None else self.event_window
        if event_time is None:
            if self.event_window is not None:
                raise SettingsError("--event-window: of what?", next_step="name the path, as in --event-time meta.ts")
            return columns
        return with_event_time(columns, event_time, WINDOW_DAYS if window is None else window, SCHEMA.names)

    def checked_table(self) -> str | None:
        """Return the Iceberg table, `namespace.table`; raises SettingsError."""
        return checked_table(self.iceberg, self.iceberg_catalog)


def checked_table(table: str | None, catalog: str | None) -> str | None:
    """Return the Iceberg table that `--iceberg` names, `namespace.table`; raises SettingsError."""
    if table is None and catalog is not None:
        raise SettingsError("--iceberg-catalog: which table?", next_step="name it, as in --iceberg events.raw")
    if table is not None and _TABLE.fullmatch(table) is None:
        raise SettingsError(
            f"{table!r} is not the name of a table",
            next_step="--iceberg takes namespace.table, such as events.raw",
        )
    return table


def checked_fail_on(text: str) -> FailOn:
    """Return which verdicts fail the command; raises SettingsError."""
    for known in FAIL_ON:
        if text == known:
            return known
    raise SettingsError(f"--fail-on {text!r}: which verdicts fail?", next_step=f"it takes {' or '.join(FAIL_ON)}")


def checked_path(expression: str | None) -> str | None:
    """Return a JMESPath expression that compiles; raises SettingsError."""
    if expression is None:
        return None
    try:
        PayloadPath(expression)
    except jmespath.exceptions.JMESPathError as exc:
        reason = " ".join(str(exc).split())
        raise SettingsError(
            f"--event-id {expression!r} is not a JMESPath expression: {reason}", next_step="see https://jmespath.org"
        ) from exc
    except RecursionError as exc:
        raise SettingsError("--event-id is too deeply nested", next_step="write a shorter path") from exc
    return expression


def days_of(today: Day, *, date: str | None, first: str | None, last: str | None) -> list[Day]:
    """Return the one day, or the days of the range; `today` and `yesterday` are days, too.

    Raises:
        SettingsError: none is given, or both; or a day lies in the future.
    """
    if date is not None and first is None and last is None:
        days = [parse_day(date, today)]
    elif date is None and first is not None and last is not None:
        days = list(day_range(parse_day(first, today), parse_day(last, today)))
    else:
        what = "which day?"
        if date is not None:
            what = "--date is one day, and --from and --to are others"
        elif first is not None or last is not None:
            what = "--from needs --to" if last is None else "--to needs --from"
        raise SettingsError(what, next_step="give --date D, or --from D and --to D")
    if days[-1].number > today.number:
        raise SettingsError(
            f"{days[-1]} lies in the future: it is {today} in UTC", next_step="name a day that has begun"
        )
    return days
