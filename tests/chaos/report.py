"""What a run found: the archive against the ledger, the faults that were really injected, and the recoveries."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from demo.readback import Verdict
from minutebook.format.boundaries import CompleteMarker
from tests.chaos.faults import Fault
from tests.chaos.followed import TableFindings
from tests.chaos.hostile import Hostile
from tests.chaos.timeline import Strike
from tests.witness.events import Event

_RECOVERED: Final = frozenset({"segment_committed", "shard_end_checkpointed"})
_COUNTED: Final = (
    "daemon_restarting",
    "shard_opened",
    "segment_committed",
    "slot_lost",
    "stored_ranges_found",
    "lease_lost",
    "checkpoint_written",
    "shard_end_checkpointed",
    "processor_failed",
)
_REFUSALS: Final = frozenset({2, 6})
"""Exit codes that say "a person must act": no fault of these acts is a reason for that."""


class Recovery(NamedTuple):
    """How long the slowest of the struck shards took to its next commit; None when none had to come back."""

    kind: str
    seconds: float | None


@dataclass(kw_only=True)
class Findings:
    """Everything that was found. `is_proven` decides the exit code."""

    verdict: Verdict
    strikes: Sequence[Strike]
    skipped: Sequence[str]
    injected: Mapping[str, Counter[Fault]]
    requests: Mapping[str, int]
    events: Sequence[Event]
    exits: Sequence[int]
    restores: Sequence[int] = field(default_factory=list)
    stop_codes: Sequence[int] = field(default_factory=list)
    stalls: int = 0
    """Times that nothing moved any more after the last fault, until the workers were restarted."""
    wrong_checkpoints: Sequence[tuple[str, str]] = field(default_factory=list)
    """Checkpoints seen in the lease table that are no segment's end."""
    boundaries: Sequence[CompleteMarker] = field(default_factory=list)
    false_boundaries: Sequence[str] = field(default_factory=list)
    """What boundaries said when it was not true, and what is out of order."""
    hostile: Hostile | None = None
    """What became of what hostile producers sent."""
    table: TableFindings | None = None
    """What readers of a followed table were shown."""

    @property
    def refusals(self) -> list[int]:
        """Exit codes of supervisors that gave up for a person to act."""
        return [code for code in (*self.exits, *self.restores) if code in _REFUSALS]

    @property
    def is_proven(self) -> bool:
        """Tell whether nothing is lost, doubled, altered or unexplained, and nobody refused to go on."""
        verdict = self.verdict
        wrong = (verdict.lost, verdict.duplicated, verdict.altered, verdict.unknown, verdict.broken)
        wrongly_dropped = self.hostile is not None and self.hostile.wrongly_dropped
        shown = self.table is not None and self.table.wrong
        doubts = (*wrong, self.wrong_checkpoints, self.false_boundaries, self.refusals, wrongly_dropped, shown)
        return verdict.sent > 0 and not any(doubts)


def recoveries(strikes: Iterable[Strike], events: Iterable[Event]) -> list[Recovery]:
    """Return the recovery after each strike: over its shards, the longest time to the next commit or shard end.

    Strikes overlap, so a recovery may have been held up by the next strike; that is part of the figure.
    """
    back: dict[str, list[tuple[int, str]]] = {}
    for event in events:
        if event.get("event") in _RECOVERED and "shard" in event:
            back.setdefault(event["shard"], []).append((_epoch_ms(event["timestamp"]), event["worker"]))
    found = []
    for strike in strikes:
        waits = []
        for shard in strike.shards:
            later = [
                at_ms
                for at_ms, worker in back.get(shard, [])
                if at_ms > strike.at_ms and (strike.successors is None or worker in strike.successors)
            ]
            if later:
                waits.append(min(later) - strike.at_ms)
        found.append(Recovery(strike.kind, max(waits) / 1000 if waits else None))
    return found


def tables(names: Sequence[str], found: Sequence[Findings]) -> str:
    """Return the report of each stream, under its name where it has one."""
    return "\n".join(
        f"\nstream {name}\n{table(findings)}" if name else table(findings)
        for name, findings in zip(names, found, strict=True)
    )


def table(findings: Findings) -> str:
    """Return the report as text."""
    rows = ["", "acts                          times   slowest recovery   median"]
    by_kind: dict[str, list[float]] = {}
    times = Counter(strike.kind for strike in findings.strikes)
    for recovery in recoveries(findings.strikes, findings.events):
        by_kind.setdefault(recovery.kind, [])
        if recovery.seconds is not None:
            by_kind[recovery.kind].append(recovery.seconds)
    for kind, count in sorted(times.items()):
        seconds = sorted(by_kind[kind])
        slowest = f"{seconds[-1]:.1f} s" if seconds else "-"
        median = f"{seconds[len(seconds) // 2]:.1f} s" if seconds else "-"
        rows.append(f"  {kind:<27} {count:>5} {slowest:>17} {median:>9}")
    rows.append(f"  {'(could not be played)':<27} {len(findings.skipped):>5}")
    rows += ["", "connections" + "".join(f"{name:>18}" for name in findings.requests)]
    rows.append(f"  {'requests':<9}" + "".join(f"{count:>18}" for count in findings.requests.values()))
    for fault in Fault:
        counts = [injected[fault] for injected in findings.injected.values()]
        rows.append(
            f"  {fault:<15}" + "".join(f"{count:>{12 if not index else 18}}" for index, count in enumerate(counts))
        )
    happened = Counter(str(event.get("event")) for event in findings.events)
    rows += ["", "what the workers did"]
    rows += [f"  {name:<24} {happened[name]:>8}" for name in _COUNTED]
    again = sum(
        event.get("attempts", 1) > 1 for event in findings.events if event.get("event") == "segment_committed"
    )
    rows.append(f"  {'  of which by several PUTs':<24} {again:>6}")
    rows.append(f"  {'supervisors that ended':<24} {len(findings.exits):>8}   codes {sorted(findings.exits)}")
    rows.append(f"  {'codes at the last stop':<24} {'':>8}   codes {list(findings.stop_codes)}")
    rows.append(f"  {'stalls after the faults':<24} {findings.stalls:>8}")
    hostile = [] if findings.hostile is None else findings.hostile.rows()
    followed = [] if findings.table is None else findings.table.rows_of_report()
    return "\n".join([*rows, *hostile, *_verdict_rows(findings), *followed])


def _verdict_rows(findings: Findings) -> list[str]:
    verdict = findings.verdict
    counts = {
        "records sent": verdict.sent,
        "archived": verdict.archived,
        "lost": len(verdict.lost),
        "duplicated": len(verdict.duplicated),
        "wrong bytes": len(verdict.altered),
        "never sent": len(verdict.unknown),
        "chain breaks": len(verdict.broken),
        "checkpoints off a segment's end": len(findings.wrong_checkpoints),
        "boundaries published": len(findings.boundaries),
        "of which name gaps": sum(bool(marker.gaps) for marker in findings.boundaries),
        "false boundaries": len(findings.false_boundaries),
        "refusals (codes 2, 6)": len(findings.refusals),
    }
    rows = ["", "the archive against the ledger", *(f"  {name:<32} {count:>8}" for name, count in counts.items())]
    samples: dict[str, Sequence[object]] = {
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "wrong bytes": verdict.altered,
        "never sent": verdict.unknown,
        "chain": verdict.broken,
        "checkpoint": findings.wrong_checkpoints,
        "boundary": findings.false_boundaries,
    }
    rows += [f"  {name}: {sample}" for name, found in samples.items() for sample in found[:10]]
    return rows


def _epoch_ms(timestamp: str) -> int:
    return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
