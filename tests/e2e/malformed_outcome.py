"""What became of a run with malformed aggregates: the archive against the ledger, and who named what is not in it."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.stream.kinesis import ArchivedStream
from compaction.verdict.findings import Code, Finding
from demo.embedded import REGION, EmbeddedAws
from demo.readback import StoredSegment, Verdict, compare
from minutebook.clock import SystemClock
from minutebook.format.aggregate import Fault
from minutebook.format.coverage_markers import SKIPPED, UNDELIVERED
from minutebook.format.day import Day
from minutebook.format.markers import EndMarker
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.owner import StreamOwner
from minutebook.store.storage import Address
from tests.corpus.auditing import answer_later, job_context
from tests.e2e.harness import PREFIX, Application
from tests.witness.events import EventLog

_SHOWN: Final = 5


class Withheld(NamedTuple):
    """A Kinesis record of which KCL delivers not all; `subs` are the user records that it withholds."""

    kind: str
    shard: str
    sequence: int
    fault: Fault | None
    subs: tuple[int, ...]


class Life(NamedTuple):
    """How the worker lived: its lines, its exit code, and how long it all took."""

    events: EventLog
    exit_code: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was seen. `told` are the sequence numbers that lines name whose aggregates' rests KCL dropped.

    `undelivered` is what is kept beside the archive, by shard and sequence number; `ends` are those of closed shards,
    `tails` the last position of each shard that must be archived.
    """

    sent: Mapping[str, int]
    withheld: Sequence[Withheld]
    verdict: Verdict
    life: Life
    told: Sequence[int]
    ends: Mapping[str, EndMarker]
    tails: Mapping[str, Position]
    checkpoints: Mapping[str, str]
    undelivered: frozenset[tuple[str, int]]
    skipped: Sequence[str]
    findings: Sequence[Finding]

    @property
    def rests(self) -> list[int]:
        """The sequence numbers of the records whose rest KCL drops with a line."""
        return sorted(one.sequence for one in self.withheld if one.fault is Fault.MALFORMED)

    @property
    def missing(self) -> Counter[str]:
        """How many user records the audit calls missing, by shard."""
        counts: Counter[str] = Counter()
        for found in self.findings:
            if found.code == Code.MISSING_IN_ARCHIVE:
                counts[str(found.shard)] += found.count
        return counts

    def wrong(self) -> list[str]:
        """Return which claims do not hold, in words."""
        return [words for words, holds in self.claims().items() if not holds]

    def claims(self) -> dict[str, bool]:
        """Return what has to be, and whether it is."""
        return {
            "no record is lost, doubled or altered, and no chain broken": self.verdict.is_clean,
            "each rest of an aggregate that KCL drops is told once": sorted(self.told) == self.rests,
            "no batch is skipped": not self.life.events.all("kcl_skipped", skipped="batch") and not self.skipped,
            "one daemon runs from the beginning to an orderly end": self._is_orderly(),
            "each closed shard's end is proven and checkpointed": self._are_ended(),
            "what lies behind the end of a closed shard is kept and named": self._is_kept(),
            "the audit counts each withheld record as missing, and no other": self._is_audited(),
            f"the audit finds nothing else: {sorted({found.code for found in self.findings})}": self._finds_no_more(),
        }

    def _finds_no_more(self) -> bool:
        """Return whether the audit finds what was withheld and what is kept; beside them warnings alone.

        On a busy machine the emulator may stamp records late enough for a step back to be worth a look.
        """
        codes = {found.code for found in self.findings}
        worse = {found.code for found in self.findings if found.severity != "warning"}
        return Code.UNDELIVERED in codes and worse == {Code.MISSING_IN_ARCHIVE}

    def _is_orderly(self) -> bool:
        events = self.life.events
        failures = [*events.all("processor_failed"), *events.all("processor_killed"), *events.all("slot_lost")]
        return (len(events.all("daemon_started")), failures, self.life.exit_code) == (1, [], 0)

    def _are_ended(self) -> bool:
        """KCL deletes rows of ended shards after a while."""
        stands = {self.checkpoints.get(shard, "SHARD_END") for shard in self.ends}
        return stands == {"SHARD_END"} and {end.proof for end in self.ends.values()} == {"read"}

    def _is_kept(self) -> bool:
        named = {(shard, int(sequence)) for shard, end in self.ends.items() for sequence in end.undelivered}
        behind = {
            (one.shard, one.sequence)
            for one in self.withheld
            if one.shard in self.ends and one.sequence >= self.tails[one.shard].sequence
        }
        told = sum(found.count for found in self.findings if found.code == Code.UNDELIVERED)
        return named == behind == self.undelivered and told == len(behind)

    def _is_audited(self) -> bool:
        """Behind the last record of a shard that is archived, nothing is missing: it is to come, or kept."""
        places = {(one.shard, Position(one.sequence, sub)) for one in self.withheld for sub in one.subs}
        passed = {(shard, str(place)) for shard, place in places if place < self.tails[shard]}
        shown = {
            (str(found.shard), position)
            for found in self.findings
            if found.code == Code.MISSING_IN_ARCHIVE
            for position in found.positions
        }
        return self.missing == Counter(shard for shard, _ in passed) and shown <= passed

    def table(self) -> str:
        """Return the report as text."""
        rows = ["", f"{'malformed':<34}{'sent':>8}  of which KCL delivers not all"]
        for kind, count in sorted(self.sent.items()):
            faults = Counter(str(one.fault or "empty") for one in self.withheld if one.kind == kind)
            rows.append(
                f"  {kind:<32}{count:>8}  " + ", ".join(f"{n} {fault}" for fault, n in sorted(faults.items()))
            )
        verdict, life = self.verdict, self.life
        counts: dict[str, object] = {
            "malformed records sent": sum(self.sent.values()),
            "user records to be archived": verdict.sent,
            "archived": verdict.archived,
            "lost": len(verdict.lost),
            "doubled": len(verdict.duplicated),
            "wrong bytes, never sent, chain breaks": len([*verdict.altered, *verdict.unknown, *verdict.broken]),
            "user records withheld by KCL": sum(len(one.subs) for one in self.withheld),
            "called missing by the audit": self.missing.total(),
            "rests of aggregates dropped": len(self.rests),
            "lines that tell of one": len(self.told),
            "kept under _undelivered/": len(self.undelivered),
            "kept under _skipped/": len(self.skipped),
            "ends of closed shards": ", ".join(end.proof for end in self.ends.values()),
            "daemons started": len(life.events.all("daemon_started")),
            "exit code": life.exit_code,
            "seconds until the stop": round(life.seconds),
        }
        rows += ["", *(f"{name:<38}{value!s:>10}" for name, value in counts.items())]
        wrong = (verdict.lost, verdict.duplicated, verdict.altered, verdict.unknown, verdict.broken)
        rows += [f"  {sample}" for found in wrong for sample in found[:_SHOWN]]
        codes = Counter(found.code for found in self.findings)
        rows += ["", "the audit's findings: " + ", ".join(f"{count} {code}" for code, count in sorted(codes.items()))]
        return "\n".join([*rows, *(f"does not hold: {words}" for words in self.wrong())])


def look(
    app: Application,
    aws: EmbeddedAws,
    life: Life,
    sent: Mapping[str, int],
    withheld: Sequence[Withheld],
    *,
    closed: Sequence[str],
) -> Outcome:
    """Read everything back, and audit it against the stream."""
    segments = app.segments()
    verdict = compare(segments, app.producer.fingerprints())
    keys = [row.key.removeprefix(PREFIX) for row in app.store.list_objects(PREFIX)]
    names = [key.split("/") for key in keys if key.startswith(UNDELIVERED)]
    rests = life.events.all("kcl_skipped", skipped="aggregate_rest")
    return Outcome(
        sent=sent,
        withheld=withheld,
        verdict=verdict,
        life=life,
        told=[int(event["sequence_number"] or 0) for event in rests],
        ends={shard: app.end_marker(shard) for shard in closed},
        tails=app.producer.last(),
        checkpoints={shard: row.checkpoint for shard, row in app.leases().items()},
        undelivered=frozenset((shard, int(name.removesuffix(".json"))) for _, _, shard, name in names),
        skipped=[key for key in keys if key.startswith(SKIPPED)],
        findings=_audit(app, aws, segments),
    )


def _audit(app: Application, aws: EmbeddedAws, segments: Sequence[StoredSegment]) -> list[Finding]:
    """Audit the days so far at level `stream`, as if it were two minutes later."""
    clock = SystemClock()
    answer_later(app.kinesis)
    reader = ArchivedStream(app.kinesis, app.name, clock, random.Random(1))
    context = job_context(Address(app.name, "", REGION, aws.s3_endpoint), clock=clock)._replace(
        stream=lambda: reader, shards=reader.listed, owner=StreamOwner(app.name, REGION)
    )
    minutes = {segment.metadata.minute for segment in segments}
    options = AuditOptions(level="stream", so_far_ms=(max(minutes) + 1) * MINUTE_MS)
    days = sorted({Day(minute * MINUTE_MS // Day(1).begin_ms) for minute in minutes})
    return [found for day in days for found in audit_day(context, day, options).audit.findings]
