"""Render a status report for a terminal."""

from collections.abc import Iterator, Mapping

from rich.console import ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from consumer.status.coverage import ProvenTime
from consumer.status.report import ShardStatus, StatusReport
from minutebook.terminal import styled

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
        styled(f"{report.application}: {report.stream} -> s3://{report.bucket}/{report.prefix}", "bold")
    ]
    for problem in report.problems:
        parts.append(styled(f"! {problem.sentence}", "yellow" if problem.exit_code == 0 else "bold red"))
        if problem.next_step:
            parts.append(styled(f"  → {problem.next_step}", "dim"))
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

    def __rich_console__(self, _console: object, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= _WIDE:
            yield _table(self._shards, self._proven)
        else:
            yield from _rows(self._shards, self._proven)


def _rows(shards: list[ShardStatus], proven: Mapping[str, str | None]) -> Iterator[RenderableType]:
    """Yield the shards in 80 columns: the most wanted values in a row, the rest indented below it."""
    yield styled(_row("shard", "state", "archived to", "proven to", "behind"), "bold")
    for shard in shards:
        cells = (shard.shard, shard.state, _clock(shard.tail_minute or "-"), _clock(proven.get(shard.shard) or "-"))
        yield styled(_row(*cells, "")) + _behind(shard)
        yield Padding(_details(shard), (0, 0, 0, 2))


def _row(shard: str, state: str, archived: str, proven: str, behind: str) -> str:
    return f"{shard:<20}  {state:<8}  {archived:<16}  {proven:<16}  {behind}"


def _details(shard: ShardStatus) -> Group:
    age = "" if shard.lease_age_seconds is None else f" (renewed within {shard.lease_age_seconds:g} s)"
    owner = f" by {shard.owner}{age}" if shard.owner else ""
    text = styled("lease ", "dim") + styled(shard.lease, _LEASE_STYLES.get(shard.lease, "dim"))
    details = [f"checkpoint {short(shard.checkpoint)}", f"end {short(shard.tail)}", *_family(shard)]
    text += styled(f"{owner}; {', '.join(details)}", "dim")
    remarks = [styled(f"! {gap}", "bold red") for gap in shard.gaps] + [styled(f"! {note}") for note in shard.notes]
    return Group(text, *remarks)


def _proven(coverage: ProvenTime) -> Group:
    """Return up to when everything is proven, and the open times that are overdue."""
    since = f"since {_clock(coverage.since)}"
    if coverage.until is None:
        text = styled(f"proven: nothing {since}", "yellow")
    else:
        text = styled(f"proven: all that arrived until {_clock(coverage.until)} is archived ({since})", "green")
    lines = [text]
    if coverage.until is not None:
        lines.append(styled("  records archived twice were not looked for: the nightly audit does that", "dim"))
    for gap in coverage.unproven[:_MOST_GAPS]:
        what = f"{gap.shard or 'the stream'}, {_clock(gap.begins)} to {_clock(gap.ends)}: {'; '.join(gap.reasons)}"
        lines.append(styled(f"  ? {what}", "yellow"))
    if len(coverage.unproven) > _MOST_GAPS:
        lines.append(styled(f"  and {len(coverage.unproven) - _MOST_GAPS} more: --json names them all", "dim"))
    return Group(*lines)


def _clock(time: str) -> str:
    return time[:16].replace("T", " ")


def _table(shards: list[ShardStatus], proven: Mapping[str, str | None]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("shard", "state", "lease", "checkpoint", "archived to", "proven to", "behind", "remarks"):
        table.add_column(heading, overflow="fold")
    for shard in shards:
        table.add_row(
            shard.shard,
            Group(shard.state, *_family(shard)),
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


def _lease(shard: ShardStatus) -> Group:
    lines = [styled(shard.lease, _LEASE_STYLES.get(shard.lease, ""))]
    if shard.owner:
        age = "" if shard.lease_age_seconds is None else f", renewed within {shard.lease_age_seconds:g} s"
        lines.append(styled(f"{shard.owner}{age}", "dim"))
    return Group(*lines)


def _tail(shard: ShardStatus) -> Group:
    lines = [shard.tail_minute, short(shard.tail)] if shard.tail else ["-"]
    return Group(*filter(None, lines))


def _behind(shard: ShardStatus) -> Text:
    if shard.behind_seconds is None:
        return styled("unknown", "yellow")
    if shard.behind_source == "end":
        return styled("at its end")
    return styled(f"{shard.behind_seconds:g} s", "bold red" if shard.behind_seconds > _LATE_SECONDS else "")


def _remarks(shard: ShardStatus) -> Group:
    lines = [styled(gap, "bold red") for gap in shard.gaps] + [styled(note) for note in shard.notes]
    return Group(*lines or [styled("-")])
