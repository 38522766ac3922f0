"""A lean S3 whose objects are files: what the nightly job asks of a bucket, for days that no memory holds.

    python -m benchmarks.disk_s3 FOLDER PORT_FILE [INDEX]      writes its port into PORT_FILE once it listens

INDEX holds objects that are there from the beginning: a line of JSON each, `[key, file, size, modified_ms,
metadata]`, the files relative to the index. What is PUT goes into FOLDER. It checks neither signatures nor checksums,
keeps no versions, and forgets all that was PUT when it ends.
"""

import itertools
import json
import os
import re
import shutil
import sys
import threading
from bisect import bisect_left
from datetime import UTC, datetime
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from minutebook.clock import SystemClock

_PAGE: Final = 1000
_BLOCK: Final = 1 << 20
_CLOCK: Final = SystemClock()


class Stored(NamedTuple):
    """An object: where its bytes are, and what is said of it."""

    file: Path
    size: int
    modified_ms: int
    metadata: dict[str, str]
    etag: str


class Bucket:
    """All objects, by `bucket/key`. What changes it holds the lock."""

    def __init__(self, folder: Path, index: Path | None) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.uploads: dict[str, dict[int, Path]] = {}
        self._objects: dict[str, Stored] = {}
        self._names: list[str] | None = None
        self._numbers = itertools.count()
        for line in index.open() if index is not None else ():
            key, file, size, modified_ms, metadata = json.loads(line)
            tag = f'"{size:x}-{modified_ms:x}"'
            self._objects[key] = Stored(index.parent / file, size, modified_ms, metadata, tag)  # type: ignore[union-attr]

    def new_file(self) -> Path:
        """Return a name that nothing has yet."""
        return self.folder / f"{next(self._numbers):08d}"

    def get(self, key: str) -> Stored | None:
        """Return an object."""
        return self._objects.get(key)

    def put(self, key: str, file: Path, metadata: dict[str, str]) -> Stored:
        """Store a file, which is ours from now on."""
        stored = Stored(file, file.stat().st_size, _CLOCK.now_ms(), metadata, f'"{file.name}"')
        self.delete(key)
        self._objects[key], self._names = stored, None
        return stored

    def delete(self, key: str) -> None:
        """Forget an object."""
        former = self._objects.pop(key, None)
        self._names = None
        if former is not None and former.file.parent == self.folder:
            former.file.unlink()

    def names(self) -> list[str]:
        """Return all keys in their order."""
        if self._names is None:
            self._names = sorted(self._objects)
        return self._names


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    bucket: ClassVar[Bucket]

    def do_GET(self) -> None:
        """Answer a LIST, a GET or a HEAD."""
        key, query = self._asked()
        if "list-type" in query:
            self._list(key.rstrip("/") + "/", {name: values[0] for name, values in query.items()})
        elif "uploads" in query:
            self._answer(HTTPStatus.OK, {}, b"<ListMultipartUploadsResult></ListMultipartUploadsResult>")
        elif (stored := self.bucket.get(key)) is None:
            self._refuse(HTTPStatus.NOT_FOUND, "NoSuchKey")
        elif self.headers.get("If-Match", stored.etag) != stored.etag:
            self._refuse(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
        else:
            self._send(stored)

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def do_PUT(self) -> None:
        """Store an object, or a part of an upload."""
        key, query = self._asked()
        bucket, file = self.bucket, self.bucket.new_file()
        self._receive(file)
        if "uploadId" in query:
            number = int(query["partNumber"][0])
            bucket.uploads[query["uploadId"][0]][number] = file
            self._answer(HTTPStatus.OK, {"ETag": f'"{file.name}"'}, b"")
            return
        wanted = self.headers.get("If-Match")
        with bucket.lock:
            former = bucket.get(key)
            is_refused = self.headers.get("If-None-Match") == "*" and former is not None
            is_refused = is_refused or (wanted is not None and (former is None or former.etag != wanted))
            if is_refused:
                file.unlink()
                self._refuse(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
                return
            stored = bucket.put(key, file, self._metadata())
        self._answer(HTTPStatus.OK, {"ETag": stored.etag}, b"")

    def do_POST(self) -> None:
        """Begin or complete an upload, or delete many objects."""
        key, query = self._asked()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if "uploads" in query:
            name = self.bucket.new_file().name
            self.bucket.uploads[name] = {}
            answer = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            self._answer(HTTPStatus.OK, {}, answer.encode())
        elif "delete" in query:
            names = re.findall("<Key>(.*?)</Key>", body, re.DOTALL)
            with self.bucket.lock:
                for name in names:
                    self.bucket.delete(f"{key.rstrip('/')}/{unescape(name)}")
            rows = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
            self._answer(HTTPStatus.OK, {}, f"<DeleteResult>{rows}</DeleteResult>".encode())
        else:
            stored = self._join(key, query["uploadId"][0])
            answer = (
                f"<CompleteMultipartUploadResult><ETag>{escape(stored.etag)}</ETag></CompleteMultipartUploadResult>"
            )
            self._answer(HTTPStatus.OK, {}, answer.encode())

    def do_DELETE(self) -> None:
        """Delete an object, or give an upload up."""
        key, query = self._asked()
        with self.bucket.lock:
            if "uploadId" in query:
                for file in self.bucket.uploads.pop(query["uploadId"][0], {}).values():
                    file.unlink()
            else:
                self.bucket.delete(key)
        self._answer(HTTPStatus.NO_CONTENT, {}, b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        address = urlsplit(self.path)
        return unquote(address.path).lstrip("/"), parse_qs(address.query, keep_blank_values=True)

    def _metadata(self) -> dict[str, str]:
        named = {name.lower(): text for name, text in self.headers.items()}
        return {
            name.removeprefix("x-amz-meta-"): text for name, text in named.items() if name.startswith("x-amz-meta-")
        }

    def _receive(self, file: Path) -> None:
        left = int(self.headers.get("Content-Length", 0))
        with file.open("wb") as out:
            while left and (part := self.rfile.read(min(left, _BLOCK))):
                out.write(part)
                left -= len(part)

    def _join(self, key: str, upload: str) -> Stored:
        parts = self.bucket.uploads.pop(upload)
        first, *others = (parts[number] for number in sorted(parts))
        with first.open("ab") as whole:
            for other in others:
                with other.open("rb") as part:
                    shutil.copyfileobj(part, whole, _BLOCK)
                other.unlink()
        with self.bucket.lock:
            return self.bucket.put(key, first, {})

    def _send(self, stored: Stored) -> None:
        headers = {"ETag": stored.etag, "Last-Modified": formatdate(stored.modified_ms / 1000, usegmt=True)}
        headers |= {f"x-amz-meta-{name}": text for name, text in stored.metadata.items()}
        begin, end, status = 0, stored.size, HTTPStatus.OK
        if found := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
            first, last = found.groups()
            begin = int(first) if first else max(0, stored.size - int(last))
            end = min(stored.size, int(last) + 1) if first and last else stored.size
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{stored.size}"
            status = HTTPStatus.PARTIAL_CONTENT
        self._head(status, {**headers, "Content-Length": str(end - begin)})
        if self.command != "HEAD":
            with stored.file.open("rb") as body:
                self.connection.sendfile(body, begin, end - begin)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        names, prefix = self.bucket.names(), bucket + query.get("prefix", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        at = bisect_left(names, max(prefix, f"{bucket}{after}\0" if after else ""))
        rows: list[str] = []
        folders: list[str] = []
        last = ""
        while at < len(names) and names[at].startswith(prefix) and len(rows) + len(folders) < _PAGE:
            name, sep, _ = names[at][len(prefix) :].partition(query.get("delimiter") or "\0")
            if sep:
                last = f"{prefix}{name}{sep}"
                folders.append(f"<CommonPrefixes><Prefix>{escape(last[len(bucket) :])}</Prefix></CommonPrefixes>")
                at = bisect_left(names, last + "\U0010ffff")
                last += "\U0010ffff"
            else:
                last = names[at]
                rows.append(_row(last[len(bucket) :], self.bucket.get(last)))
                at += 1
        is_more = at < len(names) and names[at].startswith(prefix)
        token = f"<NextContinuationToken>{escape(last[len(bucket) :])}</NextContinuationToken>" if is_more else ""
        body = f"<IsTruncated>{str(is_more).lower()}</IsTruncated>{token}{''.join(rows)}{''.join(folders)}"
        self._answer(HTTPStatus.OK, {}, f"<ListBucketResult>{body}</ListBucketResult>".encode())

    def _refuse(self, status: HTTPStatus, code: str) -> None:
        self._answer(status, {}, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _answer(self, status: HTTPStatus, headers: dict[str, str], body: bytes) -> None:
        self._head(status, {"Content-Type": "application/xml", **headers, "Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.flush()


def _row(name: str, stored: Stored | None) -> str:
    if stored is None:
        return ""  # deleted since
    moment = datetime.fromtimestamp(stored.modified_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return (
        f"<Contents><Key>{escape(name)}</Key><LastModified>{moment}</LastModified><ETag>{escape(stored.etag)}</ETag>"
        f"<Size>{stored.size}</Size></Contents>"
    )


def main(arguments: list[str]) -> None:
    """Serve until the input ends: whoever started it is gone then."""
    folder, port_file, *index = map(Path, arguments)
    folder.mkdir(parents=True, exist_ok=True)
    Handler.bucket = Bucket(folder, index[0] if index else None)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port_file.write_text(str(server.server_port))
        os.read(0, 1)


if __name__ == "__main__":
    main(sys.argv[1:])
