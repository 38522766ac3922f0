r"""Publish a day: generation, manifest, pointer, symlink manifest.

    part files      dt=D/_gen-G/part-*.parquet    written by tasks; readers that follow the pointer do not see them
    inventory       dt=D/_manifest/G-W.inventory.jsonl.gz   the objects that G was made from
    ends            dt=D/_manifest/G-W.ends.jsonl.gz        each shard's last segment when the day ended (`ends`)
    audit           dt=D/_manifest/G-E.audit.json   the audit by evidence E
    manifest        dt=D/_manifest/G-W.json       If-None-Match:*   names the files that run W wrote of G
    pointer         dt=D/_current.json            If-Match          the one write that changes what readers see
    symlinks        _symlinks/dt=D/manifest       If-Match          the pointer's files for Athena and Trino
    marks           dt=D/_tables/G.*.json         tables of a catalog that may name the files of G (`sweep`)

Each run writes a manifest under its own name, and only the manifest that the pointer names is ever read. A run that
finds files of G from a crashed run therefore reads the day again and reuses no manifest: with one name for all runs,
a manifest of files that were swept, lost or foreign could replace the one of a run that had just written good files.

A crash after any step leaves the old pointer, and the next run writes anew; a pointer without symlinks gets them.
Files of crashed runs are swept when all of them are older than the grace: earlier they may belong to a running job.

The pointer is read **before** the inventory is listed, so If-Match rejects an older view of the day: the loser of two
runs lists again.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import structlog

from compaction.publish.replacing import replace_object
from compaction.publish.sweep import Retained, TableMarks, put_back_ms, sweep
from minutebook.errors import ForeignObject, FormatError, StoreUnavailable
from minutebook.format.document import encode_document
from minutebook.format.minute import iso_time
from minutebook.published.generation import (
    FORMAT,
    Current,
    DayFolder,
    Manifest,
    Pointer,
    PointerVerdict,
    inventory_beside,
)
from minutebook.published.reading import PublishedReader, is_of_later_version, published_until_ms, written_ms
from minutebook.store.objects import PutOutcome
from minutebook.store.retrying import RetryingStorage

_TEXT_TYPE: Final = "text/plain; charset=utf-8"
GRACE_MS: Final = 3 * 24 * 3_600_000
"""How long a replaced generation stays: longer than the longest query that began on it."""


class Publisher(PublishedReader):
    """Reads and publishes one day. Every step may be repeated, by this run or another one."""

    storage: RetryingStorage

    def __init__(self, storage: RetryingStorage, folder: DayFolder) -> None:
        super().__init__(storage, folder)
        self.table_marks = TableMarks(storage, folder.tables)
        self._audit: tuple[str, bytes] | None = None

    def replaceable(self) -> Current:
        """Read the pointer for a run that may publish the day anew; a damaged one counts as none, and has its ETag.

        So the swap replaces it. Raises FormatError for a pointer of a later version, which is not ours to replace.
        """
        stored = self.storage.get(self.folder.pointer)
        if stored is None:
            return Current(None, None)
        try:
            pointer = self._pointer(stored.body, self.folder.pointer)
            published_until_ms(pointer)
            written_ms(pointer)
            return Current(pointer, stored.etag)
        except FormatError as exc:
            if is_of_later_version(stored.body, Pointer):
                raise
            structlog.get_logger().warning(
                "published_day_not_trusted",
                day=self.folder.name,
                reason=str(exc),
                next_step="the day is read and published again; find out who writes there",
            )
            return Current(None, stored.etag)

    def address(self, key: str) -> str:
        """Return the address of a key with its scheme, for catalogs."""
        uri = self.storage.uri(key)
        return uri if "://" in uri else f"file://{uri}"

    def put_inventory(self, manifest_key: str, chunks: Iterable[bytes]) -> None:
        """Store the compressed inventory of a generation beside its manifest. Only this run writes that key."""
        with self.storage.writing(inventory_beside(manifest_key), "application/gzip") as sink:
            for chunk in chunks:
                sink.write(chunk)

    def put_beside(self, key: str, body: bytes) -> None:
        """Store a compressed object beside a manifest. Only this run writes that key."""
        self.storage.put_if_absent(key, body, content_type="application/gzip")

    def put_audit(self, key: str, body: bytes) -> None:
        """Store an audit, also over one of its name: that has the same findings by the same evidence, or is damaged.

        Where another run wins, or vacuum deletes the one that is there, `swap_pointer` sees to it.
        """
        if self.storage.put_if_absent(key, body) is PutOutcome.EXISTS:
            stored = self.storage.get(key)
            if stored is not None and stored.body != body:
                replace_object(self.storage, key, body, stored.etag)
        self._audit = (key, body)

    def put_manifest(self, manifest: Manifest) -> None:
        """Store the manifest under the name of its writer.

        Raises:
            ForeignObject: another object is stored there.
            ObjectVanished: it exists for PUT and not for GET.
        """
        key = self.folder.manifest(manifest.generation, manifest.writer)
        body = encode_document(manifest)
        if self.storage.put_or_read(key, body) is not None:
            raise ForeignObject(
                f"{key} is not what this run wrote there", next_step="find out who writes to the output"
            )

    def swap_pointer(
        self, manifest: Manifest, current: Current, writer: str, written_at: str, judged: PointerVerdict | None = None
    ) -> bool:
        """Point readers at a generation, if the pointer is still `current`.

        `judged` is a newer verdict; None: the manifest's. Where a person had put the pointer back, readers see its
        files since then, whatever `written_at` says.

        PUT If-Match its etag    200 ........ True
                                 412 ........ another run published meanwhile: False
                                 unknown .... read the pointer: True if `writer` is ours; send again if unchanged
        """
        key = self.folder.manifest(manifest.generation, manifest.writer)
        pointer = Pointer(
            format=FORMAT,
            day=self.folder.name,
            generation=manifest.generation,
            manifest=key,
            rows=manifest.rows,
            verdict=judged.verdict if judged else manifest.verdict,
            writer=writer,
            written_at=written_at,
            rules=manifest.rules,
            until=manifest.until,
            audit=judged.audit if judged else manifest.audit,
        )
        return self._swap(pointer, current)

    def swap_verdict(self, current: Current, writer: str, judged: PointerVerdict) -> bool:
        """Give the rows that readers see another verdict, if the pointer is still `current`, which is not empty.

        The manifest takes no part in it: it may be gone or damaged, and the verdict must not stay for that.
        """
        pointer = current.pointer
        assert pointer is not None  # noqa: S101 - for the type checker: callers have looked
        verdict, audit = judged
        return self._swap(msgspec.structs.replace(pointer, verdict=verdict, audit=audit, writer=writer), current)

    def _swap(self, pointer: Pointer, current: Current) -> bool:
        before, writer = current.pointer, pointer.writer
        if before is not None and before.manifest == pointer.manifest:
            put_ms = put_back_ms(self.storage, self.folder, before)
            written_at = iso_time(put_ms) if put_ms else pointer.written_at
            pointer = msgspec.structs.replace(pointer, written_at=written_at)
        body = encode_document(pointer)
        if not replace_object(self.storage, self.folder.pointer, body, current.etag):
            now = self.current().pointer
            if now is None or now.writer != writer:
                return False
        if self._audit is not None and self._audit[0] == pointer.audit:
            # vacuum may have deleted it as old while no pointer named it (`compaction.commands.vacuum.day`).
            self.storage.put_if_absent(*self._audit)
        return True

    def write_symlinks(self) -> None:
        """Write the symlink manifest of what the pointer names now.

        Its ETag is read before the pointer, so that S3 rejects an older view and the last writer has seen the last
        pointer.
        """
        key, backoff = self.folder.symlinks, self.storage.new_backoff()
        while True:
            stored = self.storage.get(key)
            _, manifest = self.published()
            if manifest is None:
                return
            body = self._symlinks(manifest)
            if stored is not None and stored.body == body:
                return
            if replace_object(self.storage, key, body, None if stored is None else stored.etag, _TEXT_TYPE):
                return
            if not backoff.wait():
                raise StoreUnavailable(f"{key} keeps changing", next_step="look for another run of the same day")

    def sweep(self, now_ms: int, grace_ms: int = GRACE_MS) -> list[str]:
        """Delete files that only replaced generations and crashed runs have, and return their keys (`leftovers`)."""
        pointer, manifest = self.published()
        if pointer is None or manifest is None:
            return []
        current = {pointer.manifest, *(file.key for file in manifest.files)}
        retained = Retained(current, self.table_marks.generations(), now_ms - grace_ms, pointer)
        return sweep(self.storage, self.folder, retained)

    def _symlinks(self, manifest: Manifest) -> bytes:
        return "".join(f"{self.storage.uri(file.key)}\n" for file in manifest.files if file.rows).encode()
