r"""Publishing a day: generation, manifest, pointer, symlink manifest.

    part files      dt=D/_gen-G/part-*.parquet    written by tasks; invisible to whoever follows the pointer
    inventory       dt=D/_manifest/G-W.inventory.jsonl.gz   what G was made from
    ends            dt=D/_manifest/G-W.ends.jsonl.gz        where each shard's chain stood when the day ended (`ends`)
    audit           dt=D/_manifest/G-E.audit.json   what was found, and by which evidence: E
    manifest        dt=D/_manifest/G-W.json       If-None-Match:*   names the files that run W wrote of G
    pointer         dt=D/_current.json            If-Match          the one write that changes what readers see
    symlinks        _symlinks/dt=D/manifest       If-Match          the pointer again, as Athena and Trino read it
    marks           dt=D/_tables/G.*.json         of tables of a catalog that may name the files of G (`iceberg`)

Each run writes its manifest under a name of its own, and nobody looks for manifests: only the one that the pointer
names is read. A run that finds G made already, by a run that crashed before its swap or by somebody who put a
manifest there, therefore takes nothing over from it; it reads the day again. That costs the time of one run in a rare
moment, and spares every question of what may be believed: with one name for all runs, the manifest of files that were
swept, lost, or never ours came back to a run that had just written good ones (a replacement by If-Match would save
no reading, and let two runs of one generation take each other's files away).

A crash after any step leaves the old pointer, and the next run writes anew; a pointer without symlinks gets them.
What crashed runs left is swept when all of it is older than the grace, never earlier: it may belong to a run at work.

The pointer was read **before** the inventory was listed. If-Match therefore refuses an older view of the day: who won
in between has listed before us or after us, and the loser lists again.
"""

import gzip
import io
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec
import structlog

from archive.errors import ForeignObject, FormatError, OutcomeUnknown, StoreUnavailable
from archive.format.document import decode_document, encode_document
from archive.format.markers import JSON_TYPE
from archive.store.parallel import in_parallel
from archive.store.retrying import RetryingStorage
from compaction.inventory.day_objects import PublishedRow
from compaction.publish.generation import (
    FORMAT,
    Current,
    DayFolder,
    File,
    Judged,
    Manifest,
    Pointer,
    audit_beside,
    contradiction,
    inventory_beside,
    is_judged_by_these_rules,
)
from compaction.publish.sweep import Retained, TableMarks, sweep

_TEXT_TYPE: Final = "text/plain; charset=utf-8"
GRACE_MS: Final = 3 * 24 * 3_600_000
"""How long a generation that is no longer current stays: longer than the longest query that began on it."""


class Publisher:
    """Publishes one day. Every step may be repeated, by us or by another run."""

    def __init__(self, storage: RetryingStorage, folder: DayFolder) -> None:
        self.storage = storage
        self.folder = folder
        self.table_marks = TableMarks(storage, folder.tables)
        self._audit: tuple[str, bytes] | None = None
        self._log = structlog.get_logger().bind(day=folder.name)

    def address(self, key: str) -> str:
        """Return the address of a key with its scheme, as catalogs want it."""
        uri = self.storage.uri(key)
        return uri if "://" in uri else f"file://{uri}"

    def current(self) -> Current:
        """Read the pointer."""
        stored = self.storage.get(self.folder.pointer)
        if stored is None:
            return Current(None, None)
        return Current(decode_document(stored.body, Pointer, self.folder.pointer), stored.etag)

    def published(self) -> tuple[Pointer | None, Manifest | None]:
        """Read the pointer and the manifest that it names; None where there is none.

        Raises:
            FormatError: the two contradict each other.
        """
        pointer = self.current().pointer
        manifest = None if pointer is None else self.manifest(pointer)
        if pointer is not None and manifest is not None and (why := contradiction(self.folder, pointer, manifest)):
            raise FormatError(f"{pointer.manifest}: {why}", next_step="run minutebook compact for the day")
        return pointer, manifest

    def written_ms(self, pointer: Pointer) -> int:
        """Return since when readers see a pointer's generation; raises FormatError.

        A pointer that a person put back from an earlier version is as young as its object.
        """
        head = self.storage.head(self.folder.pointer)
        return max(_epoch_ms(pointer), 0 if head is None else head.last_modified_ms)

    def manifest(self, pointer: Pointer) -> Manifest | None:
        """Read the manifest that a pointer names, whatever it says."""
        if not pointer.manifest.startswith(self.folder.manifests):
            return None
        stored = self.storage.get(pointer.manifest)
        return None if stored is None else decode_document(stored.body, Manifest, pointer.manifest)

    def intact(self, pointer: Pointer, inventory: str) -> Manifest | None:
        """Return the manifest that a pointer names if it may stand for objects of this digest; None: make it anew.

        It must agree with the pointer, with itself and with the objects, be judged by today's rules, and its files
        must be there.
        """
        try:
            manifest = self.manifest(pointer)
            why = "it is missing" if manifest is None else self._against(pointer, manifest, inventory)
        except FormatError as exc:
            why = str(exc)
        if not why:
            return manifest
        self._log.warning(
            "published_day_not_trusted",
            manifest=pointer.manifest,
            reason=why,
            next_step="the day is read and published again; unless the rules are older, find out who writes there",
        )
        return None

    def _against(self, pointer: Pointer, manifest: Manifest, inventory: str) -> str:
        if not is_judged_by_these_rules(pointer, manifest):
            return "its verdict was given by older rules"
        if manifest.inventory != inventory:
            return "it was made of other objects"
        why = contradiction(self.folder, pointer, manifest)
        return why or ("" if self.is_whole(manifest) else "files of it are gone, or have another size")

    def put_inventory(self, manifest_key: str, chunks: Iterable[bytes]) -> None:
        """Store what a generation was made from beside its manifest: compressed, at a key that is nobody else's."""
        key = inventory_beside(manifest_key)
        with self.storage.writing(key, "application/gzip") as sink:
            for chunk in chunks:
                sink.write(chunk)

    def put_beside(self, key: str, body: bytes) -> None:
        """Store what belongs to a manifest, compressed; the key is nobody else's."""
        self.storage.put_if_absent(key, body, content_type="application/gzip")

    def put_audit(self, key: str, body: bytes) -> None:
        """Store an audit; the first one that found the same by the same evidence stays."""
        self.storage.put_if_absent(key, body)
        self._audit = (key, body)

    def audit(self, pointer: Pointer) -> bytes | None:
        """Return the audit that gave a pointer's verdict."""
        stored = self.storage.get(pointer.audit or audit_beside(pointer.manifest))
        return None if stored is None else stored.body

    def is_whole(self, manifest: Manifest) -> bool:
        """Tell whether every file of a generation is there, with its size."""

        def holds(file: File) -> bool:
            head = self.storage.head(file.key)
            return head is not None and head.size == file.bytes

        return all(in_parallel(holds, manifest.files))

    def read_inventory(self, pointer: Pointer) -> Iterator[PublishedRow]:
        """Yield what a pointer's generation was made from, in the order of keys; nothing when it is not stored."""
        stored = self.storage.get(inventory_beside(pointer.manifest))
        decoder = msgspec.json.Decoder(PublishedRow)
        if stored is not None:
            with gzip.open(io.BytesIO(stored.body)) as lines:
                for line in lines:
                    yield decoder.decode(line)

    def put_manifest(self, manifest: Manifest) -> None:
        """Store the manifest under the name of its writer.

        Raises:
            ForeignObject: something else lies there.
            ObjectVanished: it exists for PUT and not for GET.
        """
        key = self.folder.manifest(manifest.generation, manifest.writer)
        body = encode_document(manifest)
        if self.storage.put_or_read(key, body) is not None:
            raise ForeignObject(
                f"{key} is not what this run wrote there", next_step="find out who writes to the output"
            )

    def swap_pointer(
        self, manifest: Manifest, seen: Current, writer: str, written_at: str, judged: Judged | None = None
    ) -> bool:
        """Point readers at a generation, if the pointer is still the one that was seen.

        `judged` is the verdict of now; None: the manifest's.

        PUT If-Match etag seen    200 ........ ours
                                  412 ........ another run published meanwhile: False
                                  unknown .... read the pointer: ours by `writer`, unchanged: send again
        """
        pointer = Pointer(
            format=FORMAT,
            day=self.folder.name,
            generation=manifest.generation,
            manifest=self.folder.manifest(manifest.generation, manifest.writer),
            rows=manifest.rows,
            verdict=judged.verdict if judged else manifest.verdict,
            writer=writer,
            written_at=written_at,
            rules=manifest.rules,
            until=manifest.until,
            audit=judged.audit if judged else manifest.audit,
        )
        body = encode_document(pointer)
        if not self._replace(self.folder.pointer, body, seen.etag, JSON_TYPE):
            now = self.current().pointer
            if now is None or now.writer != writer:
                return False
        if self._audit is not None and self._audit[0] == pointer.audit:
            # It may have been there before, old, and deleted while no pointer named it (`compaction.vacuum`).
            self.storage.put_if_absent(*self._audit)
        return True

    def write_symlinks(self) -> None:
        """Write the symlink manifest of what the pointer names now.

        Its ETag is read before the pointer, so an older view is refused and read again: the last writer has seen the
        last pointer. Hours have none: a table of days would hold their rows twice.
        """
        if self.folder.hour is not None:
            return
        key, backoff = self.folder.symlinks, self.storage.new_backoff()
        while True:
            stored = self.storage.get(key)
            _, manifest = self.published()
            if manifest is None:
                return
            body = "".join(f"{self.storage.uri(file.key)}\n" for file in manifest.files if file.rows).encode()
            if stored is not None and stored.body == body:
                return
            if self._replace(key, body, None if stored is None else stored.etag, _TEXT_TYPE):
                return
            if not backoff.wait():
                raise StoreUnavailable(f"{key} keeps changing", next_step="look for another run of the same day")

    def sweep(self, now_ms: int, grace_ms: int = GRACE_MS) -> list[str]:
        """Delete files of generations that readers left long ago, and files that no manifest ever named.

        The current generation's files stay, and those that a table may name (`TableMarks`). So does each generation
        of which anything is younger than the grace, a file or a manifest, for a run may be about to publish it; and
        while the pointer is, all stays: a query may have begun on the generation before.
        """
        pointer, manifest = self.published()
        if pointer is None or manifest is None or self.written_ms(pointer) >= now_ms - grace_ms:
            return []
        current = {pointer.manifest, *(file.key for file in manifest.files)}
        retained = Retained(current, self.table_marks.generations(), now_ms - grace_ms)
        return sweep(self.storage, self.folder, retained)

    def _replace(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
        """Send a conditional PUT until its outcome is known.

        A lost answer is settled by reading: our own bytes there mean that it was applied.
        """
        backoff = self.storage.new_backoff()
        while True:
            try:
                return self.storage.storage.put_if_match(key, body, etag, content_type)
            except OutcomeUnknown as exc:
                stored = self.storage.get(key)
                if stored is not None and stored.body == body:
                    return True
                if not backoff.wait():
                    raise StoreUnavailable(
                        f"gave up on PUT {key}: {exc}",
                        next_step="run the command again: it goes on where this one was",
                    ) from exc


def _epoch_ms(pointer: Pointer) -> int:
    try:
        return int(datetime.fromisoformat(pointer.written_at).timestamp() * 1000)
    except ValueError as exc:
        raise FormatError(
            f"the pointer of {pointer.day} was written at {pointer.written_at!r}, which is not a time",
            next_step="restore the object from a version of it",
        ) from exc
