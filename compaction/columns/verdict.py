"""The audit's part on typed columns: equations that must balance, and findings for misfits.

    rows = fitted + unfit                               rows whose `_unfit` is null, and the others
    rows = filled + empty + unfit                       of each column, and each leaf of a struct
    elements = filled + empty + unfit                   of each leaf within a list, as counted in the payloads
    rows = on_time + late + early + without             with `--event-time`: the first three by event day
    without = empty + unfit                             of the column `event_time`
    records = rows that are the first of their record   where a record may hold several events

The terms of each equation are counted independently. If they do not balance, the day is held: a row could lie in a
wrong partition. Misfits are no defect of the archive but warnings, and do not change the verdict.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from compaction.columns.columns import UNFIT, Columns
from compaction.columns.counts import First, LeafCount, Sample, TypedCounts, total
from compaction.columns.misfits import LIST, PAYLOAD
from compaction.columns.unknown_keys import MOST_KEYS
from compaction.verdict.audit_document import (
    AuditCheck,
    EventDay,
    Events,
    FirstValue,
    Misfits,
    Typed,
    TypedColumn,
    TypedLeaf,
    UnknownKey,
    UnknownKeys,
)
from compaction.verdict.findings import Code, Finding, finding
from minutebook.format.day import Day
from minutebook.format.minute import minute_of, minute_text

CHECK: Final = "typed_columns"
_EVENT_CHECK: Final = "event_time"
_RECORDS_CHECK: Final = "events_of_records"


class TypedResult(NamedTuple):
    """The typed part of an audit."""

    numbers: Typed
    checks: tuple[AuditCheck, ...]
    findings: tuple[Finding, ...]


def judge_columns(
    columns: Columns, counted: Sequence[TypedCounts | None], rows: int, day: Day, records: int | None = None
) -> TypedResult:
    """Sum the counts of a day's files, which hold `rows` rows of `records` records (None: as many)."""
    known = [counts for counts in counted if counts is not None]
    counts = total(known) if known else TypedCounts(0, 0, ())
    numbers = _numbers(columns, counts, rows, _events(columns, counts, day))
    further = [] if numbers.events is None else [_event_check(numbers.events)]
    if records is not None:
        further.append(_records_check(counts.records or 0, records, rows))
        numbers = msgspec.structs.replace(numbers, balanced=numbers.balanced and (counts.records or 0) == records)
    return TypedResult(numbers, (_check(numbers), *further), tuple(map(_finding, counts.samples)))


def _numbers(columns: Columns, counts: TypedCounts, rows: int, events: Events | None) -> Typed:
    types = columns.types
    sums = {each.filled + each.empty + each.unfit for each in counts.columns}
    return Typed(
        digest=columns.digest,
        rows=rows,
        fitted=counts.rows - counts.unfit,
        unfit=counts.unfit,
        balanced=counts.rows == rows
        and sums <= {rows}
        and not _unbalanced(counts.leaves, rows)
        and (events is None or events.balanced),
        columns=tuple(
            TypedColumn(type=types[each.name], first=_first(at), **each._asdict())
            for each, at in zip(counts.columns, counts.firsts, strict=True)
        ),
        misfits=tuple(
            Misfits(column=each.column, reason=each.kind, rows=each.rows, values=each.values)
            for each in counts.samples
        ),
        events=events,
        leaves=tuple(TypedLeaf(**leaf._asdict()) for leaf in counts.leaves),
        unknown=UnknownKeys(
            sample=counts.keys.payloads,
            found=len(counts.keys.keys),
            keys=tuple(UnknownKey(**key._asdict()) for key in counts.keys.keys[:MOST_KEYS]),
            more=counts.keys.more,
        ),
    )


def _unbalanced(leaves: Iterable[LeafCount | TypedLeaf], rows: int) -> list[str]:
    """Return the leaves whose values do not add up."""
    return [
        leaf.name
        for leaf in leaves
        if leaf.filled + leaf.empty + leaf.unfit != leaf.values or (LIST not in leaf.name and leaf.values != rows)
    ]


def _events(columns: Columns, counts: TypedCounts, day: Day) -> Events | None:
    """Sum the rows by event day; None without `--event-time`."""
    if columns.event is None:
        return None
    known = {number: rows for number, rows in counts.events if number is not None}
    without = sum(rows for number, rows in counts.events if number is None)
    column = counts.columns[-1] if counts.columns else None
    missing = 0 if column is None else column.empty + column.unfit
    time = columns.columns[-1]
    return Events(
        path=time.path,
        type=time.type.text,
        window_days=columns.event.window_days,
        on_time=known.get(day.number, 0),
        late=sum(rows for number, rows in known.items() if number < day.number),
        early=sum(rows for number, rows in known.items() if number > day.number),
        without=without,
        balanced=without == missing and sum(known.values()) + without == counts.rows,
        days=tuple(EventDay(day=str(Day(number)), rows=rows) for number, rows in sorted(known.items())),
    )


def _event_check(events: Events) -> AuditCheck:
    message = f"on time {events.on_time} + late {events.late} + early {events.early} + without {events.without}"
    return AuditCheck(id=_EVENT_CHECK, status="pass" if events.balanced else "fail", message=message)


def _first(at: First | None) -> FirstValue | None:
    if at is None:
        return None
    return FirstValue(shard=at.shard, position=str(at.position), minute=minute_text(minute_of(at.arrival_ms)))


def _check(typed: Typed) -> AuditCheck:
    wrong = [each.name for each in typed.columns if each.filled + each.empty + each.unfit != typed.rows]
    wrong += _unbalanced(typed.leaves, typed.rows)
    wrong += [] if typed.events is None or typed.events.balanced else ["the days of events"]
    message = f"rows {typed.rows} = fitted {typed.fitted} + unfit {typed.unfit}"
    if wrong:
        message += f", and the values of {', '.join(wrong[:20])} do not add up to them"
    return AuditCheck(id=CHECK, status="pass" if typed.balanced else "fail", message=message)


def _records_check(first: int, records: int, rows: int) -> AuditCheck:
    """Compare the records that were written with the rows that are the first of theirs."""
    message = f"{rows} rows of {records} records, {first} of them the first of a record"
    return AuditCheck(id=_RECORDS_CHECK, status="pass" if first == records else "fail", message=message)


def _finding(sample: Sample) -> Finding:
    where = f"values of column {sample.column}"
    if sample.column == PAYLOAD or sample.column.startswith(f"{PAYLOAD} ("):
        where = f"payloads{sample.column.removeprefix(PAYLOAD)}"
    whose = "their rows say" if sample.rows == sample.values else f"their {sample.rows:,} rows say"
    shards = {shard for shard, _ in sample.positions}
    return finding(
        Code.UNFIT_PAYLOAD,
        f"{sample.values:,} {where} do not fit: {sample.kind.replace('_', ' ')}; {whose} why in {UNFIT}",
        severity="warning",
        shard=next(iter(shards)) if len(shards) == 1 else None,
        positions=[position for _, position in sample.positions],
        count=sample.rows,
    )
