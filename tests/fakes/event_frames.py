"""Messages of `application/vnd.amazon.eventstream`, as a service writes them (Amazon event stream encoding, Smithy).

A prelude (length of all, length of the headers, their CRC-32), headers of strings, the payload, and a CRC-32 of all.
"""

import json
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

_STRING: Final = 7


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message."""
    packed = b"".join(
        bytes([len(name)]) + name.encode() + struct.pack(">BH", _STRING, len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 12 + len(packed) + len(payload) + 4, len(packed))
    prelude += struct.pack(">I", zlib.crc32(prelude))
    whole = prelude + packed + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


def event(name: str, body: Mapping[str, object]) -> bytes:
    """Return an event of this name."""
    headers = {":event-type": name, ":content-type": "application/x-amz-json-1.1", ":message-type": "event"}
    return frame(headers, json.dumps(body).encode())


def error_event(name: str, message: str) -> bytes:
    """Return an exception, sent in the place of an event."""
    headers = {":exception-type": name, ":content-type": "application/x-amz-json-1.1", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message}).encode())


def broken(kind: str, whole: bytes) -> Iterator[bytes]:
    """Yield what arrives of an event in its stead; raises ConnectionError where the connection is cut behind that."""
    if kind == "cut":
        yield whole[: len(whole) // 2]
        raise ConnectionError
    if kind == "crc":
        yield whole[:-1] + bytes([whole[-1] ^ 1])
    elif kind == "silent":
        threading.Event().wait(0.6)
        raise ConnectionError
    elif kind == "misshapen":
        yield event("SubscribeToShardEvent", {"Records": [{}]})
    elif kind != "end":
        yield error_event(kind, "as it was told")
