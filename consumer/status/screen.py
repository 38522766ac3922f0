"""How a status report looks on a terminal."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from consumer.status.report import ShardStatus, StatusReport

_DIGITS = 8
_LEASE_STYLES = {"held": "green", "expired": "bold red", "missing": "yellow", "free": "yellow"}
_LATE_SECONDS = 180
"""A minute, its linger, and a minute of grace: from here on the lag is shown in red."""


def render(report: StatusReport) -> RenderableType:
    """Return the problems, then one row per shard; positions are shortened to their last digits."""
    parts: list[RenderableType] = [
        Text(f"{report.application}: {report.stream} -> s3://{report.bucket}/{report.prefix}", style="bold")
    ]
    for problem in report.problems:
        text = Text(f"! {problem.sentence}", style="yellow" if problem.exit_code == 0 else "bold red")
        if problem.next_step:
            text.append(f"\n  → {problem.next_step}", style="dim")
        parts.append(text)
    if report.shards:
        parts.append(_table(report.shards))
    return Group(*parts)


def _table(shards: list[ShardStatus]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("shard", "state", "lease", "checkpoint", "archived to", "behind", "remarks"):
        table.add_column(heading, overflow="fold")
    for shard in shards:
        table.add_row(
            shard.shard,
            _state(shard),
            _lease(shard),
            short(shard.checkpoint),
            _tail(shard),
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


def _state(shard: ShardStatus) -> str:
    family = [f"from {_number(name)}" for name in shard.parents] + [f"to {_number(name)}" for name in shard.children]
    return "\n".join([shard.state, *family])


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
