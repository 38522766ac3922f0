r"""Publishing a day: generation, manifest, pointer, symlink manifest.

    part files      dt=D/gen=G/part-*.parquet     written by tasks; invisible to whoever follows the pointer
    inventory       dt=D/_manifest/G.inventory.jsonl.gz   what G was made from
    audit           dt=D/_manifest/G.audit.json   what was found when G was made
    manifest        dt=D/_manifest/G.json         If-None-Match:*   names the files of G; the first one wins
    pointer         dt=D/_current.json            If-Match          the one write that changes what readers see
    symlinks        _symlinks/dt=D/manifest       If-Match          the pointer again, as Hive and Athena read it
    marks           dt=D/_tables/G.*.json         of tables of a catalog that may name the files of G (`iceberg`)

A crash after any step leaves the old pointer, and the next run goes on with what is there: files without a manifest
are rewritten, a manifest without a pointer is adopted, a pointer without symlinks gets them.

The pointer was read **before** the inventory was listed. If-Match therefore refuses an older view of the day: who won
in between has listed before us or after us, and the loser lists again.
"""

import gzip
from datetime import datetime
from typing import Final

import msgspec

from archive.errors import FormatError, OutcomeUnknown, StoreUnavailable
from archive.format.document import decode_document, encode_document
from archive.format.markers import JSON_TYPE
from archive.store.retrying import RetryingStorage
from compaction.inventory.inventory import Inventory, in_parallel
from compaction.publish.generation import FORMAT, Current, DayFolder, File, Manifest, Pointer
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
        """Read the pointer and the manifest that it names; None where there is none."""
        pointer = self.current().pointer
        return pointer, None if pointer is None else self.manifest(pointer.generation)

    def manifest(self, generation: str) -> Manifest | None:
        """Read a generation's manifest."""
        key = self.folder.manifest(generation)
        stored = self.storage.get(key)
        return None if stored is None else decode_document(stored.body, Manifest, key)

    def put_inventory(self, generation: str, inventory: Inventory) -> None:
        """Store what the generation was made from; the same bytes whoever writes them."""
        key = self.folder.inventory(generation)
        lines = b"".join(
            msgspec.json.encode([row.key, row.etag, row.size, row.last_modified_ms]) + b"\n" for row in inventory.rows
        )
        self.storage.put_if_absent(key, gzip.compress(lines, mtime=0), content_type="application/gzip")

    def put_audit(self, generation: str, body: bytes) -> None:
        """Store the audit that allowed a generation; the first one stays."""
        self.storage.put_if_absent(self.folder.audit(generation), body)

    def audit(self, generation: str) -> bytes | None:
        """Return the audit that allowed a generation."""
        stored = self.storage.get(self.folder.audit(generation))
        return None if stored is None else stored.body

    def is_whole(self, manifest: Manifest) -> bool:
        """Tell whether every file of a generation is there, with its size."""

        def holds(file: File) -> bool:
            head = self.storage.head(file.key)
            return head is not None and head.size == file.bytes

        return all(in_parallel(holds, manifest.files))

    def read_inventory(self, generation: str) -> list[tuple[str, str, int]]:
        """Return (key, ETag, size) of what a generation was made from; empty when it is not stored."""
        stored = self.storage.get(self.folder.inventory(generation))
        if stored is None:
            return []
        rows = [msgspec.json.decode(line) for line in gzip.decompress(stored.body).splitlines()]
        return [(row[0], row[1], row[2]) for row in rows]

    def put_manifest(self, manifest: Manifest) -> Manifest:
        """Store the manifest; returns the one that is there now, which may be another run's.

        Raises:
            ObjectVanished: it exists for PUT and not for GET.
        """
        key = self.folder.manifest(manifest.generation)
        other = self.storage.put_or_read(key, encode_document(manifest))
        return manifest if other is None else decode_document(other.body, Manifest, key)

    def swap_pointer(self, manifest: Manifest, seen: Current, writer: str, written_at: str) -> bool:
        """Point readers at a generation, if the pointer is still the one that was seen.

        PUT If-Match etag seen    200 ........ ours
                                  412 ........ another run published meanwhile: False
                                  unknown .... read the pointer: ours by `writer`, unchanged: send again
        """
        pointer = Pointer(
            format=FORMAT,
            day=str(self.folder.day),
            generation=manifest.generation,
            manifest=self.folder.manifest(manifest.generation),
            rows=manifest.rows,
            verdict=manifest.verdict,
            writer=writer,
            written_at=written_at,
        )
        body = encode_document(pointer)
        if self._replace(self.folder.pointer, body, seen.etag, JSON_TYPE):
            return True
        now = self.current().pointer
        return now is not None and now.writer == writer

    def write_symlinks(self) -> None:
        """Write the symlink manifest of what the pointer names now.

        Its ETag is read before the pointer, so an older view is refused and read again: the last writer has seen the
        last pointer.
        """
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

        The current generation's files stay, and those that a table may name (`TableMarks`). So does whatever is
        younger than the grace, for it may belong to a run that is at work; and while the pointer is, all stays: a
        query may have begun on the generation before.
        """
        pointer, manifest = self.published()
        if pointer is None or manifest is None or _epoch_ms(pointer) >= now_ms - grace_ms:
            return []
        files = [file.key for file in manifest.files]
        retained = Retained(files, self.table_marks.generations(), now_ms - grace_ms)
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
