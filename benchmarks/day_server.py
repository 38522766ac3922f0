"""A lean S3 that holds a day of 144,000 segments without storing them: 100 shards, a segment each minute.

    python -m benchmarks.day_server FILE LATENCY_MS      writes its port into FILE once it listens

Keys and bodies are functions of minute and shard, so that the archive is there at once. Each answer is held back by
the latency, as a network does. `GET /_asked` gives the number of requests by kind since it was asked last.
"""

import functools
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from archive.format.day import Day
from archive.format.keys import application_key, parse_segment_key, segment_key
from archive.format.markers import encode_marker
from archive.format.metadata import ChainStart
from archive.format.minute import MINUTE_MS, minute_path
from archive.format.position import Position
from archive.format.record import Record
from archive.format.segment import SegmentWriter
from benchmarks.archives import APPLICATION, FIRST, PREFIX

DAY: Final = Day.parse("2026-11-20")
SHARDS: Final = 100
RECORDS: Final = 20
_PAGE: Final = 1000
_DATE: Final = "2026-11-20T23:59:59.000Z"


def _first(minute: int, shard: int) -> Position:
    return Position(FIRST + shard * 10**40 + (minute - DAY.first_minute) * 10**6)


def _key(minute: int, shard: int) -> str:
    return segment_key(PREFIX, f"shardId-{shard:012d}", minute, _first(minute, shard))


@functools.lru_cache(maxsize=20_000)
def _segment(key: str) -> tuple[dict[str, str], bytes]:
    minute, shard_id, first, _ = parse_segment_key(PREFIX, key)
    writer = SegmentWriter(shard_id, minute)
    writer.extend(
        [
            Record(
                str(first.sequence + n),
                0,
                f"key-{n % 7}",
                minute * MINUTE_MS + n * 60_000 // RECORDS,
                f'{{"id":{first.sequence % 10**9 + n},"text":"{"word " * 40}"}}'.encode(),
            )
            for n in range(RECORDS)
        ]
    )
    return writer.metadata(after=ChainStart("TRIM_HORIZON"), writer="bench").encode(), writer.body()


def _keys(prefix: str) -> Iterator[str]:
    """Yield the keys below a prefix, which names an hour, a minute, or one shard's minute."""
    for minute in range(DAY.first_minute, DAY.first_minute + 1440):
        folder = f"{PREFIX}{minute_path(minute)}/"
        if folder.startswith(prefix):
            yield from (_key(minute, shard) for shard in range(SHARDS))
        elif prefix.startswith(folder):
            yield from (key for shard in range(SHARDS) if (key := _key(minute, shard)).startswith(prefix))


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    asked: Final[Counter[str]] = Counter()
    latency_seconds = 0.0

    def do_GET(self) -> None:
        """Answer a LIST or a GET."""
        address = urlsplit(self.path)
        if address.path == "/_asked":
            self._answer(HTTPStatus.OK, {}, json.dumps(self.asked).encode())
            self.asked.clear()
            return
        time.sleep(self.latency_seconds)  # noqa: TID251 - a network takes real time
        query = parse_qs(address.query)
        if "list-type" in query:
            self.asked["LIST"] += 1
            self._list(query.get("prefix", [""])[0], query.get("continuation-token", [""])[0])
            return
        self.asked[self.command] += 1
        key = unquote(address.path).split("/", 2)[2]
        if key == application_key(PREFIX):
            self._answer(HTTPStatus.OK, {"ETag": '"a"'}, encode_marker(APPLICATION))
        elif key.endswith(".jsonl.gz"):
            fields, body = _segment(key)
            self._answer(HTTPStatus.OK, {"ETag": '"s"', **{f"x-amz-meta-{n}": v for n, v in fields.items()}}, body)
        else:
            self._answer(HTTPStatus.NOT_FOUND, {}, b"<Error><Code>NoSuchKey</Code></Error>")

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _list(self, prefix: str, token: str) -> None:
        keys = [key for key in _keys(prefix) if key > token]
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{_DATE}</LastModified><ETag>&quot;s&quot;</ETag>"
            "<Size>1200</Size></Contents>"
            for key in keys[:_PAGE]
        )
        is_more = len(keys) > _PAGE
        following = f"<NextContinuationToken>{escape(keys[_PAGE - 1])}</NextContinuationToken>" if is_more else ""
        body = (
            f"<ListBucketResult><IsTruncated>{str(is_more).lower()}</IsTruncated>{following}{rows}</ListBucketResult>"
        )
        self._answer(HTTPStatus.OK, {"Content-Type": "application/xml"}, body.encode())

    def _answer(self, status: HTTPStatus, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, text in {"Last-Modified": "Fri, 20 Nov 2026 23:59:59 GMT", **headers}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main() -> None:
    """Serve until the input ends: whoever started it is gone then."""
    Handler.latency_seconds = float(sys.argv[2]) / 1000
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        Path(sys.argv[1]).write_text(str(server.server_port))
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
