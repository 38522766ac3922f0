"""Columns of published days: whether they are known, and what `--rewrite-columns` would take from readers. Pure.

    filled -> unfit     values that the new type does not take
    filled -> empty     values that the new path does not find
    filled -> gone      no such column any more
    json -> struct      what the new type has no leaf for

The numbers are those of the two audits: what came late since then may hide a loss of as many values, and no more.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from compaction.verdict.audit_document import Audit, AuditCheck, Typed, TypedColumn, TypedLeaf, overall_verdict
from compaction.verdict.findings import Code, finding, ordered
from minutebook.errors import SafetyRefusal
from minutebook.format.day import Day

_NAMED: Final = 20
_JSON: Final = "json"
_WHOLE: Final = frozenset({"list<json>", "map<string, json>"})
"""They hold all that is in a document."""
_UNKNOWN: Final = (
    "the day was published by other columns than are given, and they are not stored with it: what came late is not "
    "published, and its rows stay. compact --rewrite-columns writes the day by the given columns; or give it those "
    "of then"
)


def with_mapping(audit: Audit, publish: str, *, is_known: bool) -> Audit:
    """Return an audit with the finding `mapping_unknown`, or without it where the columns are known.

    `publish` is the command line that publishes days.
    """
    others = [about for about in audit.findings if about.code != Code.MAPPING_UNKNOWN]
    check = AuditCheck(id=Code.MAPPING_UNKNOWN.value, status="not_asked")
    if not is_known:
        reproduce = f"{publish} --rewrite-columns --date {audit.scope.day}"
        unknown = finding(Code.MAPPING_UNKNOWN, _UNKNOWN, severity="unknown")
        others.append(msgspec.structs.replace(unknown, reproduce=reproduce))
        check = AuditCheck(id=check.id, status="unknown", message="1 finding(s)")
    checks = tuple(check if before.id == check.id else before for before in audit.checks)
    findings = tuple(ordered(others))
    return msgspec.structs.replace(audit, findings=findings, checks=checks, verdict=overall_verdict(findings, checks))


def refuse_fewer(day: Day, published: Typed | None, now: Typed | None) -> None:
    """Raise SafetyRefusal, which names each column and leaf, where fewer values are filled than were published."""
    fewer = [] if published is None else list(_fewer(published, now))
    if not fewer:
        return
    more = f"; and {len(fewer) - _NAMED} more" if len(fewer) > _NAMED else ""
    raise SafetyRefusal(
        f"{day}: the new columns hold fewer values than the published ones: {'; '.join(fewer[:_NAMED])}{more}",
        next_step="correct the file of columns (minutebook columns --columns FILE tries it); "
        "--yes publishes the day with fewer values",
    )


def _fewer(published: Typed, now: Typed | None) -> Iterator[str]:
    values = _values(now)
    for name, before in _values(published).items():
        after = values.get(name)
        if after is None:
            if before.filled:
                yield f"{name}: {before.filled:,} filled -> gone"
        elif after.filled < before.filled:
            became = [word for word in ("unfit", "empty") if getattr(after, word) > getattr(before, word)]
            yield f"{name}: {before.filled:,} filled -> {after.filled:,}, the others {' and '.join(became) or 'gone'}"
        elif before.filled and _is_cut(before, after):
            yield f"{name}: {before.filled:,} filled with json -> the leaves of the new type alone"


def _is_cut(before: TypedColumn | TypedLeaf, after: TypedColumn | TypedLeaf) -> bool:
    """Return whether JSON becomes a struct, list or map of fewer values: a document counts as one value."""
    if not (isinstance(before, TypedColumn) and isinstance(after, TypedColumn)) or before.type != _JSON:
        return False
    return "<" in after.type and after.type not in _WHOLE


def _values(typed: Typed | None) -> dict[str, TypedColumn | TypedLeaf]:
    """Return the columns by name, and the leaves within them by theirs."""
    values: dict[str, TypedColumn | TypedLeaf] = {}
    if typed is not None:
        values |= {column.name: column for column in typed.columns}
        values |= {leaf.name: leaf for leaf in typed.leaves}
    return values
