"""What is stored beside the segments: shards' markers, read marks, dropped duplicates, the application record."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from compaction.verdict.basis import digest_of
from compaction.verdict.findings import Code, Finding, Severity, finding
from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.format.keys import DUPLICATES, application_key
from minutebook.format.markers import ApplicationRecord, EndMarker, StartMarker
from minutebook.format.minute import minute_path
from minutebook.owner import read_application
from minutebook.proof.statements import DamagedObject, Statements, read_statements
from minutebook.store.retrying import RetryingStorage


class ShardMarkers(NamedTuple):
    """The markers of one shard; None where one is missing. `unreadable` maps a marker's name to what is wrong."""

    start: StartMarker | None = None
    end: EndMarker | None = None
    unreadable: Mapping[str, str] = {}


class ArchiveMarkers(NamedTuple):
    """The markers by shard, the application record (None: missing or unreadable), and what is wrong with them.

    `statements` holds everything that is stored beside the segments, read marks of the days included.
    """

    shards: dict[str, ShardMarkers]
    application: ApplicationRecord | None
    findings: tuple[Finding, ...]
    statements: Statements

    def only(self, shard_id: str | None) -> "ArchiveMarkers":
        """Return the part that concerns one shard; None: all of it."""
        if shard_id is None:
            return self
        return self._replace(
            shards={name: markers for name, markers in self.shards.items() if name == shard_id},
            findings=tuple(about for about in self.findings if about.shard in {None, shard_id}),
        )


def read_markers(storage: RetryingStorage, prefix: str, days: Iterable[Day] = ()) -> ArchiveMarkers:
    """Read every marker below the prefix, a few small objects per shard, and the names of the days' read marks."""
    statements = read_statements(storage, prefix, days)
    unreadable: dict[str, dict[str, str]] = defaultdict(dict)
    for problem in statements.problems:
        if problem.shard_id is not None:
            unreadable[problem.shard_id][problem.name] = problem.why
    shards = {
        shard_id: ShardMarkers(statements.of(shard_id).start, statements.of(shard_id).end, unreadable[shard_id])
        for shard_id in sorted({*statements.shards, *unreadable})
    }
    findings = tuple(_finding(problem) for problem in statements.problems)
    application = _application(storage, prefix)
    if isinstance(application, Finding):
        return ArchiveMarkers(shards, None, (*findings, application), statements)
    return ArchiveMarkers(shards, application, findings, statements)


def duplicates_digest(storage: RetryingStorage, prefix: str, day: Day, end_minute: int) -> str:
    """Return the digest of the dropped producer duplicates that are kept of a day before a minute."""
    folder = f"{prefix}{DUPLICATES}"
    end = f"{folder}{minute_path(end_minute)}/"
    return digest_of(row for row in storage.list_objects(day.path(folder)) if row.key < end)


def _application(storage: RetryingStorage, prefix: str) -> ApplicationRecord | Finding:
    key = application_key(prefix)
    try:
        record = read_application(storage, prefix)
    except FormatError as exc:
        return _finding(DamagedObject(key, None, str(exc)))
    return record or finding(
        Code.MISSING_START,
        "the record that ties the prefix to its stream is missing",
        severity="unknown",
        keys=[key],
    )


def _finding(problem: DamagedObject) -> Finding:
    code = Code.FOREIGN_OBJECT if problem.is_foreign else Code.UNREADABLE_OBJECT
    # An expired day with a damaged tombstone proves nothing for the days around it; their own audits report that.
    severity: Severity = "defect" if problem.expired is None else "warning"
    return finding(code, problem.why, severity=severity, shard=problem.shard_id, keys=[problem.key])
