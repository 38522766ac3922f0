"""Tell those who wait for boundaries what a judgement found missing in a time that was said to be complete.

A run judges by its own evidence: it needs no boundary, and no verdict depends on whether this succeeds. A day with a
defect is judged every night, so the next one tries again.
"""

from typing import Final

import structlog

from compaction.audit.conclusion import Examined
from compaction.audit.coverage import defect_times
from compaction.job.context import JobContext
from minutebook.completeness.objects import BoundaryObjects
from minutebook.completeness.withdrawing import read_claim, withdraw
from minutebook.errors import FormatError, StoreError

_WHY: Final = "an audit found that something is missing"


def withdraw_boundaries(context: JobContext, examined: Examined) -> None:
    """Withdraw what the newest boundary says of times in which this judgement found something missing.

    Nothing is asked where nothing is missing, or where the day's objects changed while they were read.
    """
    inventory = examined.inventory
    if examined.is_in_motion:
        return
    missing = defect_times(examined.coverage.judged, inventory.shard, examined.judgement.chain_findings)
    if not missing:
        return
    log = structlog.get_logger().bind(day=str(inventory.day))
    objects = BoundaryObjects(context.archive, context.place.prefix)
    try:
        claim = read_claim(objects, context.clock.now_ms())
        withdrawn = () if claim is None else withdraw(objects, claim, missing, _WHY)
    except (FormatError, StoreError) as exc:
        log.warning(
            "boundary_not_withdrawn",
            gaps=len(missing),
            error=str(exc),
            next_step="let this role put objects below _complete/ (deploy/iam): the next night tries again, and "
            "until then minutebook wait calls the time complete",
        )
        return
    if withdrawn:
        log.error(
            "boundary_withdrawn",
            gaps=len(withdrawn),
            next_step="what was said to be complete has a gap: minutebook wait names it, and the findings of the day "
            "say what is missing",
        )
