"""A day that was examined, before the verdict is written down; and the result that a person is shown."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from compaction.audit.copies import ProducerDuplicates
from compaction.audit.coverage import DayCoverage
from compaction.audit.day_auditor import DayAuditor, Judgement
from compaction.audit.day_view import DayView
from compaction.audit.shards.minutes import Minutes
from compaction.hours.kept import DoneTask
from compaction.inventory.day_objects import DayObjects
from compaction.tasks.finished import Part
from compaction.tasks.merging import Repeat
from compaction.tasks.task import TaskResult
from compaction.verdict.audit_document import Audit
from compaction.verdict.findings import Finding
from minutebook.index.last_segments import LastSegment


class DayResult(NamedTuple):
    """The audit, and what the report's pictures are drawn from."""

    audit: Audit
    minutes: Mapping[str, Minutes]


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
        """Return what the results of tasks add up to."""
        return cls(
            len(results),
            sum(result.is_earlier for result in results),
            sum(result.is_taken for result in results),
            tuple(
                DoneTask(result.first, result.kept, result.part.key)
                for result in results
                if result.part is not None and result.first
            ),
            sum(result.read for result in results),
        )


class Examined(NamedTuple):
    """A day that was examined.

    `is_in_motion`: its objects changed each time while they were read, so what is missing may not be.
    """

    view: DayView
    auditor: DayAuditor
    judgement: Judgement
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
        return self.view.inventory

    @property
    def chain_findings(self) -> list[Finding]:
        """Findings about the links between segments, and about times that nothing proves."""
        return [*self.judgement.chain_findings, *self.coverage.findings]

    @property
    def minutes(self) -> dict[str, Minutes]:
        """What each shard holds, by minute."""
        return {shard: judged.minutes for shard, judged in self.judgement.shards.items()}

    @property
    def ends(self) -> dict[str, LastSegment]:
        """Where each shard's chain stood when the day ended."""
        shards = self.view.markers.shards
        return self.judgement.ends({shard for shard, markers in shards.items() if markers.end is not None})
