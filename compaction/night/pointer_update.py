"""Changes of a day's pointer, each by one conditional write."""

import structlog

from compaction.audit.rejudge import Rejudged, audit_digest, with_conflicts
from compaction.publish.publisher import Publisher
from compaction.tables.commit import TableCommit
from compaction.verdict.audit_document import Audit, encode_audit
from minutebook.clock import IdSource
from minutebook.errors import FormatError
from minutebook.published.generation import Current, Manifest, PointerVerdict, contradiction


class PointerUpdate:
    """The pointer of one day, for one run. `until`: the run judges the day before that time; None: the whole day."""

    def __init__(self, publisher: Publisher, new_id: IdSource, event_id: str | None, until: str | None) -> None:
        self._publisher = publisher
        self._new_id = new_id
        self._event_id = event_id
        self._until = until

    def swap(
        self, manifest: Manifest, current: Current, written_at: str, judged: PointerVerdict | None = None
    ) -> bool:
        """Point readers at the generation; log and return False when another run published meanwhile.

        `written_at` is the time since which readers see its files.
        """
        swapped = self._publisher.swap_pointer(manifest, current, self._new_id(), written_at, judged)
        if not swapped:
            structlog.get_logger().warning(
                "publish_lost",
                day=manifest.day,
                generation=manifest.generation,
                next_step="expected when two runs work at once; the day is listed again",
            )
        return swapped

    def withdraw(self, current: Current, held: Manifest, audit: Audit) -> bool:
        """Replace the verdict of the published generation by that of a held one; its rows stay readable.

        False: another run swapped the pointer meanwhile.
        """
        pointer = current.pointer
        if pointer is None or pointer.verdict == audit.verdict or pointer.until != self._until:
            return True
        try:
            manifest = self._publisher.manifest(pointer)
        except FormatError:
            return True
        if manifest is None or contradiction(self._publisher.folder, pointer, manifest):
            return True
        self._publisher.put_audit(held.audit, encode_audit(audit))
        return self.swap(manifest, current, pointer.written_at, PointerVerdict(audit.verdict, held.audit))

    def add_conflicts(self, manifest: Manifest, judged: Rejudged, commit: TableCommit | None) -> Audit:
        """Store the audit with the columns that keep the day out of the table, or without those of an earlier commit.

        Where another run has published meanwhile, it does this for its own audit.
        """
        audit = judged.audit if commit is None else with_conflicts(judged.audit, commit)
        if audit == judged.audit:
            return audit
        current, folder = self._publisher.current(), self._publisher.folder
        manifest_key = folder.manifest(manifest.generation, manifest.writer)
        if current.pointer is not None and current.pointer.manifest == manifest_key:
            key = folder.audit(manifest.generation, audit_digest(judged.examined, self._event_id, audit))
            self._publisher.put_audit(key, encode_audit(audit))
            self.swap(manifest, current, current.pointer.written_at, PointerVerdict(audit.verdict, key))
        return audit
