"""What an audit says of the time of events: which days the rows of one day of arrival belong to.

    rows = on_time + late + early + without             the first three by the day of the event itself
    without = empty + unfit                             of the column `event_time`

What is on the right of the second line is counted where values are judged, what is on its left in the column that is
written. Where the two differ a row would lie in a partition that is not its own: the day is held back.
"""

from archive.format.day import Day
from compaction.typed.columns import Columns
from compaction.typed.counts import TypedCounts
from compaction.verdict.audit_document import AuditCheck, EventDay, Events

CHECK = "event_time"


def judge_events(columns: Columns, counts: TypedCounts, day: Day) -> Events | None:
    """Sum up the rows by the day of their events; None where nobody asked."""
    if columns.event is None:
        return None
    known = {number: rows for number, rows in counts.events if number is not None}
    without = sum(rows for number, rows in counts.events if number is None)
    column = counts.columns[-1] if counts.columns else None
    missing = 0 if column is None else column.empty + column.unfit
    asked = columns.columns[-1]
    return Events(
        path=asked.path,
        type=asked.type.text,
        window_days=columns.event.window_days,
        on_time=known.get(day.number, 0),
        late=sum(rows for number, rows in known.items() if number < day.number),
        early=sum(rows for number, rows in known.items() if number > day.number),
        without=without,
        balanced=without == missing and sum(known.values()) + without == counts.rows,
        days=tuple(EventDay(day=str(Day(number)), rows=rows) for number, rows in sorted(known.items())),
    )


def check_of(events: Events) -> AuditCheck:
    """Return the check that goes with the numbers."""
    message = f"on time {events.on_time} + late {events.late} + early {events.early} + without {events.without}"
    return AuditCheck(id=CHECK, status="pass" if events.balanced else "fail", message=message)
