"""Render a status report for a terminal."""

from collections.abc import Iterator, Mapping

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from consumer.status.coverage import ProvenTime
from consumer.status.report import ShardStatus, StatusReport

_DIGITS = 8
_WIDE = 132
"""Columns that the whole table takes with short remarks."""
_MOST_GAPS = 5
_LEASE_STYLES = {"held": "green", "expired": "bold red", "missing": "yellow", "free": "yellow"}
_LATE_SECONDS = 180
"""A lag above this is shown in red: a minute, its linger, and a minute of grace."""


def render(report: StatusReport) -> RenderableType:
    """Return the problems, then the coverage, then the shards; positions are cut to their last digits."""
    parts: list[RenderableType] = [
        Text(f"{report.application}: {report.stream} -> s3://{report.bucket}/{report.prefix}", style="bold")
    ]
    for problem in report.problems:
        text = Text(f"! {problem.sentence}", style="yellow" if problem.exit_code == 0 else "bold red")
        if problem.next_step:
            text.append(f"\n  → {problem.next_step}", style="dim")
        parts.append(text)
    if report.coverage is not None:
        parts.append(_proven(report.coverage))
    if report.shards:
        parts.append(_Shards(report.shards, report.coverage.shards if report.coverage else {}))
    return Group(*parts)


class _Shards:
    """The shards as a table if the terminal is wide enough, else a row and a line of details for each."""

    def __init__(self, shards: list[ShardStatus], proven: Mapping[str, str | None]) -> None:
        self._shards = shards
        self._proven = proven

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= _WIDE:
            yield _table(self._shards, self._proven)
        else:
            yield from _rows(self._shards, self._proven)


def _rows(shards: list[ShardStatus], proven: Mapping[str, str | None]) -> Iterator[RenderableType]:
    """Yield the shards in 80 columns: the most wanted values in a row, the rest indented below it."""
    yield Text(_row("shard", "state", "archived to", "proven to", "behind"), style="bold")
    for shard in shards:
        cells = (shard.shard, shard.state, _clock(shard.tail_minute or "-"), _clock(proven.get(shard.shard) or "-"))
        yield Text(_row(*cells, "")) + _behind(shard)
        yield Padding(_details(shard), (0, 0, 0, 2))


def _row(shard: str, state: str, archived: str, proven: str, behind: str) -> str:
    return f"{shard:<20}  {state:<8}  {archived:<16}  {proven:<16}  {behind}"


def _details(shard: ShardStatus) -> Text:
    age = "" if shard.lease_age_seconds is None else f" (renewed within {shard.lease_age_seconds:g} s)"
    owner = f" by {shard.owner}{age}" if shard.owner else ""
    text = Text("lease ", style="dim") + Text(shard.lease, style=_LEASE_STYLES.get(shard.lease, "dim"))
    details = [f"checkpoint {short(shard.checkpoint)}", f"end {short(shard.tail)}", *_family(shard)]
    text.append(f"{owner}; {', '.join(details)}", style="dim")
    for remark in (*shard.gaps, *shard.notes):
        text.append(f"\n! {remark}", style="bold red" if remark in shard.gaps else "")
    return text


def _proven(coverage: ProvenTime) -> Text:
    """Return up to when everything is proven, and the open times that are overdue."""
    since = f"since {_clock(coverage.since)}"
    if coverage.until is None:
        text = Text(f"proven: nothing {since}", style="yellow")
    else:
        text = Text(f"proven: all that arrived until {_clock(coverage.until)} is archived ({since})", "green")
        text.append("\n  records archived twice were not looked for: the nightly audit does that", style="dim")
    for gap in coverage.unproven[:_MOST_GAPS]:
        what = f"{gap.shard or 'the stream'}, {_clock(gap.begins)} to {_clock(gap.ends)}: {'; '.join(gap.reasons)}"
        text.append(f"\n  ? {what}", style="yellow")
    if len(coverage.unproven) > _MOST_GAPS:
        text.append(f"\n  and {len(coverage.unproven) - _MOST_GAPS} more: --json names them all", style="dim")
    return text


def _clock(time: str) -> str:
    return time[:16].replace("T", " ")


def _table(shards: list[ShardStatus], proven: Mapping[str, str | None]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("shard", "state", "lease", "checkpoint", "archived to", "proven to", "behind", "remarks"):
        table.add_column(heading, overflow="fold")
    for shard in shards:
        table.add_row(
            shard.shard,
            "\n".join([shard.state, *_family(shard)]),
            _lease(shard),
            short(shard.checkpoint),
            _tail(shard),
            _clock(proven.get(shard.shard) or "-"),
            _behind(shard),
            _remarks(shard),
        )
    return table


def short(position: str | None) -> str:
    """Return the last digits of a position; sentinels stay as they are."""
    if position is None:
        return "-"
    sequence, colon, sub = position.partition(":")
    return f"…{sequence[-_DIGITS:]}:{sub}" if colon and len(sequence) > _DIGITS else position


def _family(shard: ShardStatus) -> list[str]:
    return [f"from {_number(name)}" for name in shard.parents] + [f"to {_number(name)}" for name in shard.children]


def _number(shard_id: str) -> str:
    return shard_id.removeprefix("shardId-").lstrip("0") or "0"


def _lease(shard: ShardStatus) -> Text:
    text = Text(shard.lease, style=_LEASE_STYLES.get(shard.lease, ""))
    if shard.owner:
        age = "" if shard.lease_age_seconds is None else f", renewed within {shard.lease_age_seconds:g} s"
        text.append(f"\n{shard.owner}{age}", style="dim")
    return text


def _tail(shard: ShardStatus) -> str:
    return f"{shard.tail_minute or ''}\n{short(shard.tail)}".strip() if shard.tail else "-"


def _behind(shard: ShardStatus) -> Text:
    if shard.behind_seconds is None:
        return Text("unknown", style="yellow")
    if shard.behind_source == "end":
        return Text("at its end")
    return Text(f"{shard.behind_seconds:g} s", style="bold red" if shard.behind_seconds > _LATE_SECONDS else "")


def _remarks(shard: ShardStatus) -> Text:
    text = Text("\n").join([Text(gap, style="bold red") for gap in shard.gaps] + [Text(note) for note in shard.notes])
    return text if text.plain else Text("-")
