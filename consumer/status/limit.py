"""`--max-behind`: the exit code when a shard is too far behind. Pure."""

import re
from typing import Final, NamedTuple

from consumer.status.report import StatusReport
from minutebook.errors import SettingsError

BEHIND: Final = 7
UNKNOWN: Final = 4
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")


class LimitVerdict(NamedTuple):
    """The exit code and its sentence."""

    exit_code: int
    sentence: str


def parse_span(text: str) -> float:
    """Return the seconds of a span such as 5m, 300s, 1.5h or 90.

    Raises:
        SettingsError: `text` is not a span.
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        raise SettingsError(f"not a span of time: {text!r}", next_step="write it as --max-behind 5m, 300s or 2h")
    return float(match[1]) * _UNITS[match[2]]


def judge_limit(report: StatusReport, limit: str) -> LimitVerdict:
    """Return 7 if a shard is farther behind than the limit, else 4 if the lag of one is not known, else 0.

    Without any shard the result is 4, too.
    """
    seconds = parse_span(limit)
    late = [shard.shard for shard in report.shards if (shard.behind_seconds or 0) > seconds]
    if late:
        return LimitVerdict(BEHIND, f"more than {limit} behind: {', '.join(late)}")
    unknown = [shard.shard for shard in report.shards if shard.behind_seconds is None]
    if unknown or not report.shards:
        return LimitVerdict(UNKNOWN, f"not known how far behind: {', '.join(unknown) or 'no shard was found'}")
    return LimitVerdict(0, f"no shard is more than {limit} behind")
