"""The result of an audit: the content of `audit.json`, schema version 1 (`docs/audit.schema.json`)."""

import sys
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from compaction.verdict.acceptance import Acceptance
from compaction.verdict.basis import Basis
from compaction.verdict.findings import Code, Finding
from minutebook.errors import FormatError
from minutebook.format.document import encode_document
from minutebook.published.verdict import Verdict

SCHEMA: Final = "minutebook-audit/1"
AuditLevel = Literal["inventory", "keys", "stream"]
CheckStatus = Literal["pass", "fail", "unknown", "warning", "not_asked"]
EXIT_CODES: Final[dict[Verdict, int]] = {"clean": 0, "defects": 3, "unknown": 4}


class Equation(msgspec.Struct, frozen=True, kw_only=True):
    """The balance of lines: raw = unique + duplicates + removed + rejected, and compacted = unique + restored.

    `rejected` are lines in objects that cannot be believed (unreadable, foreign, without metadata). `compacted`
    are the rows of the Parquet files, null without a rewrite; `removed` the producer duplicates left out of them, and
    `restored` the rows that are in no segment: lines that were dropped as copies of what is not archived. At level
    inventory the numbers are those of the metadata. `records` is null where each row is a record; where one may be
    several rows, it takes the place of `compacted`: records = unique + restored, and typed.rows = compacted.
    """

    raw: int
    unique: int
    duplicates: int
    rejected: int
    compacted: int | None
    removed: int
    balanced: bool
    restored: int = 0
    records: int | None = None


class FirstValue(msgspec.Struct, frozen=True, kw_only=True):
    """The first row that has a value in a column: by its arrival, then by shard and position."""

    shard: str
    position: str
    minute: str


class TypedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column of the payloads: `filled`, `empty` (the payload holds no value) and `unfit` rows add up to all.

    `first` is null where no row has a value, and in audits of earlier versions.
    """

    name: str
    type: str
    filled: int
    empty: int
    unfit: int
    first: FirstValue | None = None


class TypedLeaf(msgspec.Struct, frozen=True, kw_only=True):
    """A leaf within a struct or list, such as `items[].price`: values = filled + empty + unfit.

    `values` are the rows of the table, or within a list the elements that the payloads hold.
    """

    name: str
    values: int
    filled: int
    empty: int
    unfit: int


class Misfits(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that do not fit a column, or a leaf of one, for one reason.

    `column` is `payload` where none of them could be read. A row may hold several `values` of a list; 0 in audits of
    earlier versions.
    """

    column: str
    reason: str
    rows: int
    values: int = 0


class UnknownKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key of payloads that no column reads, the type of its first value, and in how many sampled payloads it is."""

    path: str
    type: str
    payloads: int


class UnknownKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys that no column reads, in a `sample` of so many payloads: at most 1,000 of each task.

    `found` are different ones, of which `keys` are the most frequent; tasks with more than 50 count what they cannot
    name as `more`.
    """

    sample: int
    found: int
    keys: tuple[UnknownKey, ...]
    more: int = 0


class EventDay(msgspec.Struct, frozen=True, kw_only=True):
    """Rows whose events are of one day."""

    day: str
    rows: int


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """The rows by the day of their events: rows = on_time + late + early + without.

    `path` and `type` say where the time is. `without` have none: it is missing, does not fit, or lies more than
    `window_days` days before the arrival, or more than one after it. `days` are at most as many as that leaves.
    """

    path: str
    type: str
    window_days: int
    on_time: int
    late: int
    early: int
    without: int
    balanced: bool
    days: tuple[EventDay, ...]


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """The payloads as columns: rows = fitted + unfit, the rows being those of the Parquet files.

    `digest` is that of the columns. A row that has several reasons counts for each in `misfits`. `events` is null
    unless the time of events was asked for. `leaves` are those within structs and lists. `unknown` are keys that no
    column reads, null in audits of earlier versions.
    """

    digest: str
    rows: int
    fitted: int
    unfit: int
    balanced: bool
    columns: tuple[TypedColumn, ...]
    misfits: tuple[Misfits, ...]
    events: Events | None = None
    leaves: tuple[TypedLeaf, ...] = ()
    unknown: UnknownKeys | None = None


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """One shard's day. Positions are `<sequence>:<sub>`; bytes are of objects; `lag_ms` from arrival to archive.

    `arrival_step_back_ms` is the greatest step back of arrival times in the order of positions; at level inventory
    only between segments. Null in audits of earlier versions.

    `start_proof`: `start.json`, `link` (it follows yesterday's segment) or empty. `end_proof`: `successor`,
    `end.json`, `checkpoint`, `not begun` or empty.
    """

    shard: str
    objects: int
    records: int
    bytes: int
    payload_bytes: int
    first: str | None
    last: str | None
    lag_ms_median: int | None
    lag_ms_max: int | None
    start_proof: str
    end_proof: str
    arrival_step_back_ms: int | None = None


class AuditCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One check. `unknown`: it could not run, so the verdict is not clean. `not_asked`: the level leaves it out."""

    id: str
    status: CheckStatus
    message: str = ""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What was audited, and what the verdict is about: what arrived at `from` or later and before `until` (ISO 8601).

    `from` is the day's beginning, or the application's on its first day; `until` is the day's end, or lies within a
    day so far. `inventory` is the hash of keys, ETags and sizes; `day_is_over` by the clock of the audit, 20 minutes
    after the day's end at the earliest. `shard` is the only one that was judged; null: all were.
    """

    stream: str
    application: str
    archive: str
    day: str
    day_is_over: bool
    objects: int
    bytes: int
    inventory: str
    generation: str | None
    begins: str = msgspec.field(default="", name="from")
    until: str = ""
    shard: str | None = None


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """`audit.json`. `audited_at` is UTC in ISO 8601, `rules` are those of the verdict (`minutebook.store.published`).

    `typed` is null unless the rewrite was given columns. `basis` is what a published verdict rests on, null in other
    audits and in those of earlier versions. `accepted` is a person's decision to accept what is wrong or unproven.
    """

    schema: str
    version: str
    audited_at: str
    level: AuditLevel
    verdict: Verdict
    scope: Scope
    equation: Equation
    shards: tuple[Shard, ...]
    checks: tuple[AuditCheck, ...]
    findings: tuple[Finding, ...]
    rules: int = 1
    typed: Typed | None = None
    basis: Basis | None = None
    accepted: Acceptance | None = None


def overall_verdict(findings: Iterable[Finding], checks: Sequence[AuditCheck]) -> Verdict:
    """Return the verdict: a defect outweighs an unknown, and nothing that could not be checked is clean."""
    severities = {finding.severity for finding in findings}
    statuses = {check.status for check in checks}
    if "defect" in severities or "fail" in statuses:
        return "defects"
    if "unknown" in severities or "unknown" in statuses:
        return "unknown"
    return "clean"


def failed_checks(audit: Audit) -> list[str]:
    """Return the checks that keep an audit from being clean, and that no finding tells of."""
    codes = {code.value for code in Code}
    return [check.id for check in audit.checks if check.status in {"fail", "unknown"} and check.id not in codes]


_ONLY_UNPROVEN: Final = frozenset(
    {
        Code.UNPROVEN_END,
        Code.UNPROVEN_CONTINUITY,
        Code.UNCOVERED,
        Code.MISSING_SHARD,
        Code.MISSING_START,
        Code.ARRIVAL_STEP_BACK,
        Code.DROPPED_WITHOUT_ORIGINAL,
        Code.PRODUCER_DUPLICATE,
    }
)
"""Unknowns that concern no row of the day: they say only that records may be missing."""


def publishable(audit: Audit) -> bool:
    """Return whether each row of the rewrite is right: all read, balanced numbers, and every defect repaired."""
    if audit.typed is not None and not audit.typed.balanced:
        return False
    return audit.equation.balanced and not blocking(audit)


def blocking(audit: Audit) -> list[Finding]:
    """Return the findings that concern rows of the day, and forbid to publish them."""
    return [
        about
        for about in audit.findings
        if not about.repaired
        and (about.severity == "defect" or (about.severity == "unknown" and about.code not in _ONLY_UNPROVEN))
    ]


def encode_audit(audit: Audit) -> bytes:
    """Return the content of `audit.json`."""
    return encode_document(audit)


def decode_audit(body: bytes, key: str = "audit.json") -> Audit:
    """Read `audit.json`; raises FormatError that names `key`."""
    try:
        return msgspec.json.decode(body, type=Audit)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise FormatError(f"{key} does not parse: {exc}", next_step="run minutebook compact for the day") from exc


def audit_schema() -> dict[str, object]:
    """Return the JSON Schema of `audit.json`."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Audit)}


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(audit_schema()), indent=2).decode() + "\n")
