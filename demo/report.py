"""The demo's last picture: what was sent, what the archive holds, and how long the recoveries took."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from rich.console import Console
from rich.table import Table

from demo.nightly import Nightly
from demo.onwards import Onwards
from demo.readback import StoredSegment, Verdict
from demo.retries import Retries
from demo.scenario import Outcome
from demo.tamper import Tampered

_SAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Everything that is told at the end. `puts` counts the PUTs of segments, those that lost a slot included."""

    verdict: Verdict
    segments: Sequence[StoredSegment]
    retries: Retries
    outcome: Outcome
    puts: int
    onwards: Onwards | None = None
    nightly: Nightly | None = None
    tampered: Sequence[Tampered] = ()

    def with_nightly(self, nightly: Nightly | None) -> Self:
        """Return these findings and what the nightly job found."""
        return replace(self, nightly=nightly)

    def with_tampered(self, tampered: Sequence[Tampered]) -> Self:
        """Return these findings and what the audit said of the broken copies."""
        return replace(self, tampered=tampered)

    @property
    def is_proven(self) -> bool:
        """Tell whether the archive is right by both witnesses, and the scenario proved what it should."""
        is_archived = self.verdict.is_clean and self.retries.is_right
        is_told = self.outcome.fenced > 0 and self.retries.is_telling
        is_exact = self.onwards is None or self.onwards.is_exact
        return (
            is_archived
            and is_told
            and is_exact
            and self.is_compacted
            and all(copy.is_named for copy in self.tampered)
        )

    @property
    def is_compacted(self) -> bool:
        """Tell whether the nightly job, if it ran, calls the day clean, and wrote each line once: Parquet, table."""
        if self.nightly is None:
            return True
        lines = Counter(record.ref.shard_id for segment in self.segments for record in segment.records)
        return self.nightly.is_clean and self.nightly.holds(lines)


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
    for name, refs in wrong:
        for ref in refs[:_SAMPLES]:
            console.print(f"[red]{name}: {ref.shard_id} {ref.position}[/]", highlight=False, soft_wrap=True)
    for name, texts in (("lost event", findings.retries.lost), ("misnamed", findings.retries.misnamed)):
        for text in texts[:_SAMPLES]:
            console.print(f"[red]{name}: {text}[/]", highlight=False, soft_wrap=True)
    if not findings.retries.is_telling:
        console.print("[red]not every kind of producer retry was sent: the scenario proved less than it should[/]")
    if not findings.outcome.fenced:
        console.print("[red]the frozen worker sent no late PUT: the scenario proved less than it should[/]")


def print_nightly(console: Console, nightly: Nightly) -> None:
    """Print the verdict, the rows of each shard, and where reports, Parquet and table are."""
    console.print(
        "the Parquet and the table, asked for count(*) by shard_id; audited at level stream", highlight=False
    )
    table, followed = Table(), nightly.table
    table.add_column("shard_id")
    table.add_column("rows", justify="right")
    table.add_column("in the table", justify="right")
    for shard_id, count in nightly.rows.items():
        table.add_row(shard_id, f"{count:,}", "" if followed is None else f"{followed.by_shard.get(shard_id, 0):,}")
    table.add_row("all", f"{sum(nightly.rows.values()):,}", "" if followed is None else f"{followed.total:,}")
    console.print(table)
    if not nightly.is_clean:
        console.print("[red]the nightly job does not call the archive clean[/]")
    for report in nightly.reports:
        console.print(f"report:  {report}", highlight=False, soft_wrap=True)
    console.print(f"Parquet: {nightly.parquet}", highlight=False, soft_wrap=True)
    if followed is not None:
        console.print(f"table:   {followed.metadata}", highlight=False, soft_wrap=True)


def _rows(findings: Findings) -> list[tuple[str, str]]:
    verdict, outcome = findings.verdict, findings.outcome
    per_minute = Counter((segment.metadata.shard_id, segment.metadata.minute) for segment in findings.segments)
    return [
        ("sent (acknowledged by the stream)", f"{verdict.sent:,}"),
        ("  of these, producer retries", f"{findings.retries.sent:,}"),
        ("archived, lines and dropped duplicates", f"{verdict.archived:,}"),
        ("lost", f"{len(verdict.lost):,}"),
        ("duplicated", f"{len(verdict.duplicated):,}"),
        ("altered or unknown", f"{len(verdict.altered) + len(verdict.unknown):,}"),
        ("broken chains", f"{len(verdict.broken):,}"),
        *_retry_rows(findings.retries),
        ("minutes of arrival", f"{_arrival_minutes(findings.segments):.1f}"),
        ("objects", f"{len(findings.segments):,} of {len({shard for shard, _ in per_minute})} shards"),
        ("PUTs per shard and minute", f"{findings.puts / max(1, len(per_minute)):.2f}"),
        ("late PUTs of the frozen worker, all refused", f"{outcome.fenced}"),
        ("its shards taken over after", f"{outcome.takeover_seconds:.0f} s"),
        *_onward_rows(findings.onwards),
        *((f"{recovery.what}: back after", f"{recovery.seconds:.0f} s") for recovery in outcome.recoveries),
    ]


def _onward_rows(onwards: Onwards | None) -> list[tuple[str, str]]:
    if onwards is None:
        return []
    return [
        ("`minutebook wait`: quiet shards and a split, complete after", f"{onwards.waited_seconds:.0f} s"),
        ("before the cut, behind it (another application)", f"{onwards.before:,}, {onwards.behind:,}"),
        ("  in both, in neither", f"{onwards.in_both:,}, {onwards.in_neither:,}"),
    ]


def _retry_rows(retries: Retries) -> list[tuple[str, str]]:
    if retries.mode is None:
        return [("events (retries are kept: deduplication is off)", f"{retries.events:,}")]
    return [
        (f"events (deduplication: {retries.mode})", f"{retries.events:,}"),
        ("producer retries sent", f"{retries.sent:,}"),
        ("  removed, all of them in _duplicates/", f"{retries.removed:,}"),
        ("    in another shard than the original", f"{retries.across_shards:,}"),
        ("    more than a minute after it", f"{retries.after_a_minute:,}"),
        ("    delivered before a SIGKILL, archived after it", f"{retries.through_a_crash:,}"),
        ("  left in the archive", f"{retries.left:,}"),
        ("events lost", f"{len(retries.lost):,}"),
    ]


def _arrival_minutes(segments: Sequence[StoredSegment]) -> float:
    """Return the time between the first and the last arrival, in minutes; 0 for an empty archive."""
    if not segments:
        return 0.0
    last = max(segment.metadata.arrival_max_ms for segment in segments)
    return (last - min(segment.metadata.arrival_min_ms for segment in segments)) / 60_000
