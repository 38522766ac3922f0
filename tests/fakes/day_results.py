"""Audits of whole days without an archive, for reports: a stream with its tides, and what an audit finds of it."""

import functools
import math
import random
from array import array
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from compaction.audit.conclusion import DayResult
from compaction.audit.shards.minutes import MinuteCounts, Minutes
from compaction.report.trend import Trend, TrendDay
from compaction.verdict.acceptance import accept
from compaction.verdict.audit_document import Audit, overall_verdict
from compaction.verdict.findings import Code, Finding, Severity, finding, ordered
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.minute import MINUTE_MS, iso_time, minute_text
from minutebook.format.position import Position

DAY: Final = Day.parse("2026-11-20")
OUT: Final = "s3://events-archive/raw/_parquet/"
HOUR_MS: Final = 60 * MINUTE_MS
_KINDS: Final = 16
"""Shards that differ; more are repeated."""
RETENTION_MS: Final = 7 * 24 * HOUR_MS


def shard_name(number: int) -> str:
    """Return the name of a shard."""
    return f"shardId-{number:012d}"


def day_result(
    shards: int = 4,
    findings: Sequence[Finding] = (),
    *,
    hours: tuple[int, int] = (0, 24),
    gaps: Sequence[tuple[int, int, int]] = (),
    until_ms: int = DAY.end_ms,
    accepted: str = "",
) -> DayResult:
    """Return the audit of a day of busy shards, with data in these hours alone. `gaps`: (shard, begin, end)."""
    minutes = {
        shard_name(number): _minutes(number % _KINDS, hours, tuple(gap[1:] for gap in gaps if gap[0] == number))
        for number in range(shards)
    }
    rows = [_row(name, of, findings) for name, of in minutes.items()]
    records = sum(row["records"] for row in rows)
    objects, size = (sum(row[name] for row in rows) for name in ("objects", "bytes"))
    worst_first = ordered(findings)
    checks = [{"id": code.value, "status": _status(code, worst_first)} for code in Code]
    now_ms = max(until_ms, DAY.begin_ms) + 47 * MINUTE_MS
    audit = msgspec.convert(
        {
            "schema": "minutebook-audit/1",
            "version": "0.1.0",
            "audited_at": iso_time(now_ms),
            "level": "keys",
            "verdict": "clean",
            "scope": {
                "stream": "events",
                "application": "events-archive",
                "archive": "s3://events-archive/raw/",
                "day": str(DAY),
                "day_is_over": until_ms == DAY.end_ms,
                "objects": objects,
                "bytes": size,
                "inventory": "c5a9e1f0b7d34412",
                "generation": None,
                "from": iso_time(DAY.begin_ms),
                "until": iso_time(until_ms),
            },
            "equation": {
                "raw": records,
                "unique": records,
                "duplicates": 0,
                "rejected": 0,
                "compacted": records,
                "removed": 0,
                "balanced": True,
            },
            "shards": rows,
            "checks": checks,
            "findings": [msgspec.to_builtins(each) for each in worst_first],
        },
        Audit,
    )
    audit = msgspec.structs.replace(audit, verdict=overall_verdict(worst_first, audit.checks))
    if accepted:
        audit = msgspec.structs.replace(
            audit, accepted=accept(worst_first, (), accepted, iso_time(now_ms + 9 * HOUR_MS))
        )
    return DayResult(audit, minutes, RETENTION_MS)


def trend(result: DayResult, *, until: str | None = None) -> Trend:
    """Return fourteen days, the last of which is that of a result, as published."""
    rng, rows = random.Random(3), result.audit.equation.unique
    verdicts = {-9: "unknown", -5: "defects", -4: None}
    days = [
        TrendDay(
            str(DAY.shift(number)),
            verdicts.get(number, "clean"),  # type: ignore[arg-type]
            0 if verdicts.get(number, "") is None else round(rows * rng.uniform(0.6, 1.1)),
            {"unknown": (0, 2, 0), "defects": (1, 1, 0)}.get(verdicts.get(number, "") or "", (0, 0, 0)),
            f"{rng.getrandbits(64):016x}",
        )
        for number in range(-13, 0)
    ]
    audit = result.audit
    size = round(audit.scope.bytes * 0.8)
    own = TrendDay(str(DAY), audit.verdict, rows, (0, 0, 0), "5b0f6c1d92ae7734", until=until, files_bytes=size)
    return Trend(OUT, (*days, own))


def at(hour: int, minute: int = 0) -> int:
    """Return a minute of the day, counted from the epoch."""
    return DAY.first_minute + 60 * hour + minute


def broken_chain(shard: int, minute: int) -> Finding:
    """Return the finding of a missing object."""
    keys = [
        f"raw/2026/11/20/{(minute - DAY.first_minute) // 60:02d}/{minute % 60:02d}/{shard_name(shard)}/"
        f"{49680430009993180326445188721472315949130085524050018306 + step:056d}-00000000.jsonl.gz"
        for step in (0, 9)
    ]
    about = finding(
        Code.BROKEN_CHAIN,
        "a segment names a predecessor that is not there: records are missing between the two",
        shard=shard_name(shard),
        minute=minute_text(minute),
        keys=keys,
        positions=[Position(49680430009993180326445188721472315949130085524050018309, 0)],
    )
    return msgspec.structs.replace(about, reproduce=_command(shard))


def uncovered(shard: int, begin: int, end: int, severity: Severity = "unknown") -> Finding:
    """Return the finding of a time that nothing proves."""
    about = finding(
        Code.UNCOVERED,
        "nothing proves that all that arrived in this time is archived",
        severity=severity,
        shard=shard_name(shard),
        reasons=("not_covered",),
    )
    times = {"begins": iso_time(begin * MINUTE_MS), "until": iso_time(end * MINUTE_MS)}
    return msgspec.structs.replace(about, reproduce=_command(shard), **times)


def _command(shard: int) -> str:
    return f"minutebook audit my.properties --date {DAY} --level keys --shard {shard_name(shard)}"


def _status(code: Code, findings: Sequence[Finding]) -> str:
    words = {"defect": "fail", "unknown": "unknown", "warning": "warning"}
    return next((words[about.severity] for about in findings if about.code == code), "pass")


@functools.cache
def _minutes(kind: int, hours: tuple[int, int], gaps: tuple[tuple[int, ...], ...]) -> Minutes:
    rng = random.Random(kind)
    records, lags = array("i", [0] * MINUTES_A_DAY), array("i", [-1] * MINUTES_A_DAY)
    weight = 1 + 0.5 * math.sin(kind)
    for minute in range(hours[0] * 60, hours[1] * 60):
        if any(begin <= minute + DAY.first_minute < end for begin, end in gaps):
            continue
        tide = 1.2 - math.cos((minute - 180) / MINUTES_A_DAY * 2 * math.pi)
        records[minute] = max(1, round(900 * weight * tide * rng.uniform(0.85, 1.15)))
        lags[minute] = rng.randrange(40, 120) + (rng.randrange(600) if rng.random() < 0.02 else 0)
    return Minutes.packed_of(MinuteCounts(records, lags))


def _row(name: str, of: Minutes, findings: Sequence[Finding]) -> dict[str, Any]:
    counted = of.counted()
    records, objects = sum(counted.records), sum(lag >= 0 for lag in counted.lag_tenths)
    is_open = any(about.shard == name and about.severity != "warning" and about.begins for about in findings)
    return {
        "shard": name,
        "objects": objects,
        "records": records,
        "bytes": records * 240,
        "payload_bytes": records * 820,
        "first": "49680430009993180326445188721472315949130085524050018306:0",
        "last": "49680430009993180326445188721472315949130085524059918306:0",
        "lag_ms_median": 7_800,
        "lag_ms_max": 61_300,
        "start_proof": "link",
        "end_proof": "" if is_open else "successor",
        "arrival_step_back_ms": 0,
    }
