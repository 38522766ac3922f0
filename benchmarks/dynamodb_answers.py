"""DynamoDB's side of claims, as cheap as it can be had: a process that answers each request, and stores nothing.

An event id that ends in `-copy` is somebody's already; all others are new.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ID: Final = re.compile(rb'"S": ?"e:((?:[^"\\]|\\.)*)"')
_HELD: Final = b"-copy"
_ITEM: Final = {
    "id": {"S": "e:x"},
    "owner": {"S": "bench/shardId-000000000001/1:0"},
    "digest": {"S": "0" * 32},
    "expires": {"N": str(1 << 40)},
}
_FAILED: Final = "The conditional request failed"
_REFUSED: Final = json.dumps(
    {"__type": "x#ConditionalCheckFailedException", "message": _FAILED, "Item": _ITEM}
).encode()
_DONE: Final = b'{"TableName":"t"}'
_THERE: Final = b'{"Error":{"Code":"DuplicateItem","Message":"there"},"TableName":"t"}'
_THEIRS: Final = json.dumps(
    {"Error": {"Code": "ConditionalCheckFailed", "Message": _FAILED, "Item": _ITEM}, "TableName": "t"}
).encode()


def answer(body: bytes) -> tuple[int, bytes]:
    """Return status and body of the answer to a PutItem or a BatchExecuteStatement."""
    held = [_HELD in event_id for event_id in _ID.findall(body)]
    if b'"Statements"' in body:
        there = _THERE if b"INSERT" in body else _THEIRS
        return 200, b'{"Responses":[' + b",".join(there if each else _DONE for each in held) + b"]}"
    return (400, _REFUSED) if held[0] else (200, b"{}")


@contextmanager
def serving() -> Iterator[str]:
    """Serve in a process of its own while the block runs; yield the address."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    process.start()
    try:
        yield f"http://{LOOPBACK}:{here.recv()}"
    finally:
        process.terminate()
        process.join()


def _serve(tell: Connection) -> None:
    with suppress(KeyboardInterrupt):
        asyncio.run(_accept(tell))


async def _accept(tell: Connection) -> None:
    server = await asyncio.start_server(_converse, LOOPBACK, 0)
    tell.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            length = _LENGTH.search(await reader.readuntil(b"\r\n\r\n"))
            status, body = answer(await reader.readexactly(int(length[1]) if length else 0))
            head = (
                f"HTTP/1.1 {status} -\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n"
            )
            writer.write(head.encode() + b"\r\n" + body)
    writer.close()
