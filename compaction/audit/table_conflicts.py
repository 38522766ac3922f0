"""What an audit says of a day whose typed columns have other types in an Iceberg table.

The day's Parquet is published, and the table keeps what it had: nothing is wrong with the archive, so each column is
a warning. It is found by the commit, after the audit was written: that is written again, and the pointer names it.
"""

from collections.abc import Sequence

import msgspec

from compaction.iceberg.commit import TableCommit
from compaction.iceberg.plan import Conflict
from compaction.verdict.audit_document import Audit, AuditCheck, FirstValue, Typed
from compaction.verdict.findings import Code, ColumnConflict, Finding, ordered


def with_conflicts(audit: Audit, done: TableCommit) -> Audit:
    """Return the audit with what a commit has found, in the place of what one found before."""
    found = [_finding(done.table, conflict, audit.typed) for conflict in done.conflicts]
    others = [about for about in audit.findings if about.code != Code.TABLE_CONFLICT]
    if not found and len(others) == len(audit.findings):
        return audit
    findings = tuple(ordered([*others, *found]))
    checks = tuple(_check(found) if check.id == Code.TABLE_CONFLICT else check for check in audit.checks)
    return msgspec.structs.replace(audit, findings=findings, checks=checks)


def _check(found: Sequence[Finding]) -> AuditCheck:
    if not found:
        return AuditCheck(id=Code.TABLE_CONFLICT.value, status="pass")
    return AuditCheck(id=Code.TABLE_CONFLICT.value, status="warning", message=f"{len(found)} finding(s)")


def _finding(table: str, conflict: Conflict, typed: Typed | None) -> Finding:
    first = _first(conflict, typed)
    where = "no row has a value in it" if first is None else "the first row with a value is named"
    return Finding(
        code=Code.TABLE_CONFLICT.value,
        severity="warning",
        message=f"{conflict}: the day is published, and not in {table}, which keeps what it had; {where}",
        shard=None if first is None else first.shard,
        minute=None if first is None else first.minute,
        positions=() if first is None else (first.position,),
        conflict=ColumnConflict(
            table=table, column=conflict.column, table_type=conflict.has, day_type=conflict.comes
        ),
    )


def _first(conflict: Conflict, typed: Typed | None) -> FirstValue | None:
    columns = () if typed is None else typed.columns
    name = conflict.column.partition(".")[0]
    return next((column.first for column in columns if column.name == name), None)
