"""Sources of credentials that fail: the error names the credentials, not the store, which was never asked.

The sources are servers, files and programs as botocore's own chain finds them.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from consumer.preflight.check import CheckOutcome
from consumer.preflight.preflight import check_credentials
from minutebook.aws.access import PLAIN
from minutebook.aws.clients import DYNAMODB, ask, aws_session, make_dynamodb_client, make_s3_client
from minutebook.aws.credentials import CREDENTIALS_STEP
from minutebook.errors import MinutebookError, StoreRefused, StoreUnavailable, TableUnavailable
from minutebook.retry import Backoff
from minutebook.store import refusals
from minutebook.store.retrying import RetryingStore
from minutebook.store.s3 import S3Store
from tests.fakes.clock import ManualClock
from tests.fakes.lax_s3 import LaxBucket, Refusal, Request, serve, short_lived

_CHAIN: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
_ROLE: Final = "arn:aws:iam::000000000000:role/worker"


@pytest.fixture(autouse=True)
def chain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """Begin with an empty chain, and a session that has not looked yet."""
    for name in _CHAIN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    aws_session.cache_clear()
    yield monkeypatch
    aws_session.cache_clear()


def _fail() -> MinutebookError:
    """Commit to a store that works, until the store's patience is spent; return the error."""
    bucket, clock = LaxBucket(), ManualClock()

    def commit(endpoint: str) -> None:
        store = S3Store(make_s3_client("us-east-1", endpoint, PLAIN), "archive")
        patient = RetryingStore(store, lambda: Backoff(clock, random.Random(1), budget_seconds=1))
        patient.put_if_absent("a/k", b"body")

    with serve(bucket) as endpoint, pytest.raises(MinutebookError) as caught:
        commit(endpoint)
    assert bucket.requests == []
    return caught.value


class EndPoint:
    """An end point of credentials: 200 `good` times, with a short life, then what it refuses with."""

    def __init__(self, refusal: Refusal, good: int = 0) -> None:
        self.refusal, self.good = refusal, good
        self.tokens: list[str | None] = []

    def __call__(self, request: Request) -> Refusal:
        """Answer."""
        self.tokens.append(request.headers.get("authorization"))
        self.good -= 1
        return Refusal(200, body=short_lived()) if self.good >= 0 else self.refusal


@pytest.mark.parametrize(("status", "good"), [(400, 1), (500, 0)])
def test_the_end_point_of_a_container_that_fails(
    chain: pytest.MonkeyPatch, tmp_path: Path, status: int, good: int
) -> None:
    """Also once its first credentials are about to expire; its token file is read again for each attempt."""
    source, token = EndPoint(Refusal(status, body='{"code":"InvalidRequest"}'), good), tmp_path / "token"
    token.write_text("bearer")
    with serve(LaxBucket(refuse=source)) as endpoint:
        chain.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{endpoint}/role")
        chain.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
        error = _fail()
    assert isinstance(error, StoreUnavailable)
    assert error.exit_code == 5
    assert CREDENTIALS_STEP in error.next_step
    assert set(source.tokens) == {"bearer"}


def test_credentials_that_are_expired_when_they_come(chain: pytest.MonkeyPatch) -> None:
    """A RuntimeError of botocore's, which would look like a defect of ours."""
    stale = Refusal(200, body=short_lived(-60))
    with serve(LaxBucket(refuse=lambda _request: stale)) as endpoint:
        chain.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{endpoint}/role")
        error = _fail()
    assert isinstance(error, StoreUnavailable)
    assert CREDENTIALS_STEP in error.next_step


def _metadata(chain: pytest.MonkeyPatch, endpoint: str, _folder: Path) -> None:
    chain.setenv("AWS_EC2_METADATA_DISABLED", "false")
    chain.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint)


def _token(chain: pytest.MonkeyPatch, endpoint: str, folder: Path) -> None:
    (folder / "jwt").write_text("eyJhbGciOiJub25lIn0")
    _no_token(chain, endpoint, folder)


def _no_token(chain: pytest.MonkeyPatch, endpoint: str, folder: Path) -> None:
    chain.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(folder / "jwt"))
    chain.setenv("AWS_ROLE_ARN", _ROLE)
    chain.setenv("AWS_ENDPOINT_URL_STS", endpoint)


def _config(text: str) -> Callable[[pytest.MonkeyPatch, str, Path], None]:
    return lambda _chain, _endpoint, folder: (folder / "config").write_text(text) and None


def _of_sts(status: int, code: str) -> Refusal:
    text = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>m</Message></Error>"
    return Refusal(status, body=f"<ErrorResponse>{text}</ErrorResponse>")


_PROCESS: Final = "[default]\ncredential_process = {}\n"
_SSO: Final = (
    "[default]\nsso_start_url = https://sso.test/start\nsso_region = us-east-1\nsso_account_id = 000000000000\n"
    "sso_role_name = worker\n"
)


@pytest.mark.parametrize(
    ("prepare", "refusal", "kind"),
    [
        (_metadata, Refusal(403), StoreRefused),
        (_token, _of_sts(400, "InvalidIdentityToken"), StoreRefused),
        (_token, _of_sts(403, "AccessDenied"), StoreRefused),
        (_token, _of_sts(400, "IDPCommunicationError"), StoreUnavailable),
        (_token, Refusal(503, body="<html>"), StoreUnavailable),
        (_no_token, Refusal(500), StoreUnavailable),
        (_config(_PROCESS.format("/bin/false")), Refusal(500), StoreUnavailable),
        (_config(_PROCESS.format("/no/such/program")), Refusal(500), StoreUnavailable),
        (_config(_SSO), Refusal(500), StoreRefused),
        (_config("[default]\nrole_arn = x\nsource_profile = nobody\n"), Refusal(500), StoreRefused),
    ],
    ids=[
        "EC2 refuses",
        "STS knows no such token",
        "STS denies the role",
        "STS cannot ask the provider",
        "STS is down",
        "no token file",
        "a program fails",
        "no such program",
        "SSO expired",
        "a profile that names nobody",
    ],
)
def test_a_source_that_fails_is_named(
    chain: pytest.MonkeyPatch,
    tmp_path: Path,
    prepare: Callable[[pytest.MonkeyPatch, str, Path], None],
    refusal: Refusal,
    kind: type[MinutebookError],
) -> None:
    """5 where another attempt may help, 2 where a person has to; `doctor` says the same."""
    with serve(LaxBucket(refuse=lambda _request: refusal)) as endpoint:
        prepare(chain, endpoint, tmp_path)
        error = _fail()
        checked = check_credentials()
    assert (checked.outcome, checked.exit_code) == (CheckOutcome.FAIL, kind.exit_code)
    assert type(error) is kind
    assert CREDENTIALS_STEP in error.next_step
    assert kind is StoreUnavailable or refusals.NO_CREDENTIALS.means in str(error) or "no client of s3" in str(error)


def test_nobody_answers_for_sts(chain: pytest.MonkeyPatch, tmp_path: Path, unused_endpoint: str) -> None:
    """The connection that fails is not the store's."""
    _token(chain, unused_endpoint, tmp_path)
    error = _fail()
    assert isinstance(error, StoreUnavailable)
    assert CREDENTIALS_STEP in error.next_step


def test_the_tables_client_names_them_too(chain: pytest.MonkeyPatch, tmp_path: Path, unused_endpoint: str) -> None:
    """DynamoDB was not asked either."""
    _no_token(chain, unused_endpoint, tmp_path)
    clock = ManualClock()
    client = make_dynamodb_client("us-east-1", unused_endpoint, PLAIN)
    with pytest.raises(TableUnavailable) as caught:
        ask(client.list_tables, "ListTables", Backoff(clock, random.Random(1), budget_seconds=1), DYNAMODB)
    assert caught.value.next_step == CREDENTIALS_STEP


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_a_line_end_of_a_mounted_file_is_named_and_never_told(chain: pytest.MonkeyPatch, name: str) -> None:
    """No header can hold it: botocore's error would, with the secret, and look like one of the network."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        chain.setenv(variable, "hidden")
    chain.setenv(name, "hidden\n")
    error = _fail()
    assert isinstance(error, StoreRefused)
    assert "holds a line end" in str(error)
    check = check_credentials()
    assert (check.outcome, check.exit_code) == (CheckOutcome.FAIL, 2)
    assert "hidden" not in f"{error}{error.next_step}{check}"
