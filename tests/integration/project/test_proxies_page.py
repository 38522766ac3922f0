"""The page on proxies: what it tells people to set reaches the clients.

Of the daemon's clients it tells what was tried by hand; the tests see that the variables get there.
"""

import re
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Final

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from consumer.daemon.consume import daemon_environment
from consumer.preflight.check import CheckOutcome
from consumer.preflight.proxies import check_proxies
from minutebook.aws.access import Access
from minutebook.aws.clients import make_kinesis_client, make_s3_client
from tests.unit.project.test_docs_text import CHECKOUT, blocks

_PAGE: Final = CHECKOUT / "docs" / "how-to" / "proxies.md"
_VARIABLES: Final = dict(re.findall(r"^export (\w+)=(\S+)$", "\n".join(blocks(_PAGE, "sh")), re.MULTILINE))
_LOOPBACK: Final = "127.0.0.1"


class _Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((_LOOPBACK, 0), _Refuses)
        self.lines: list[str] = []


class _Refuses(BaseHTTPRequestHandler):
    """Notes the request and refuses it, as a proxy does that does not know the name."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        assert isinstance(self.server, _Proxy)
        self.server.lines.append(f"{self.command} {self.path}")
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Proxy]:
    """Return a proxy that the page's variables name."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "minutebook")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "minutebook")
    with _Proxy() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, value in _VARIABLES.items():
            monkeypatch.delenv(name.lower(), raising=False)
            monkeypatch.setenv(name, re.sub(r"^http://.*", f"http://{_LOOPBACK}:{server.server_address[1]}", value))
        yield server
        server.shutdown()


def _ask(*, kinesis: str | None, s3: str | None) -> None:
    with pytest.raises((BotoCoreError, ClientError)):
        make_s3_client("eu-west-1", s3, Access()).head_bucket(Bucket="minutes")
    with pytest.raises((BotoCoreError, ClientError)):
        make_kinesis_client("eu-west-1", kinesis, Access()).list_shards(StreamName="flights")


def test_requests_to_aws_go_through_the_proxy(proxy: _Proxy) -> None:
    """As a tunnel."""
    _ask(kinesis=None, s3=None)

    assert proxy.lines == [
        "CONNECT minutes.s3.eu-west-1.amazonaws.com:443",
        "CONNECT kinesis.eu-west-1.amazonaws.com:443",
    ]


def test_requests_without_tls_go_through_it_too(proxy: _Proxy) -> None:
    """As whole addresses."""
    _ask(kinesis="http://kinesis.example.test:4000", s3="http://s3.example.test:4001")

    assert proxy.lines == ["HEAD http://s3.example.test:4001/minutes", "POST http://kinesis.example.test:4000/"]


@pytest.mark.parametrize("listed", [".example.test", "s3.example.test,kinesis.example.test", "*"])
def test_what_is_listed_does_not(proxy: _Proxy, monkeypatch: pytest.MonkeyPatch, listed: str) -> None:
    """In the forms that the page gives for boto3."""
    monkeypatch.setenv("NO_PROXY", listed)
    _ask(kinesis="http://kinesis.example.test:4000", s3="http://s3.example.test:4001")

    assert proxy.lines == []


def test_the_form_of_the_daemon_means_nothing_to_boto3(proxy: _Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the page tells to write both."""
    monkeypatch.setenv("NO_PROXY", "*.example.test")
    _ask(kinesis="http://kinesis.example.test:4000", s3="http://s3.example.test:4001")

    assert len(proxy.lines) == 2


def test_the_doctor_is_content_with_the_page() -> None:
    """With all that it sets."""
    check = check_proxies(_VARIABLES)

    assert check is not None
    assert check.outcome is CheckOutcome.OK


def test_daemon_and_processors_get_the_variables(tmp_path: Path) -> None:
    """Whatever else their environment holds."""
    java = {"JAVA_TOOL_OPTIONS": "-Dhttp.proxyHost=proxy.example.com"}

    environment = daemon_environment({**_VARIABLES, **java}, tmp_path / "my.properties", Access())

    assert set(_VARIABLES) == {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
    assert environment.items() >= {**_VARIABLES, **java}.items()
