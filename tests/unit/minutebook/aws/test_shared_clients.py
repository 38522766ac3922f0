"""Clients that a process shares: a fleet's forty streams need eight of them."""

import threading
from typing import TYPE_CHECKING

import pytest

from minutebook.aws import clients
from minutebook.aws.access import PLAIN
from minutebook.aws.clients import client_config, make_dynamodb_client, make_s3_client, share_clients
from minutebook.errors import SettingsError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_ENDPOINT = "http://127.0.0.1:1"


@pytest.fixture
def sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share from here on, and not in other tests of this process."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setattr(clients, "_shared", None)
    share_clients()


@pytest.mark.usefixtures("sharing")
def test_equal_arguments_give_one_client_to_all_threads() -> None:
    """Also to those that ask at once."""
    made: list[S3Client] = []
    threads = [
        threading.Thread(target=lambda: made.append(make_s3_client("us-east-1", _ENDPOINT, PLAIN))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len({id(client) for client in made}) == 1


@pytest.mark.parametrize("endpoint", ["http://kinesis_mock:4567", "nonsense"])
def test_a_client_that_cannot_be_made_is_an_error_with_a_next_step(endpoint: str) -> None:
    """Names with an underscore are usual among containers."""
    with pytest.raises(SettingsError, match=r"no client of dynamodb can be made: .*endpoint") as caught:
        make_dynamodb_client("us-east-1", endpoint, PLAIN)
    assert "correct the endpoint" in caught.value.next_step


@pytest.mark.usefixtures("sharing")
def test_what_differs_is_not_shared() -> None:
    """Time-outs, accounts, endpoints and services: a stop's short time-out must not become everybody's."""
    made = [
        make_s3_client("us-east-1", _ENDPOINT, PLAIN),
        make_s3_client("us-east-1", _ENDPOINT, PLAIN, read_timeout=2),
        make_s3_client("us-east-1", _ENDPOINT, PLAIN._replace(expected_bucket_owner="111122223333")),
        make_s3_client("us-east-1", "http://127.0.0.1:2", PLAIN),
        make_dynamodb_client("us-east-1", _ENDPOINT, PLAIN),
        make_dynamodb_client("us-east-1", _ENDPOINT, PLAIN, client_config(read_timeout=2)),
    ]
    assert len({id(client) for client in made}) == len(made)
    assert [client.meta.config.read_timeout for client in made] == [60, 2, 60, 60, 30, 2]


def test_others_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of one stream has clients of its own for each purpose."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert make_s3_client("us-east-1", _ENDPOINT, PLAIN) is not make_s3_client("us-east-1", _ENDPOINT, PLAIN)
