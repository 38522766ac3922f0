"""What an audit says of a day whose columns do not fit an Iceberg table.

The day's Parquet is published, and the table keeps what it had: nothing is wrong with the archive, so each column is
a warning. It is found by the commit, after the audit was written: that is written again, and the pointer names it.
"""

import msgspec

from compaction.publish.conflicts import NEXT_STEP, Conflict
from compaction.tables.commit import TableCommit
from compaction.verdict.audit_document import Audit, AuditCheck, FirstValue
from compaction.verdict.findings import Code, ColumnConflict, Finding, ordered
from minutebook.published.schema import SCHEMA


def with_conflicts(audit: Audit, commit: TableCommit) -> Audit:
    """Return the audit with the conflicts of a commit, in the place of those of an earlier one."""
    conflicts = [_finding(commit.table, conflict, audit) for conflict in commit.conflicts]
    others = [about for about in audit.findings if about.code != Code.TABLE_CONFLICT]
    if not conflicts and len(others) == len(audit.findings):
        return audit
    findings = tuple(ordered([*others, *conflicts]))
    check = _check(len(conflicts))
    checks = tuple(check if was.id == check.id else was for was in audit.checks)
    return msgspec.structs.replace(audit, findings=findings, checks=checks)


def _check(findings: int) -> AuditCheck:
    if not findings:
        return AuditCheck(id=Code.TABLE_CONFLICT.value, status="pass")
    return AuditCheck(id=Code.TABLE_CONFLICT.value, status="warning", message=f"{findings} finding(s)")


def _finding(table: str, conflict: Conflict, audit: Audit) -> Finding:
    first = _first(conflict, audit)
    where = "no row has a value in it" if first is None else "the first row with a value is named"
    return Finding(
        code=Code.TABLE_CONFLICT.value,
        severity="warning",
        message=f"{conflict}: the day is published, and not in {table}, which keeps what it had; {where}. "
        f"What to do: {NEXT_STEP}",
        shard=None if first is None else first.shard,
        minute=None if first is None else first.minute or None,
        positions=() if first is None else (first.position,),
        conflict=ColumnConflict(
            table=table, column=conflict.column, table_type=conflict.has, day_type=conflict.comes
        ),
    )


def _first(conflict: Conflict, audit: Audit) -> FirstValue | None:
    """Return the first row that has a value; of columns that every row has the first one of the first shard."""
    name = conflict.column.partition(".")[0]
    if name in SCHEMA.names:
        firsts = ((each.shard, each.first) for each in audit.shards if each.first is not None)
        return next((FirstValue(shard=shard, position=first, minute="") for shard, first in firsts), None)
    columns = () if audit.typed is None else audit.typed.columns
    return next((column.first for column in columns if column.name == name), None)
