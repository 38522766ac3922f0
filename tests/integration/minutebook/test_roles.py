"""The stream's role, assumed from a server that stands for STS: when it is asked, and what Kinesis is asked with."""

import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from consumer.preflight.check import CheckOutcome
from consumer.preflight.probe import Probe
from consumer.preflight.stream import describe_stream
from consumer.settings.settings import LoadedSettings, Settings
from minutebook.aws.access import Access
from minutebook.aws.clients import aws_session, make_dynamodb_client, make_kinesis_client
from minutebook.aws.roles import role_session
from minutebook.clock import SystemClock, new_id

ROLE = "arn:aws:iam::123456789012:role/stream-reader"
_ANSWER = (
    '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
    "<AccessKeyId>ASIA{number}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t{number}</SessionToken>"
    "<Expiration>{until}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
)
_REFUSAL = (
    '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
    "<Code>AccessDenied</Code><Message>not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>"
)


class _Services(ThreadingHTTPServer):
    """STS and Kinesis in one: keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.assumed: list[dict[str, list[str]]] = []
        self.asked_as: list[str] = []
        self.seconds = 3600
        self.refuses = False

    @property
    def url(self) -> str:
        """The address of both."""
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: _Services

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "X-Amz-Target" in self.headers:
            self.server.asked_as.append(self.headers["Authorization"].partition("Credential=")[2].partition("/")[0])
            self._send(200, '{"Shards": []}')
            return
        self.server.assumed.append(parse_qs(body.decode()))
        if self.server.refuses:
            self._send(403, _REFUSAL)
            return
        until = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC) + timedelta(seconds=self.server.seconds)
        number = len(self.server.assumed)
        self._send(200, _ANSWER.format(number=number, until=f"{until:%Y-%m-%dT%H:%M:%SZ}"))

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - http.server's
        """Say nothing."""


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch, aws_environment: None) -> Iterator[_Services]:  # noqa: ARG001 - used for its effect
    """Run the server; botocore takes it for STS."""
    with _Services() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        role_session.cache_clear()
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    role_session.cache_clear()


def test_kinesis_is_asked_as_the_role_and_tables_are_not(services: _Services) -> None:
    """The role is assumed once, when the first request is sent, with the external id."""
    access = Access(stream_role_arn=ROLE, stream_role_external_id="id-7")
    kinesis = make_kinesis_client("us-east-1", services.url, access)
    assert services.assumed == []
    kinesis.list_shards(StreamName="s")
    kinesis.list_shards(StreamName="s")
    make_dynamodb_client("us-east-1", services.url, access)
    make_kinesis_client("us-east-1", services.url, access).list_shards(StreamName="s")
    (request,) = services.assumed
    assert (request["RoleArn"], request["ExternalId"], request["RoleSessionName"]) == (
        [ROLE],
        ["id-7"],
        ["minutebook"],
    )
    assert services.asked_as == ["ASIA1", "ASIA1", "ASIA1"]


def test_tables_are_asked_as_this_process(services: _Services) -> None:
    """As the bucket is."""
    make_dynamodb_client("us-east-1", services.url, Access(stream_role_arn=ROLE)).list_tables()
    assert (services.assumed, services.asked_as) == ([], ["minutebook"])


def test_credentials_that_run_out_are_fetched_again(services: _Services) -> None:
    """Before they do: a processor lives for months."""
    services.seconds = 300
    kinesis = make_kinesis_client("us-east-1", services.url, Access(stream_role_arn=ROLE))
    kinesis.list_shards(StreamName="s")
    kinesis.list_shards(StreamName="s")
    assert len(services.assumed) > 1
    assert services.asked_as[-1] == f"ASIA{len(services.assumed)}"


def test_a_role_that_may_not_be_assumed_is_named(services: _Services) -> None:
    """The error is that of the request to STS."""
    services.refuses = True
    with pytest.raises(ClientError, match="AssumeRole") as caught:
        make_kinesis_client("us-east-1", services.url, Access(stream_role_arn=ROLE)).list_shards(StreamName="s")
    assert caught.value.operation_name == "AssumeRole"


def test_doctor_says_that_a_role_cannot_be_assumed(services: _Services) -> None:
    """And what to grant: it is not the stream's permissions."""
    services.refuses = True
    settings = Settings(
        stream_name="s",
        application_name="app",
        region="us-east-1",
        bucket="archive",
        kinesis_endpoint=services.url,
        access=Access(stream_role_arn=ROLE),
    )
    probe = Probe(LoadedSettings(settings, {}, {}), SystemClock(), random.Random(1), new_id, patience_seconds=1)
    check = describe_stream(probe)
    assert (check.outcome, check.exit_code) == (CheckOutcome.FAIL, 2)
    assert f"the role {ROLE} cannot be assumed" in check.sentence
    assert "sts:AssumeRole" in check.next_step


def test_a_host_that_has_no_credentials_yet_may_have_them_later(
    services: _Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said as without a role, and not for ever: the session is the process's one."""
    with monkeypatch.context() as without:
        without.setattr(aws_session(), "get_credentials", lambda: None)
        kinesis = make_kinesis_client("us-east-1", services.url, Access(stream_role_arn=ROLE))
        with pytest.raises(NoCredentialsError):
            kinesis.list_shards(StreamName="s")
    kinesis.list_shards(StreamName="s")
    assert services.asked_as == ["ASIA1"]
