"""Segments that a day was published clean with and that are gone since.

    the inventory that the day was last published clean with . each of its keys is where an archived record begins
    it is damaged or gone .................................... the facts of its generation name the same objects
    nothing of both can be believed .......................... unknown, by a check that names the inventory

Everything below `_manifest/` is asked which inventory that is: the pointer may be gone, or an older one may have
been put back, and the audit of a day that is not clean any more may be damaged.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from compaction.audit.day_view import DayView
from compaction.inventory.changes import changed_objects
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.segments import GoneSegment, row_of_published
from compaction.tasks.finished import read_facts
from compaction.verdict.audit_document import AuditCheck
from minutebook.errors import FormatError
from minutebook.published.generation import (
    FACTS_FOLDER,
    Manifest,
    Pointer,
    audit_key,
    inventory_beside,
    is_audit,
    is_inventory,
    manifest_beside,
)
from minutebook.published.inventory import PublishedRow, inventory_digest
from minutebook.published.reading import PublishedReader
from minutebook.published.verdict import CLEAN, RULES
from minutebook.store.objects import ListedObject

GONE_COMPARED: Final = "gone_compared"
"""The check that a day was compared with what it was last published clean with."""
_NEXT_STEP: Final = "restore the object from a version of it; find out who writes below the output"


def with_gone(view: DayView, reader: PublishedReader, pointer: Pointer | None) -> DayView:
    """Return the view with the segments that the day was last published clean with and that are not listed now."""
    key = clean_inventory(reader, pointer)
    if not key:
        return view
    rows = _rows_of(reader, key, view.inventory)
    if rows is None:
        message = f"{key} is missing or damaged: whether keys are gone that were published clean, nobody can say"
        check = AuditCheck(id=GONE_COMPARED, status="unknown", message=message)
        return view._replace(clean_inventory=key, checks=(*view.checks, check))
    return view._replace(clean_inventory=key, gone=gone_segments(rows, view.inventory))


def clean_inventory(reader: PublishedReader, pointer: Pointer | None) -> str:
    """Return the key of the inventory that the day was last published clean with; empty: it never was.

    A clean pointer names it, and so does the audit of a day that is not clean any more. A newer one of a clean
    generation counts before it.
    """
    named = _named(reader, pointer)
    rows = list(reader.storage.list_objects(reader.folder.manifests))
    inventories = sorted((row for row in rows if is_inventory(row.key)), key=_age, reverse=True)
    if named not in {"", *(row.key for row in inventories)}:
        return named
    return next((row.key for row in inventories if row.key == named or _was_clean(reader, row, rows)), "")


def gone_segments(before: Iterable[PublishedRow], objects: DayObjects) -> dict[str, tuple[GoneSegment, ...]]:
    """Return the segments of a listing that are of the scope and not listed any more, by shard."""
    gone: dict[str, list[GoneSegment]] = defaultdict(list)
    for changed in changed_objects(before, objects.spool.rows()):
        row = None if changed.before is None else row_of_published(objects.prefix, changed.before)
        if changed.now is None and row is not None and row.parsed is not None and objects.holds(row):
            segment = row.parsed
            gone[segment.shard_id].append(GoneSegment(changed.key, segment.shard_id, segment.minute, segment.first))
    return {shard: tuple(segments) for shard, segments in gone.items()}


def _age(row: ListedObject) -> tuple[int, str]:
    return row.last_modified_ms, row.key


def _named(reader: PublishedReader, pointer: Pointer | None) -> str:
    if pointer is None:
        return ""
    try:
        judgement = None if pointer.verdict == CLEAN else reader.judgement(audit_key(pointer))
    except FormatError:
        return ""
    if pointer.verdict == CLEAN or (judgement is not None and judgement.verdict == CLEAN):
        key = inventory_beside(pointer.manifest)
    else:
        key = "" if judgement is None else judgement.clean_inventory
    return key if reader.folder.is_beside(key) and is_inventory(key) else ""


def _was_clean(reader: PublishedReader, inventory: ListedObject, beside: Sequence[ListedObject]) -> bool:
    """Return whether an inventory was published clean: its manifest or a later audit says so, or none says otherwise.

    A sweep deletes manifests, and vacuum what is beside them, but for the inventory that a day was last clean with.
    """
    generation_beside = reader.folder.generation_beside
    audits = (
        row.key
        for row in beside
        if is_audit(row.key)
        and row.last_modified_ms >= inventory.last_modified_ms
        and generation_beside(row.key) == generation_beside(inventory.key)
    )
    verdicts = set[str]()
    for key in (manifest_beside(inventory.key), *audits):
        with suppress(FormatError):
            document = reader.judgement(key) if is_audit(key) else reader.manifest_at(key)
            verdicts |= set() if document is None else {document.verdict}
        if CLEAN in verdicts:
            return True
    return not verdicts


def _rows_of(reader: PublishedReader, key: str, objects: DayObjects) -> Iterable[PublishedRow] | None:
    """Return the objects that an inventory names, in the order of keys; None: nothing that can be believed tells.

    Days of earlier versions may have no inventory: there nothing is compared.
    """
    try:
        manifest = reader.manifest_at(manifest_beside(key))
    except FormatError:
        manifest = None
    if manifest is not None and manifest.inventory == objects.digest():
        return ()
    why = f"{key} is missing"
    try:
        rows = reader.inventory_at(key)
        if rows is None and manifest is not None and manifest.rules != RULES:
            return ()
        if rows is not None and (_is_of(manifest, rows) or manifest is None):
            return reader.inventory_at(key)
    except FormatError as exc:
        why = str(exc)
    structlog.get_logger().warning("published_day_not_trusted", reason=why, next_step=_NEXT_STEP)
    of_facts = [] if manifest is None else _rows_of_facts(reader, manifest)
    return of_facts if manifest is not None and _is_of(manifest, of_facts) else None


def _is_of(manifest: Manifest | None, rows: Iterable[PublishedRow]) -> bool:
    """Return whether a generation was made of these objects; reads them to their end."""
    digest = inventory_digest(row[:3] for row in rows)
    return manifest is not None and digest == manifest.inventory


def _rows_of_facts(reader: PublishedReader, manifest: Manifest) -> list[PublishedRow]:
    """Return the objects that the facts of a generation name as what it was made of."""
    rows = dict[str, PublishedRow]()
    for key in reader.storage.keys(f"{reader.folder.generation(manifest.generation)}{FACTS_FOLDER}"):
        stored = read_facts(reader.storage, key)
        for reading in () if stored is None or stored.is_later else stored.readings:
            etag, size, modified_ms, facts = reading
            rows[facts.key] = (facts.key, etag, size, modified_ms)
    return [rows[key] for key in sorted(rows, key=str.encode)]
