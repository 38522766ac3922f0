"""A registry of schemas that answers as Glue does (AWS Glue API, GetSchemaVersion), also unkindly.

`FakeGlue.client` is our own client whose requests do not leave the process; `serving` gives a server, for others.
"""

import functools
import json
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from minutebook.aws.access import PLAIN
from minutebook.aws.clients import GlueClient, make_glue_client
from tests.fakes.answering import Body
from tests.fakes.loopback import serving

_STATUS = {"InternalServiceException": 500}
_HEADERS = {"content-type": "application/x-amz-json-1.1"}


_answering: list["FakeGlue"] = []


@functools.cache
def _client() -> GlueClient:
    """Return the one client of the process, which the newest registry answers: another takes half a second."""
    client: Any = make_glue_client("us-east-1", "http://127.0.0.1:1", PLAIN)

    def send(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        [glue] = _answering
        status, body = glue.answer(str(request.headers["X-Amz-Target"], "ascii"), request.body)
        return AWSResponse(request.url, status, _HEADERS | {"content-length": str(len(body))}, Body(body))

    client.meta.events.register("before-send", send)
    glue: GlueClient = client
    return glue


class FakeGlue:
    """Versions of schemas by id; `failures` are error codes that come before the next answers, `asked` the ids."""

    def __init__(self) -> None:
        self.versions: dict[str, dict[str, Any]] = {}
        self.failures: list[str] = []
        self.denies = False
        self.asked: list[str] = []

    def register(self, definition: object, data_format: str = "AVRO", status: str = "AVAILABLE") -> uuid.UUID:
        """Add a version, whose definition is text or JSON; return its id."""
        version = uuid.UUID(int=0xF << 124 | len(self.versions) + 1)
        self.versions[str(version)] = {
            "SchemaVersionId": str(version),
            "SchemaDefinition": definition if isinstance(definition, str) else json.dumps(definition),
            "DataFormat": data_format,
            "SchemaArn": "arn:aws:glue:us-east-1:000000000000:schema/r/s",
            "VersionNumber": 1,
            "Status": status,
            "CreatedTime": "2026-11-20 00:00:00 +0000",
        }
        return version

    def answer(self, target: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        assert target == "AWSGlue.GetSchemaVersion"
        version = json.loads(body)["SchemaVersionId"]
        self.asked.append(version)
        if self.denies:
            return self._failed("AccessDeniedException")
        if self.failures:
            return self._failed(self.failures.pop(0))
        if version not in self.versions:
            return self._failed("EntityNotFoundException")
        return 200, json.dumps(self.versions[version]).encode()

    def client(self) -> GlueClient:
        """Return a client whose requests are answered here."""
        _answering[:] = [self]
        return _client()

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Yield the address of a server that answers as this registry."""
        glue = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                status, body = glue.answer(self.headers["X-Amz-Target"], self.rfile.read(length))
                self.send_response(status)
                for name, value in (_HEADERS | {"Content-Length": str(len(body))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        with serving(Handler) as address:
            yield address

    def _failed(self, code: str) -> tuple[int, bytes]:
        return _STATUS.get(code, 400), json.dumps({"__type": code, "Message": "no"}).encode()


def behind_header(version: uuid.UUID, payload: bytes, *, is_compressed: bool = False) -> bytes:
    """Return a payload as AWS's serializers write it."""
    body = zlib.compress(payload) if is_compressed else payload
    return bytes([3, 5 if is_compressed else 0]) + version.bytes + body
