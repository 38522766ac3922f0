"""A region that does not exist is a setting to correct, not a service that is away."""

import socket

import pytest

from minutebook.aws.clients import check_region
from minutebook.errors import SettingsError


def _no_name(address: str, port: int) -> object:
    raise socket.gaierror(socket.EAI_NONAME, f"{address}:{port}")


@pytest.mark.parametrize("region", ["us-east-1", "cn-north-1", "us-gov-west-1"])
def test_known_regions_ask_nobody(region: str) -> None:
    """Regions of every partition that botocore knows."""
    check_region(region, _no_name)


def test_a_region_that_botocore_does_not_know_yet() -> None:
    """Its address has a name, and that is enough."""
    asked: list[tuple[str, int]] = []
    check_region("xy-newest-1", lambda address, port: asked.append((address, port)))

    assert asked == [("kinesis.xy-newest-1.amazonaws.com", 443)]


def test_a_typing_error() -> None:
    """One line, with what was perhaps meant."""
    with pytest.raises(SettingsError) as caught:
        check_region("us-esat-1", _no_name)

    assert str(caught.value).startswith(
        "there is no AWS region us-esat-1: kinesis.us-esat-1.amazonaws.com is not known"
    )
    assert "us-east-1" in str(caught.value)
    assert "regionName" in caught.value.next_step
