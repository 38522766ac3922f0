"""A day that was looked at, before the verdict is written down."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from compaction.audit.coverage import DayCoverage
from compaction.audit.day_auditor import DayAuditor
from compaction.audit.judgement import Judgement
from compaction.audit.rules.evidence import AuditEvidence
from compaction.audit.shards.minutes import Minutes
from compaction.hours.kept import DoneTask
from compaction.inventory.day_objects import DayObjects
from compaction.job.day_view import DayView
from compaction.tasks.finished import Part
from compaction.tasks.merging import Repeat
from compaction.tasks.task import TaskResult
from compaction.verdict.audit_document import Audit, AuditCheck
from compaction.verdict.findings import Finding
from minutebook.index.last_segments import LastSegment


class DayResult(NamedTuple):
    """The audit, and what the report's pictures are drawn from."""

    audit: Audit
    minutes: Mapping[str, Minutes]


class ProducerDuplicates(NamedTuple):
    """What was found when the user named the event id. `removed` counts lines that the Parquet files lack."""

    findings: tuple[Finding, ...] = ()
    checks: tuple[AuditCheck, ...] = ()
    removed: int = 0


class WorkDone(NamedTuple):
    """How many tasks read the day's lines, and how many of them an earlier run had done, or runs of hours.

    `done` names those that left facts, or could have; `read` counts the objects whose lines they read.
    """

    tasks: int = 0
    earlier: int = 0
    taken: int = 0
    done: tuple[DoneTask, ...] = ()
    read: int = 0

    @classmethod
    def of(cls, results: Sequence[TaskResult]) -> Self:
        """Return what the results of tasks say."""
        done = (DoneTask(one.first, one.kept, one.part.key) for one in results if one.part is not None and one.first)
        earlier = sum(one.is_earlier for one in results)
        return cls(
            len(results), earlier, sum(one.is_taken for one in results), tuple(done), sum(one.read for one in results)
        )


class Examined(NamedTuple):
    """A day that was looked at, before the verdict is written down.

    `is_in_motion`: its objects changed each time while they were read, so what is missing may not be.
    """

    sight: DayView
    passes: DayAuditor
    judgement: Judgement
    evidence: AuditEvidence
    coverage: DayCoverage
    work: WorkDone = WorkDone()
    repeats: tuple[Repeat, ...] = ()
    parts: tuple[Part, ...] = ()
    dropped: tuple[Finding, ...] = ()
    producers: ProducerDuplicates = ProducerDuplicates()
    restored: int = 0
    is_in_motion: bool = False

    @property
    def inventory(self) -> DayObjects:
        """The day's objects."""
        return self.sight.inventory

    @property
    def of_objects(self) -> list[Finding]:
        """What was found of objects by themselves, and of the links between them."""
        return of_objects(self.sight, self.judgement)

    @property
    def about_chains(self) -> list[Finding]:
        """What was found of the links between segments, and of times that nothing proves."""
        return [*self.judgement.of_chains, *self.coverage.findings]

    @property
    def minutes(self) -> dict[str, Minutes]:
        """What each shard holds, by minute."""
        return {shard: judged.minutes for shard, judged in self.judgement.shards.items()}

    @property
    def ends(self) -> dict[str, LastSegment]:
        """Where each shard's chain stood when the day ended."""
        shards = self.sight.markers.shards
        return self.judgement.ends({shard for shard, markers in shards.items() if markers.end is not None})

    @property
    def repeated(self) -> int:
        """Lines too many."""
        return sum(repeat.surplus for repeat in self.repeats)


def of_objects(sight: DayView, judgement: Judgement) -> list[Finding]:
    """Return what was found of objects by themselves, and of the links between them.

    What was found of lines is left out: coverage takes what is told of a shard for the cause of its gaps.
    """
    return [*judgement.of_names, *sight.markers.findings, *judgement.of_chains]
