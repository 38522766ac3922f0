"""Validation of the nightly commands' options, before any I/O. Every function raises SettingsError."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import jmespath

from compaction.columns.columns import Columns
from compaction.columns.event_time import WINDOW_DAYS, with_event_time
from compaction.columns.files import columns_file
from compaction.job.request import AuditRequest, CompactRequest
from compaction.job.settings import JobSettings
from compaction.stream.kinesis import SHARE
from compaction.verdict.audit_document import AuditLevel
from compaction.verdict.exit_code import FAIL_ON, FailOn
from minutebook.errors import SettingsError
from minutebook.format.day import Day, day_range, parse_day
from minutebook.format.payload import PayloadPath
from minutebook.properties_file import Source
from minutebook.properties_folder import PropertiesFolder
from minutebook.published.schema import SCHEMA

_AGE: Final = re.compile(r"([1-9][0-9]{0,3})([dhm])", re.ASCII)
_SECONDS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0}
_APPLICATION: Final = "{application}"
_TABLE: Final = re.compile(r"[^\s./]+(\.[^\s./]+)+")


def due_days(request: CompactRequest) -> int | None:
    """Return how many settled days `--due` looks at; None: days are requested."""
    if request.due is None:
        if request.budget is not None:
            raise SettingsError("--budget needs --due", next_step="write it as in --due 14d --budget 3h")
        return None
    others = {
        "--date": request.date,
        "--from": request.first,
        "--to": request.last,
        "--so-far": request.so_far,
        "--accept": request.accept,
        "--rewrite-columns": request.rewrite_columns or None,
    }
    if named := [option for option, value in others.items() if value is not None]:
        raise SettingsError(f"--due cannot be given with {named[0]}", next_step="give one of the two")
    match = _AGE.fullmatch(request.due)
    if match is None or match[2] != "d":
        raise SettingsError(f"not a number of days: {request.due!r}", next_step="write it as in --due 14d")
    return int(match[1])


def rewrites_columns(request: CompactRequest) -> bool:
    """Return whether published days get the columns of this run."""
    if request.yes and not request.rewrite_columns:
        raise SettingsError("--yes needs --rewrite-columns", next_step="leave --yes out: nothing else asks for it")
    if request.rewrite_columns and request.so_far is not None:
        raise SettingsError(
            "--rewrite-columns cannot be given with --so-far",
            next_step="leave it out: a day that is not over takes the columns of each run",
        )
    return request.rewrite_columns


def budget_seconds(text: str | None) -> float | None:
    """Return a time such as 3h or 90m in seconds."""
    if text is None:
        return None
    match = _AGE.fullmatch(text)
    if match is None:
        raise SettingsError(f"not a time: {text!r}", next_step="write it in hours or minutes, as in --budget 3h")
    return int(match[1]) * _SECONDS[match[2]]


def acceptance(request: CompactRequest) -> str | None:
    """Return the reason of `--accept`."""
    if request.accept is None:
        return None
    if request.date is None:
        raise SettingsError("--accept needs --date", next_step="accept one day at a time, each for its own reason")
    if not request.accept.strip():
        raise SettingsError("--accept needs a reason", next_step="say why, as in --accept 'lost in incident 42'")
    return request.accept.strip()


def requested_days(request: AuditRequest | CompactRequest, today: Day) -> list[Day]:
    """Return the one day, or the days of the range. Days in the future are rejected."""
    date, first, last = request.date, request.first, request.last
    if date is not None and first is None and last is None:
        days = [parse_day(date, today)]
    elif date is None and first is not None and last is not None:
        days = list(day_range(parse_day(first, today), parse_day(last, today)))
    else:
        what = "no day is named"
        if date is not None:
            what = "--date cannot be given with --from or --to"
        elif first is not None or last is not None:
            what = "--from needs --to" if last is None else "--to needs --from"
        raise SettingsError(what, next_step="give --date D, or --from D and --to D")
    if days[-1].number > today.number:
        raise SettingsError(
            f"{days[-1]} lies in the future: it is {today} in UTC", next_step="name a day that has begun"
        )
    return days


def audit_level(level: str, event_id: str | None) -> AuditLevel:
    """Return the level of that name."""
    levels: dict[str, AuditLevel] = {"inventory": "inventory", "keys": "keys", "stream": "stream"}
    if level not in levels:
        raise SettingsError(f"{level!r} is not a level", next_step=f"--level takes {', '.join(levels)}")
    if event_id is not None and level == "inventory":
        raise SettingsError(
            "--event-id needs the lines, and level inventory reads names and metadata alone",
            next_step="use --level keys or stream with it",
        )
    return levels[level]


def stream_budget(budget: float | None, level: str) -> float:
    """Return the share of each shard's reads that level stream may take."""
    if budget is None:
        return SHARE
    _check_needs_stream("--stream-budget", level)
    if not 0 < budget <= 1:
        raise SettingsError(
            f"--stream-budget {budget:g} is not a share",
            next_step=f"write what of a shard's reads may be taken, from above 0 to 1, as in {SHARE}",
        )
    return budget


def sample_minutes(minutes: int | None, level: str) -> int | None:
    """Return the minutes of each shard that are compared with the stream; None: all."""
    if minutes is not None:
        _check_needs_stream("--sample", level)
    return minutes


def _check_needs_stream(option: str, level: str) -> None:
    if level != "stream":
        raise SettingsError(f"{option} needs --level stream", next_step=f"add --level stream, or drop {option}")


def event_id_path(expression: str | None, *, is_needed: bool = False) -> str | None:
    """Return the path of the event id, a JMESPath expression. `is_needed`: --drop-producer-duplicates is given."""
    if expression is None:
        if is_needed:
            raise SettingsError(
                "--drop-producer-duplicates needs --event-id",
                next_step="name the path of the event id, as in --event-id event.id",
            )
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


def columns_of_compact(settings: JobSettings, request: CompactRequest) -> Columns | None:
    """Return the payloads' columns of a run; raise SettingsError, too, if it drops copies of several events."""
    columns = columns_of_request(settings, request.columns, request.event_time, request.event_window)
    if request.drop_producer_duplicates and columns is not None and columns.multiplies:
        raise SettingsError(
            "--drop-producer-duplicates drops whole records, and the `decode` of these columns finds several events",
            next_step="drop the option, or the steps that find them; in a query, group by the event's id",
        )
    return columns


def columns_of_request(
    settings: JobSettings, path: Path | None, event_time: str | None, event_window: int | None
) -> Columns | None:
    """Return the payloads' columns, by the options or else by the settings."""
    path, event_time = path or settings.columns, event_time or settings.event_time
    columns = None if path is None else columns_file.read_columns(path, SCHEMA.names)
    if event_time is None:
        if event_window is not None:
            raise SettingsError("--event-window needs --event-time", next_step="write it as in --event-time meta.ts")
        return columns
    window = settings.event_window if event_window is None else event_window
    return with_event_time(columns, event_time, WINDOW_DAYS if window is None else window, SCHEMA.names)


def iceberg_table(table: str | None, catalog: str | None) -> str | None:
    """Return the Iceberg table that `--iceberg` names, `namespace.table`."""
    if table is None and catalog is not None:
        raise SettingsError("--iceberg-catalog needs --iceberg", next_step="write it as in --iceberg events.raw")
    if table is not None and _TABLE.fullmatch(table) is None:
        raise SettingsError(
            f"{table!r} is not the name of a table",
            next_step="--iceberg takes namespace.table, such as events.raw",
        )
    return table


def one_streams_options(source: Source | PropertiesFolder, request: AuditRequest | CompactRequest) -> None:
    """Refuse for the streams of a folder what is said of one of them."""
    named = {"--shard": getattr(request, "shard", None), "--accept": getattr(request, "accept", None)}
    if isinstance(source, PropertiesFolder) and (given := [name for name, value in named.items() if value]):
        raise SettingsError(f"{given[0]} is of one stream", next_step="name it with --stream NAME")


def table_of_stream(table: str | None, application: str) -> str | None:
    """Return the name of a stream's table: its application's name stands for `{application}`."""
    return None if table is None else table.replace(_APPLICATION, re.sub(r"[^a-z0-9_]", "_", application.lower()))


def table_of_each(source: Source | PropertiesFolder, table: str | None) -> None:
    """Refuse one Iceberg table for several streams: a commit replaces its day, and so the other streams' rows."""
    if table is None or not isinstance(source, PropertiesFolder):
        return
    users: dict[str | None, list[str]] = defaultdict(list)
    for stream in source.streams:
        if stream.application:
            users[table_of_stream(table, stream.application)].append(stream.name)
    for name, streams in users.items():
        if len(streams) > 1:
            raise SettingsError(
                f"--iceberg {table}: {' and '.join(streams)} would be published in one table, {name}",
                next_step=f"write {_APPLICATION} where the application's name belongs, as in events.{_APPLICATION}",
            )


def fail_on(text: str) -> FailOn:
    """Return which verdicts fail the command."""
    for known in FAIL_ON:
        if text == known:
            return known
    raise SettingsError(f"--fail-on cannot be {text!r}", next_step=f"it takes {' or '.join(FAIL_ON)}")
