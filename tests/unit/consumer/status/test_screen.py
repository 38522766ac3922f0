"""How `status` looks where most terminals end: at 80 columns, with everything on it that a shard can have."""

from typing import Any

import pytest

from consumer.status.command import judge_limit
from consumer.status.coverage import ProvenTime
from consumer.status.report import ShardStatus, StatusReport, unread
from consumer.status.screen import render
from minutebook.errors import SettingsError
from minutebook.spans import parse_span
from minutebook.terminal import TerminalConsole

_POSITION = "49680458451850689392835739103872079364584924912174497810:0"
_OWNER = "1f0c2b3a4d5e6f708192a3b4c5d6e7f8"
_GAP = f"missing after {_POSITION}"
_NOTE = "the checkpoint lies beyond the archive: objects were deleted, or the prefix is another; see restore"


def _shard(number: int, **changes: Any) -> ShardStatus:  # noqa: ANN401 - any field
    values: dict[str, Any] = {
        "shard": f"shardId-{number:012d}",
        "state": "open",
        "parents": [],
        "children": [],
        "owner": _OWNER,
        "lease": "held",
        "lease_age_seconds": 3.2,
        "checkpoint": _POSITION,
        "tail": _POSITION,
        "tail_minute": "2026-11-21T10:16Z",
        "behind_seconds": 41.2,
        "behind_source": "record",
        "gaps": [],
        "notes": [],
    }
    return ShardStatus(**values | changes)


def _report(*shards: ShardStatus) -> StatusReport:
    proven: dict[str, str | None] = {shards[0].shard: "2026-11-21T10:14:00Z"} if shards else {}
    since, until = "2026-11-21T08:17:00Z", "2026-11-21T10:14:00Z"
    return StatusReport(
        at_ms=0,
        application="flights-archive",
        stream="flights",
        bucket="archive",
        prefix="raw/",
        problems=[],
        coverage=ProvenTime(since=since, until=until, shards=proven, unproven=[]),
        shards=list(shards),
    )


def _lines(report: StatusReport, width: int) -> list[str]:
    console = TerminalConsole(width=width, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(render(report))
    return captured.get().splitlines()


def test_a_shard_is_two_lines_of_80_columns() -> None:
    """One with the times, whole, one with the lease; nothing is folded inside of a word."""
    lines = _lines(_report(_shard(0), _shard(7, state="closed", behind_seconds=0, behind_source="end")), 80)
    assert all(len(line.rstrip()) <= 80 for line in lines)
    rows = {line.split()[0]: line for line in lines if line.startswith("shardId-")}
    assert rows["shardId-000000000000"].split() == [
        *("shardId-000000000000", "open", "2026-11-21", "10:16", "2026-11-21", "10:14", "41.2", "s")
    ]
    assert rows["shardId-000000000007"].endswith("at its end")
    assert any(f"lease held by {_OWNER} (renewed within 3.2 s)" in line for line in lines)


def test_remarks_are_whole_at_80_columns() -> None:
    """A position is one word: it can be copied."""
    lines = _lines(_report(_shard(0, gaps=[_GAP], notes=[_NOTE])), 80)
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert any(_POSITION in line for line in lines)
    assert _NOTE in " ".join(line.strip() for line in lines)


@pytest.mark.parametrize(
    ("checkpoint", "text"), [("TRIM_HORIZON", "TRIM_HORIZON"), (None, "-"), ("LATEST", "LATEST")]
)
def test_what_is_no_position_stays_as_it_is(checkpoint: str | None, text: str) -> None:
    """Sentinels are words."""
    assert any(f"checkpoint {text}, end 4" in line for line in _lines(_report(_shard(0, checkpoint=checkpoint)), 80))


def test_a_position_that_is_shortened_keeps_both_ends() -> None:
    """And positions that differ look different: those that do in their middle alone are whole."""
    text = " ".join(line.strip() for line in _lines(_report(_shard(0)), 80))
    assert "checkpoint 4968045…497810:0, end 4968045…497810:0" in text
    other = f"{_POSITION[:30]}0{_POSITION[31:]}"
    text = " ".join(line.strip() for line in _lines(_report(_shard(0, checkpoint=other)), 80))
    assert f"checkpoint {other}, end {_POSITION}" in text


@pytest.mark.parametrize("width", [60, 80, 120, 132, 200])
def test_no_value_is_folded(width: int) -> None:
    """A row is a line at any width; a position in a remark is whole."""
    lines = _lines(_report(_shard(0, gaps=[_GAP], state="unlisted"), _shard(1, owner=None, lease="free")), width)
    assert all(len(line) <= width or _POSITION in line for line in lines)
    assert sum("unlisted" in line for line in lines) == 1
    assert any(f"! {_GAP}" in line or line.strip() == _POSITION for line in lines)


def test_a_wide_terminal_has_a_table() -> None:
    """With the same words."""
    lines = _lines(_report(_shard(0)), 160)
    assert any(line.split()[:3] == ["shard", "state", "lease"] for line in lines)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m", 300), ("300s", 300), ("300", 300), ("1.5h", 5400), ("1d", 86_400), ("0", 0)]
)
def test_a_span_of_time(text: str, seconds: float) -> None:
    """As people write it."""
    assert parse_span(text, "--max-behind") == seconds


@pytest.mark.parametrize("text", ["", "m", "5 m", "-5m", "5w", "five", "1e3"])
def test_what_is_no_span(text: str) -> None:
    """Is refused before anybody is asked."""
    with pytest.raises(SettingsError, match="not a span of time"):
        parse_span(text, "--max-behind")


def test_a_shard_beyond_the_limit_is_7() -> None:
    """Whatever is not known of others; the shards are named."""
    late, unknown = _shard(1, behind_seconds=301), _shard(2, behind_seconds=None)
    assert judge_limit(_report(_shard(0), late, unknown), "5m") == (7, "more than 5m behind: shardId-000000000001")
    assert judge_limit(_report(_shard(0, behind_seconds=300)), "5m").exit_code == 0


def test_what_is_not_known_is_4() -> None:
    """A shard whose lag was not told, or no shard at all: nobody may take that for well."""
    assert judge_limit(_report(_shard(0), _shard(2, behind_seconds=None)), "5m").exit_code == 4
    assert judge_limit(_report(), "5m").exit_code == 4


def test_shards_that_nobody_reads_are_named() -> None:
    """No worker is unhealthy where another one leads; a child waits for its parents, and the finished need nobody."""
    parent, child = _shard(0, lease="held"), _shard(1, lease="free", owner=None, parents=["shardId-000000000000"])
    assert unread([parent, child, _shard(2), _shard(3, lease="unknown"), _shard(4, lease="done")]) == []
    [problem] = unread([_shard(0, lease="done"), child, _shard(2, lease="expired"), _shard(3)])
    assert problem.sentence == (
        f"lease table: nobody reads shardId-000000000001 (free), shardId-000000000002 ({_OWNER} does not renew it)"
    )
    assert ("shard_without_reader" in problem.next_step, problem.exit_code) == (True, 0)
    [problem] = unread([_shard(number, lease="free") for number in range(9)])
    assert problem.sentence.endswith("shardId-000000000004 (free) and 4 more")
