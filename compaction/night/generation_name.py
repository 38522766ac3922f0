"""The names of what a run publishes: hashes of what they depend on.

A generation's name is that of its objects and of everything else that its rows depend on. So an object that comes
late gives the day another name, and `rewrite` reads and publishes it anew.

An audit's name is that of its basis, evidence and findings. Findings, too, because not all that a verdict rests on is
in a basis: KCL's checkpoint may name more than is archived.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from compaction.audit.collecting import DayBefore
from compaction.audit.conclusion import Examined
from compaction.inventory.day_objects import DayObjects
from compaction.job.context import AuditOptions
from compaction.verdict.audit_document import Audit
from minutebook.published.generation import Pointer
from minutebook.published.inventory import PublishedRow, inventory_digest
from minutebook.published.schema import SCHEMA_VERSION

FORMATS: Final = ("archive-1", f"parquet-{SCHEMA_VERSION}")


def generation_of(objects: DayObjects, options: AuditOptions, before: DayBefore | None, columns: str | None) -> str:
    """Return the name of a day's generation: the same input gives the same name. `columns` is their digest."""
    return objects.digest(*_salt(options, before, columns))[:16]


def generation_of_rows(
    rows: Iterable[PublishedRow], options: AuditOptions, before: DayBefore | None, columns: str | None
) -> str:
    """Return the name that a published inventory gives a day's generation."""
    return inventory_digest((row[:3] for row in rows), *_salt(options, before, columns))[:16]


def _salt(options: AuditOptions, before: DayBefore | None, columns: str | None) -> tuple[str, ...]:
    """Return what else the rows depend on.

    That is typed columns; without producer duplicates, the id's path, the day before, and what makes a record a copy;
    and the paths of producers' numbers, because lines come back by them.
    """
    salt: tuple[str, ...] = FORMATS if columns is None else (*FORMATS, columns)
    if options.drop_producer_duplicates and before is not None:
        salt = (*salt, f"without repeated {options.event_id} and payload", before.digest)
    if options.numbers is not None:
        salt = (*salt, f"with other events of the numbers under {options.numbers}")
    return salt


def audit_of(examined: Examined, event_id: str | None, audit: Audit) -> str:
    """Return the name of an audit."""
    findings = [
        (
            about.code,
            about.severity,
            about.shard,
            about.minute,
            about.keys,
            about.count,
            *about.contents,
            *(() if about.conflict is None else msgspec.structs.astuple(about.conflict)),
            *((about.digest,) if about.digest else ()),
        )
        for about in audit.findings
    ]
    basis = None if audit.basis is None else msgspec.structs.replace(audit.basis, judged_from="")
    parts = (
        examined.inventory.digest(),
        examined.coverage.digest,
        event_id or "",
        audit.verdict,
        repr(findings),
        repr(basis),
        repr(audit.accepted),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def audit_in_doubt(doubted: Pointer, reason: str) -> str:
    """Return the name of the audit that withdraws a published verdict without a judgement."""
    return hashlib.sha256(f"{doubted.audit}\n{doubted.writer}\n{reason}".encode()).hexdigest()[:16]
