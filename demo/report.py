"""The demo's last picture: what was sent, what the archive holds, and how long the recoveries took."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from demo.ledger import LedgerTotals
from demo.readback import StoredSegment, Verdict
from demo.scenario import Outcome

_SAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Everything that is told at the end. `puts` counts the PUTs of segments, those that lost a slot included."""

    verdict: Verdict
    segments: Sequence[StoredSegment]
    totals: LedgerTotals
    outcome: Outcome
    puts: int

    @property
    def is_proven(self) -> bool:
        """Tell whether the archive is right, and the zombie was really fenced."""
        return self.verdict.is_clean and self.outcome.fenced > 0


def print_report(console: Console, findings: Findings) -> None:
    """Print the table, then a few samples of everything that is wrong."""
    table = Table(title="What was sent, and what the archive holds", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in _rows(findings):
        table.add_row(name, value)
    console.print(table)
    verdict = findings.verdict
    for line in verdict.broken[:_SAMPLES]:
        console.print(f"[red]{line}[/]", highlight=False, soft_wrap=True)
    wrong = (
        ("lost", verdict.lost),
        ("duplicated", verdict.duplicated),
        ("altered", verdict.altered),
        ("unknown", verdict.unknown),
    )
    for name, places in wrong:
        for place in places[:_SAMPLES]:
            console.print(f"[red]{name}: {place.shard_id} {place.position}[/]", highlight=False, soft_wrap=True)
    if not findings.outcome.fenced:
        console.print("[red]the frozen worker sent no late PUT: the scenario proved less than it should[/]")


def _rows(findings: Findings) -> list[tuple[str, str]]:
    verdict, outcome = findings.verdict, findings.outcome
    per_minute = Counter((one.metadata.shard_id, one.metadata.minute) for one in findings.segments)
    return [
        ("sent (acknowledged by the stream)", f"{verdict.sent:,}"),
        ("  of these, producer retries", f"{findings.totals.retries:,}"),
        ("archived", f"{verdict.archived:,}"),
        ("lost", f"{len(verdict.lost):,}"),
        ("duplicated", f"{len(verdict.duplicated):,}"),
        ("altered or unknown", f"{len(verdict.altered) + len(verdict.unknown):,}"),
        ("broken chains", f"{len(verdict.broken):,}"),
        ("minutes of arrival", f"{_arrival_minutes(findings.segments):.1f}"),
        ("objects", f"{len(findings.segments):,} of {len({shard for shard, _ in per_minute})} shards"),
        ("PUTs per shard and minute", f"{findings.puts / max(1, len(per_minute)):.2f}"),
        ("late PUTs of the frozen worker, all refused", f"{outcome.fenced}"),
        ("its shards taken over after", f"{outcome.takeover_seconds:.0f} s"),
        *((f"{one.what}: back after", f"{one.seconds:.0f} s") for one in outcome.recoveries),
    ]


def _arrival_minutes(segments: Sequence[StoredSegment]) -> float:
    """Return the time between the first and the last arrival, in minutes; 0 for an empty archive."""
    if not segments:
        return 0.0
    last = max(segment.metadata.arrival_max_ms for segment in segments)
    return (last - min(segment.metadata.arrival_min_ms for segment in segments)) / 60_000
