"""Changes of a day's pointer, each by one conditional write.

That columns do not fit a table is known by the commit, after the audit was written. The day's Parquet is published
and the table keeps what it had: nothing is wrong with the archive, so each column is a warning.
"""

import msgspec
import structlog

from compaction.audit.rejudge import Rejudged
from compaction.night.generation_name import audit_in_doubt, audit_of
from compaction.publish.publisher import Publisher
from compaction.tables.commit import TableCommit
from compaction.tables.plan import NEXT_STEP, Conflict
from compaction.verdict.audit_document import Audit, AuditCheck, FirstValue, decode_audit, encode_audit
from compaction.verdict.exit_code import UNREAD
from compaction.verdict.findings import Code, ColumnConflict, Finding, ordered
from minutebook.clock import IdSource
from minutebook.errors import FormatError, StoreError
from minutebook.published.generation import Current, Manifest, Pointer, PointerVerdict, audit_key, inventory_beside
from minutebook.published.schema import SCHEMA


class PointerUpdate:
    """The pointer of one day, for one run; `again` is the command line that does the same again."""

    def __init__(self, publisher: Publisher, new_id: IdSource, event_id: str | None, again: str) -> None:
        self._publisher = publisher
        self._new_id = new_id
        self._event_id = event_id
        self._again = again

    def swap(
        self, manifest: Manifest, current: Current, written_at: str, judged: PointerVerdict | None = None
    ) -> bool:
        """Point readers at the generation; log and return False when another run published meanwhile.

        `written_at` is the time since which readers see its files.
        """
        swapped = self._publisher.swap_pointer(manifest, current, self._new_id(), written_at, judged)
        return self._logged(manifest.day, manifest.generation, swapped=swapped)

    def withdraw(self, current: Current, generation: str, key: str, audit: Audit) -> bool:
        """Store the audit of a held generation, and give its verdict to the published one, whose rows stay readable.

        The pointer, if any, is about the scope of the held one. False: another run swapped the pointer meanwhile, or
        made one: it may have listed the day before what keeps this one from publishing it.
        """
        pointer, judged = current.pointer, PointerVerdict(audit.verdict, key)
        self._publisher.put_audit(key, encode_audit(audit))
        if pointer is None or (pointer.verdict, pointer.audit) == judged:
            is_same = self._publisher.replaceable() == current
            return self._logged(audit.scope.day, generation, swapped=is_same)
        swapped = self._publisher.swap_verdict(current, self._new_id(), judged)
        return self._logged(pointer.day, generation, swapped=swapped)

    def withdraw_doubted(self, doubted: Pointer, reason: str, now: str) -> bool:
        """Give a clean verdict up that is in doubt, and that could not be judged again; the rows stay readable.

        It rests on nothing but the pointer: its audit is stored again with the `reason` where it can be read, so that
        the next judgement goes by its facts. False: another run has changed the pointer meanwhile, or does so now.
        """
        current, publisher = self._publisher.replaceable(), self._publisher
        if current.pointer != doubted:
            return False
        key = audit_key(doubted)
        try:
            body = publisher.audit(doubted)
            audit = None if body is None else decode_audit(body, key)
        except (FormatError, StoreError):
            audit = None
        if audit is not None:
            doubt = AuditCheck(id=UNREAD, status="unknown", message=reason)
            checks = (*(check for check in audit.checks if check.id != UNREAD), doubt)
            clean = inventory_beside(doubted.manifest)
            basis = audit.basis and msgspec.structs.replace(audit.basis, judged_from=now, clean_inventory=clean)
            audit = msgspec.structs.replace(
                audit, audited_at=now, verdict="unknown", checks=checks, basis=basis, accepted=None
            )
            key = publisher.folder.audit(doubted.generation, audit_in_doubt(doubted, reason))
            publisher.put_audit(key, encode_audit(audit))
        swapped = publisher.swap_verdict(current, self._new_id(), PointerVerdict("unknown", key))
        return self._logged(doubted.day, doubted.generation, swapped=swapped)

    @staticmethod
    def _logged(day: str, generation: str, *, swapped: bool) -> bool:
        if not swapped:
            structlog.get_logger().warning(
                "publish_lost",
                day=day,
                generation=generation,
                next_step="expected when two runs work at once; the day is listed again",
            )
        return swapped

    def add_conflicts(self, manifest: Manifest, judged: Rejudged, commit: TableCommit | None) -> Audit:
        """Store the audit with the columns that keep the day out of the table, or without those of an earlier commit.

        Where another run has published meanwhile, it does this for its own audit.
        """
        audit = judged.audit if commit is None else _with_conflicts(judged.audit, commit, self._again)
        if audit == judged.audit:
            return audit
        current, folder = self._publisher.current(), self._publisher.folder
        manifest_key = folder.manifest(manifest.generation, manifest.writer)
        if current.pointer is not None and current.pointer.manifest == manifest_key:
            key = folder.audit(manifest.generation, audit_of(judged.examined, self._event_id, audit))
            self._publisher.put_audit(key, encode_audit(audit))
            self.swap(manifest, current, current.pointer.written_at, PointerVerdict(audit.verdict, key))
        return audit


def _with_conflicts(audit: Audit, commit: TableCommit, again: str) -> Audit:
    """Return the audit with the conflicts of a commit, in the place of those of an earlier one."""
    conflicts = [_conflict_finding(commit.table, conflict, audit, again) for conflict in commit.conflicts]
    others = [about for about in audit.findings if about.code != Code.TABLE_CONFLICT]
    if not conflicts and len(others) == len(audit.findings):
        return audit
    check = AuditCheck(id=Code.TABLE_CONFLICT.value, status="pass")
    if conflicts:
        check = AuditCheck(id=check.id, status="warning", message=f"{len(conflicts)} finding(s)")
    checks = tuple(check if before.id == check.id else before for before in audit.checks)
    return msgspec.structs.replace(audit, findings=tuple(ordered([*others, *conflicts])), checks=checks)


def _conflict_finding(table: str, conflict: Conflict, audit: Audit, again: str) -> Finding:
    first = _first_value(conflict, audit)
    where = "no row has a value in it" if first is None else "the first row with a value is named"
    return Finding(
        code=Code.TABLE_CONFLICT.value,
        severity="warning",
        message=f"{conflict}: the day is published, and not in {table}, which keeps what it had; {where}. "
        f"What to do: {NEXT_STEP}",
        shard=None if first is None else first.shard,
        minute=None if first is None else first.minute or None,
        positions=() if first is None else (first.position,),
        reproduce=again,
        conflict=ColumnConflict(
            table=table, column=conflict.column, table_type=conflict.has, day_type=conflict.comes
        ),
    )


def _first_value(conflict: Conflict, audit: Audit) -> FirstValue | None:
    """Return the first row that has a value; of columns that every row has the first one of the first shard."""
    name = conflict.column.partition(".")[0]
    if name in SCHEMA.names:
        firsts = ((row.shard, row.first) for row in audit.shards if row.first is not None)
        return next((FirstValue(shard=shard, position=first, minute="") for shard, first in firsts), None)
    if audit.typed is None or any(leaf.name == conflict.column and not leaf.filled for leaf in audit.typed.leaves):
        return None
    return next((column.first for column in audit.typed.columns if column.name == name), None)
