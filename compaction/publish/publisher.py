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

from collections.abc import Iterable
from typing import Final

from compaction.publish.sweep import Retained, TableMarks, sweep
from minutebook.errors import ForeignObject, OutcomeUnknown, StoreUnavailable
from minutebook.format.document import encode_document
from minutebook.format.markers import JSON_TYPE
from minutebook.published.generation import (
    FORMAT,
    Current,
    DayFolder,
    Manifest,
    Pointer,
    PointerVerdict,
    inventory_beside,
)
from minutebook.published.reading import PublishedReader
from minutebook.store.retrying import RetryingStorage

_TEXT_TYPE: Final = "text/plain; charset=utf-8"
GRACE_MS: Final = 3 * 24 * 3_600_000
"""How long a generation that is no longer current stays: longer than the longest query that began on it."""


class Publisher(PublishedReader):
    """Reads and publishes one day. Every step may be repeated, by us or by another run."""

    storage: RetryingStorage

    def __init__(self, storage: RetryingStorage, folder: DayFolder) -> None:
        super().__init__(storage, folder)
        self.table_marks = TableMarks(storage, folder.tables)
        self._audit: tuple[str, bytes] | None = None

    def address(self, key: str) -> str:
        """Return the address of a key with its scheme, as catalogs want it."""
        uri = self.storage.uri(key)
        return uri if "://" in uri else f"file://{uri}"

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
        self, manifest: Manifest, seen: Current, writer: str, written_at: str, judged: PointerVerdict | None = None
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
            # It may have been there before, old, and deleted while no pointer named it (`compaction.commands.vacuum`).
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
