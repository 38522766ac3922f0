"""Render a status report for a terminal."""

from collections.abc import Mapping

from rich.console import ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from consumer.status.complete import CompleteTime
from consumer.status.coverage import ProvenTime
from consumer.status.report import ShardStatus, StatusReport
from minutebook.terminal import Table, shortened, styled

HEADINGS = ("shards", "behind", "proven to")
"""Those of `cells_of`."""
NUMBERS = HEADINGS[:2]
_HEADINGS = ("shard", "state", "archived to", "proven to", "behind")
_LEASE_HEADINGS = ("lease", "checkpoint", "end")
_WIDE = 132
"""Columns of a terminal from which on the positions of a row have room for a dozen digits each."""
_POSITION_CELLS = 16
_MOST_GAPS = 5
_LEASE_STYLES = {"held": "green", "expired": "bold red", "missing": "yellow", "free": "yellow"}
_LATE_SECONDS = 180
"""A lag above this is shown in red: a minute, its linger, and a minute of grace."""


def render(report: StatusReport) -> RenderableType:
    """Return the problems, then the coverage, then the shards; `--json` has what is shortened here."""
    parts: list[RenderableType] = [
        styled(f"{report.application}: {report.stream} -> s3://{report.bucket}/{report.prefix}", "bold")
    ]
    for problem in report.problems:
        parts.append(styled(f"! {problem.sentence}", "yellow" if problem.exit_code == 0 else "bold red"))
        if problem.next_step:
            parts.append(styled(f"  → {problem.next_step}", "dim"))
    if report.coverage is not None:
        parts.append(_proven(report.coverage))
    if report.complete is not None:
        parts.append(_complete(report.complete))
    if report.shards:
        parts.append(_Shards(report.shards, report.coverage.shards if report.coverage else {}))
    return Group(*parts)


def cells_of(report: StatusReport) -> tuple[Text, ...]:
    """Return the cells of a stream in the table of a folder: the longest lag, and up to when all is proven."""
    lags = [shard.behind_seconds for shard in report.shards if shard.behind_source != "end"]
    known = [seconds for seconds in lags if seconds is not None]
    longest = max(known, default=0) if len(known) == len(lags) and report.shards else None
    proven = "-" if report.coverage is None or report.coverage.until is None else _clock(report.coverage.until)
    return styled(str(len(report.shards))), _lag(longest, ",.0f"), styled(proven)


class _Shards:
    """The shards; leases have columns of their own if the terminal is wide enough, else a line below the row."""

    def __init__(self, shards: list[ShardStatus], proven: Mapping[str, str | None]) -> None:
        self._shards = shards
        self._proven = proven

    def __rich_console__(self, _console: object, options: ConsoleOptions) -> RenderResult:
        yield _table(self._shards, self._proven, is_wide=options.max_width >= _WIDE)


def _table(shards: list[ShardStatus], proven: Mapping[str, str | None], *, is_wide: bool) -> Table:
    table = Table(*_HEADINGS[:2], *(_LEASE_HEADINGS if is_wide else ()), *_HEADINGS[2:])
    positions = {text for shard in shards for text in (shard.checkpoint, shard.tail) if text}
    short = shortened(positions, _POSITION_CELLS)
    for shard in shards:
        lease = styled(shard.lease, _LEASE_STYLES.get(shard.lease, "dim"))
        ends = [shard.checkpoint or "-", shard.tail or "-"]
        owner, family = _owner(shard), _family(shard)
        if is_wide:
            line = styled(", ".join([*owner, *family]), "dim")
        else:
            told = [f"{name} {short.get(end, end)}" for name, end in zip(("checkpoint", "end"), ends, strict=True)]
            line = styled("lease ", "dim") + lease
            line += styled("".join([*(f" {text}" for text in owner), "; ", ", ".join([*told, *family])]), "dim")
        times = _clock(shard.tail_minute or "-"), _clock(proven.get(shard.shard) or "-")
        of_lease: list[str | Text] = [lease, *ends] if is_wide else []
        table.add(
            shard.shard,
            shard.state,
            *of_lease,
            *times,
            _behind(shard),
            beside=[*([line] if line else []), *_remarks(shard)],
        )
    return table


def _proven(coverage: ProvenTime) -> Group:
    """Return up to when everything is proven, and the open times that are overdue."""
    since = _clock(coverage.since)
    if coverage.until is None:
        text = styled(f"proven: nothing since {since}", "yellow")
    else:
        text = styled(f"proven: all that arrived from {since} until {_clock(coverage.until)}", "green")
    lines = [text]
    if coverage.until is not None:
        lines.append(styled("  records archived twice were not looked for: the nightly audit does that", "dim"))
    for gap in coverage.unproven[:_MOST_GAPS]:
        what = f"{gap.shard or 'the stream'}, {_clock(gap.begins)} to {_clock(gap.ends)}: {'; '.join(gap.reasons)}"
        lines.append(styled(f"  ? {what}", "yellow"))
    if len(coverage.unproven) > _MOST_GAPS:
        lines.append(styled(f"  and {len(coverage.unproven) - _MOST_GAPS} more: --json names them all", "dim"))
    return Group(*lines)


def _complete(complete: CompleteTime) -> Group:
    """Return the newest boundary, its gaps, and what holds the next one."""
    if complete.until is None:
        lines = [styled("boundaries: none is published yet", "yellow")]
    else:
        since = _clock(complete.since or "")
        style = "yellow" if complete.gaps or complete.held else "green"
        lines = [styled(f"complete: by the boundaries from {since} until {_clock(complete.until)}", style)]
    for gap in complete.gaps[:_MOST_GAPS]:
        what = f"{gap.shard}, {_clock(gap.begin)} to {_clock(gap.until)}: {', '.join(gap.reasons)}"
        lines.append(styled(f"  ? {what}", "yellow"))
    for held in complete.held[:_MOST_GAPS]:
        reached = f", which reached {_clock(held.reached)}" if held.reached else ""
        lines.append(styled(f"  the next is held by {held.shard or 'the stream'}{reached}: {held.why}", "yellow"))
    hidden = max(0, len(complete.gaps) - _MOST_GAPS) + max(0, len(complete.held) - _MOST_GAPS)
    if hidden:
        lines.append(styled(f"  and {hidden} more: --json names them all", "dim"))
    return Group(*lines)


def _clock(time: str) -> str:
    return time[:16].replace("T", " ")


def _family(shard: ShardStatus) -> list[str]:
    return [f"from {_number(name)}" for name in shard.parents] + [f"to {_number(name)}" for name in shard.children]


def _number(shard_id: str) -> str:
    return shard_id.removeprefix("shardId-").lstrip("0") or "0"


def _owner(shard: ShardStatus) -> list[str]:
    age = "" if shard.lease_age_seconds is None else f" (renewed within {shard.lease_age_seconds:g} s)"
    return [f"by {shard.owner}{age}"] if shard.owner else []


def _behind(shard: ShardStatus) -> Text:
    if shard.behind_seconds is not None and shard.behind_source == "end":
        return styled("at its end")
    return _lag(shard.behind_seconds, "g")


def _lag(seconds: float | None, format_spec: str) -> Text:
    if seconds is None:
        return styled("unknown", "yellow")
    return styled(f"{seconds:{format_spec}} s", "bold red" if seconds > _LATE_SECONDS else "")


def _remarks(shard: ShardStatus) -> list[Text]:
    return [styled(f"! {gap}", "bold red") for gap in shard.gaps] + [styled(f"! {note}") for note in shard.notes]
