"""The rewrite of one day: read, audit, publish. After a crash anywhere, running it again finishes the day."""

from typing import Final, NamedTuple

import structlog

from archive.errors import SafetyRefusal
from compaction.audit import examine
from compaction.conclusion import DayResult, conclude
from compaction.day import Day
from compaction.findings import Code
from compaction.inventory import Inventory, list_day
from compaction.leases import Checkpoints
from compaction.parquet import SCHEMA_VERSION
from compaction.places import Place
from compaction.ports import AuditOptions, Ports, iso_time
from compaction.publish import DayFolder, Manifest, Publisher, files_of
from compaction.result import Audit, Verdict
from compaction.storage import Storage

FORMATS: Final = ("archive-1", f"parquet-{SCHEMA_VERSION}")
_PUBLISH_ATTEMPTS: Final = 3
_ONLY_UNPROVEN: Final = frozenset({Code.UNPROVEN_END, Code.UNPROVEN_CONTINUITY, Code.MISSING_START})
"""Unknowns that leave each row of the day right, and say only that there may be more."""


class Compacted(NamedTuple):
    """What a compaction did: `published`, `already` (nothing was to do), `held` (the audit stands against it)."""

    state: str
    manifest: Manifest | None
    result: DayResult | None
    verdict: Verdict
    swept: int = 0


class CompactOptions(NamedTuple):
    """What is asked of a compaction; see the command's help."""

    audit: AuditOptions
    out: Place
    accept_defects: bool = False


def compact_day(ports: Ports, out: Storage, day: Day, options: CompactOptions) -> Compacted:
    """Rewrite, audit and publish one day. After a crash anywhere, running it again finishes the day.

    Raises:
        SafetyRefusal: the raw objects of the day were expired; or the day changes as fast as it is rewritten.
        StoreError: the archive or the output.
    """
    log = structlog.get_logger().bind(day=str(day))
    folder = DayFolder(options.out.prefix, day)
    publisher = Publisher(out, folder, ports.waits)
    for _ in range(_PUBLISH_ATTEMPTS):
        seen = publisher.current()
        checkpoints = ports.checkpoints()
        inventory = list_day(ports.archive, day, ports.place.prefix, ports.waits)
        refuse_expired(ports, day)
        generation = inventory.digest(*FORMATS)[:16]
        if seen.pointer is not None and seen.pointer.generation == generation:
            publisher.link()
            manifest = publisher.manifest(generation)
            return Compacted(
                "already", manifest, None, seen.pointer.verdict, len(publisher.sweep(ports.clock.now_ms()))
            )
        manifest, result = _manifest(ports, publisher, folder, inventory, checkpoints, generation, options)
        if manifest is None:
            return Compacted("held", None, result, "unknown" if result is None else result.audit.verdict)
        if publisher.swap(manifest, seen, ports.new_id(), iso_time(ports.clock.now_ms())):
            publisher.link()
            swept = publisher.sweep(ports.clock.now_ms())
            log.info("day_published", generation=generation, rows=manifest.rows, files=len(manifest.files))
            return Compacted("published", manifest, result, manifest.verdict, len(swept))
        log.warning("publish_lost", generation=generation, next_step="another run published; the day is listed again")
    raise SafetyRefusal(
        f"other runs published {day} {_PUBLISH_ATTEMPTS} times while this one worked",
        next_step="let one run a day do the work; look for a second schedule",
    )


def _manifest(
    ports: Ports,
    publisher: Publisher,
    folder: DayFolder,
    inventory: Inventory,
    checkpoints: Checkpoints,
    generation: str,
    options: CompactOptions,
) -> tuple[Manifest | None, DayResult | None]:
    """Return the generation's manifest: the one that is stored, or a new one when the audit allows it."""
    stored = publisher.manifest(generation)
    if stored is not None:
        return stored, None
    examined = examine(ports, inventory, checkpoints, options.audit, options.out, folder.generation(generation))
    rows = sum(part.rows for part in examined.parts)
    audit = conclude(ports, examined, options.audit, rows)
    result = DayResult(audit, examined.described)
    if not publishable(audit) and not options.accept_defects:
        return None, result
    publisher.put_inventory(generation, inventory)
    manifest = Manifest(
        format=1,
        day=str(inventory.day),
        generation=generation,
        files=files_of([(part.key, part.rows, part.size) for part in examined.parts]),
        rows=rows,
        inventory=inventory.digest(),
        verdict=audit.verdict,
        audit=audit.audited_at,
        ends={shard.shard: shard.last for shard in audit.shards if shard.last is not None},
        writer=ports.new_id(),
        written_at=iso_time(ports.clock.now_ms()),
    )
    return publisher.put_manifest(manifest), result


def publishable(audit: Audit) -> bool:
    """Tell whether each row of the rewrite is right: no defect, everything read, and the numbers balance."""
    blocking = [one for one in audit.findings if one.severity != "warning" and one.code not in _ONLY_UNPROVEN]
    defects = [one for one in audit.findings if one.severity == "defect"]
    return not blocking and not defects and audit.equation.balanced


def refuse_expired(ports: Ports, day: Day) -> None:
    """Raise SafetyRefusal when raw objects of the day were deleted: a rewrite would lose what they held."""
    key = f"{ports.place.prefix}_expired/{day}.json"
    if ports.archive.head(key) is not None:
        raise SafetyRefusal(
            f"the raw objects of {day} were expired ({key}): the published Parquet is all there is of them",
            next_step="read the published day; it must not be rewritten from what is left",
        )
