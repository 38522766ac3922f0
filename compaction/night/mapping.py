"""By which columns a day is written: those that it was published with, unless somebody asks for others.

    nothing published, or a part of a day ............. the columns of this run
    published without columns ......................... the columns of this run: nothing is lost by them
    published, and held back by a table ............... the columns of this run, if it has any
    published whole ................................... those beside its manifest, whatever the file says now
    ... by an earlier release, which stored none ...... the columns of this run, if their digest is that of the audit
    ... with neither .................................. not known: the day stays, and what comes late is not in it
    `--rewrite-columns` ............................... the columns of this run

(docs/decisions/0054-a-day-keeps-its-columns.md)
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import structlog

from compaction.columns.columns import RULES, Columns
from compaction.columns.pinned import decode_pinned
from compaction.verdict.findings import Code
from minutebook.errors import FormatError
from minutebook.published.generation import Manifest, Pointer, audit_key, columns_beside, is_audit
from minutebook.published.reading import PublishedReader

_NEXT_STEP: Final = "restore the object from a version of it; find out who writes below the output"


class DayMapping(NamedTuple):
    """The columns that a rewrite of a day writes (None: the envelope alone).

    `published` are those that its published rows were written by, by the rules of then, and `digest` is theirs; both
    are None where the rows need not stay as they are, and with a `digest` alone nobody knows the columns.
    `is_stored`: they lie beside the manifest. `is_other`: this run was given other ones, which wait for
    `--rewrite-columns`.
    """

    columns: Columns | None
    published: Columns | None = None
    digest: str | None = None
    is_stored: bool = False
    is_other: bool = False

    @property
    def is_known(self) -> bool:
        """Whether a rewrite reads payloads as those of the published rows were read."""
        return self.digest is None or self.published is not None

    @property
    def name(self) -> str | None:
        """The digest that is part of the name of what a rewrite writes."""
        return None if self.columns is None else self.columns.digest

    @property
    def alike(self) -> frozenset[str | None]:
        """The digests of published rows that may stay: new rules alone rewrite nothing."""
        if self.digest is not None:
            return frozenset({self.digest})
        return frozenset({self.name, *(each.digest for each in _by_any_rules(self.columns))})


class _Named(msgspec.Struct, frozen=True):
    code: str


class _Typed(msgspec.Struct, frozen=True):
    digest: str


class _Stated(msgspec.Struct, frozen=True):
    """What of an audit concerns columns."""

    typed: _Typed | None = None
    findings: tuple[_Named, ...] = ()


def mapping_of(
    reader: PublishedReader, pointer: Pointer | None, given: Columns | None, *, replaces: bool = False
) -> DayMapping:
    """Return the columns of a day with this pointer; `given` are those of the run, which `replaces` those of the day.

    It takes a GET of the manifest and, of days with columns, of one or two audits and of the columns.
    """
    if pointer is None or pointer.until is not None:
        return DayMapping(given)
    manifest = _manifest(reader, pointer)
    if manifest is not None and manifest.columns is None:
        return DayMapping(given)
    digest = _digest(reader, pointer, manifest)
    stored = _stored(reader, pointer, digest)
    if manifest is None and digest is None and stored is None:
        return DayMapping(given)
    agreeing = next((each for each in _by_any_rules(given) if each.digest == digest), None)
    is_free = replaces or (given is not None and _is_held_by_table(reader, pointer))
    if is_free and agreeing is None:
        return DayMapping(given)
    published, is_other = stored or agreeing, given is not None and agreeing is None
    if published is None:
        return DayMapping(given, None, digest or "", is_other=is_other)
    columns = published._replace(rules=RULES)
    return DayMapping(columns, published, published.digest, is_stored=stored is not None, is_other=is_other)


def _by_any_rules(columns: Columns | None) -> Iterator[Columns]:
    if columns is not None:
        yield from (columns, *columns.earlier)


def _manifest(reader: PublishedReader, pointer: Pointer) -> Manifest | None:
    try:
        return reader.manifest(pointer)
    except FormatError:
        return None  # the day is read again: what of it is known, audit and columns tell


def _digest(reader: PublishedReader, pointer: Pointer, manifest: Manifest | None) -> str | None:
    """Return the digest of the columns of published rows, by the audit that they were published with."""
    keys = [audit_key(pointer)] if manifest is None else [manifest.audit, audit_key(pointer)]
    for key in keys:
        stated = _audit(reader, key) if _is_of_its_rows(reader, pointer, key) else None
        if stated is not None and stated.typed is not None:
            return stated.typed.digest
    return None


def _is_held_by_table(reader: PublishedReader, pointer: Pointer) -> bool:
    """Return whether the last run that knows has found conflicts with a table.

    The pointer's audit does not where a later run was held: then the newest audit of the published generation tells.
    """
    key = audit_key(pointer)
    if not _is_of_its_rows(reader, pointer, key):
        begin = f"{reader.folder.manifests}{pointer.generation}-"
        rows = [row for row in reader.storage.list_objects(begin) if is_audit(row.key)]
        key = max(rows, key=lambda row: (row.last_modified_ms, row.key)).key if rows else ""
    stated = _audit(reader, key) if key else None
    return stated is not None and any(about.code == Code.TABLE_CONFLICT for about in stated.findings)


def _is_of_its_rows(reader: PublishedReader, pointer: Pointer, key: str) -> bool:
    """Return whether an audit is about the published rows, not about those of a run that was held."""
    return reader.folder.generation_beside(key) == pointer.generation


def _audit(reader: PublishedReader, key: str) -> _Stated | None:
    stored = reader.storage.get(key) if reader.folder.is_beside(key) else None
    try:
        return None if stored is None else msgspec.json.decode(stored.body, type=_Stated)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # whoever needs the whole audit says so


def _stored(reader: PublishedReader, pointer: Pointer, digest: str | None) -> Columns | None:
    """Return the columns beside the manifest; None: there are none, or they are not those of the audit's digest."""
    key = columns_beside(pointer.manifest)
    stored = reader.storage.get(key) if reader.folder.is_beside(key) else None
    if stored is None:
        return None
    columns, why = None, ""
    try:
        columns = decode_pinned(stored.body, key, pointer.day, pointer.generation)
        why = f"{key} and the day's audit are of other columns" if digest not in {None, columns.digest} else ""
    except FormatError as exc:
        why = str(exc)
    if why:
        structlog.get_logger().warning("published_day_not_trusted", day=pointer.day, reason=why, next_step=_NEXT_STEP)
    return None if why else columns
