"""A web identity on loopback: an STS whose credentials expire, and services that refuse those that have expired.

The servers behind it take any credentials, so a proxy before each looks at the access key that a request is signed
with. Signatures are not checked.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from minutebook.clock import SystemClock
from tests.fakes.loopback import serving

ROLE: Final = "arn:aws:iam::000000000000:role/fleet"
_CLOCK: Final = SystemClock()
_KEY: Final = re.compile(r"Credential=([^/]+)/")
_HOP: Final = frozenset({"connection", "transfer-encoding", "content-length", "server", "date"})
_ANSWER: Final = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>
<SessionToken>token-{key}</SessionToken><Expiration>{expires}</Expiration></Credentials>
<AssumedRoleUser><Arn>{role}</Arn><AssumedRoleId>ID:fleet</AssumedRoleId></AssumedRoleUser>
</AssumeRoleWithWebIdentityResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>
</AssumeRoleWithWebIdentityResponse>"""
_AWAY: Final = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Receiver</Type>
<Code>ServiceUnavailable</Code><Message>away</Message></Error><RequestId>1</RequestId></ErrorResponse>"""
_REFUSALS: Final = {
    "dynamodb": '{"__type":"com.amazonaws.dynamodb.v20120810#ExpiredTokenException","message":"The security token '
    'included in the request is expired"}',
    "s3": "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>",
}


class WebIdentity:
    """What was issued until when, and what was refused; thread-safe. `seconds` is the life of credentials."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._expires: dict[str, float] = {}
        self.is_away = False
        self.issued: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.served: dict[str, int] = {}

    @property
    def last_expiry(self) -> float:
        """When the youngest credentials expire, in seconds since the epoch."""
        with self._lock:
            return max(self._expires.values())

    @property
    def first_key(self) -> str:
        """The access key that was issued first."""
        with self._lock:
            return next(iter(self._expires))

    def issue(self, agent: str) -> str | None:
        """Return the answer of STS; None while it is away."""
        with self._lock:
            if self.is_away:
                return None
            key, expires = f"KEY{len(self._expires):08d}", int(_CLOCK.now_ms() / 1000 + self._seconds)
            self._expires[key] = expires
            self.issued[agent] = self.issued.get(agent, 0) + 1
        iso = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return _ANSWER.format(key=key, expires=iso, role=ROLE)

    def admits(self, authorization: str, service: str) -> bool:
        """Tell whether the credentials of a request have not expired, and count it."""
        found = _KEY.search(authorization)
        with self._lock:
            held = found is not None and self._expires.get(found[1], 0) > _CLOCK.now_ms() / 1000
            counts = self.served if held else self.refused
            counts[service] = counts.get(service, 0) + 1
        return held

    def environment(self, folder: Path, sts: str) -> dict[str, str]:
        """Return what a process needs to take the identity, and no other credentials: empty ones are none."""
        token = folder / "token"
        token.write_text("a.web.identity")
        return {
            "AWS_ACCESS_KEY_ID": "",
            "AWS_SECRET_ACCESS_KEY": "",
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            "AWS_ROLE_ARN": ROLE,
            "AWS_ROLE_SESSION_NAME": "fleet",
            "AWS_ENDPOINT_URL_STS": sts,
        }

    @contextmanager
    def sts(self) -> Iterator[str]:
        """Serve STS while the block runs; yield the address."""
        identity = self

        class Handler(_Handler):
            def do_POST(self) -> None:
                asked = parse_qs(self.body().decode())
                assert asked["Action"] == ["AssumeRoleWithWebIdentity"], asked
                assert asked["WebIdentityToken"] == ["a.web.identity"], asked
                agent = "boto3" if "boto" in self.headers.get("User-Agent", "").lower() else "Java"
                answer = identity.issue(agent)
                self.answer(200 if answer else 503, {"Content-Type": "text/xml"}, (answer or _AWAY).encode())

        with serving(Handler) as address:
            yield address

    @contextmanager
    def before(self, service: str, endpoint: str) -> Iterator[str]:
        """Serve `dynamodb` or `s3` for those whose credentials are valid; yield the address."""
        identity = self

        class Handler(_Handler):
            def pass_on(self) -> None:
                body = self.body()
                if not identity.admits(self.headers.get("Authorization", ""), service):
                    self.answer(400, {"Content-Type": "application/x-amz-json-1.0"}, _REFUSALS[service].encode())
                    return
                connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
                try:
                    headers = {name: value for name, value in self.headers.items() if name.lower() not in _SENT_ANEW}
                    connection.request(self.command, self.path, body, headers)
                    answer = connection.getresponse()
                    self.answer(answer.status, dict(answer.getheaders()), answer.read())
                finally:
                    connection.close()

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on  # noqa: N815 - the names of http.server

        with serving(Handler) as address:
            yield address


_SENT_ANEW: Final = frozenset({"connection", "expect", "content-length"})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """Answer; a process that is killed amid a request takes its connection with it."""
        with suppress(ConnectionError):
            super().handle()

    def body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Send an answer; that to a HEAD has the length of what was not sent."""
        self.send_response(status)
        lengths = [value for name, value in headers.items() if name.lower() == "content-length"]
        for name, value in headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        is_head = self.command == "HEAD"
        self.send_header("Content-Length", lengths[0] if is_head and lengths else str(0 if is_head else len(body)))
        self.end_headers()
        if not is_head:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - the standard library's names
        """Say nothing."""
