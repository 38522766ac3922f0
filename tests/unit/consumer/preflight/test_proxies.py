"""Which variables of a proxy are set: KCL's daemon and everything else read different ones."""

import os
from itertools import takewhile

import pytest

from consumer.preflight.check import CheckOutcome
from consumer.preflight.preflight import preflight
from consumer.preflight.proxies import check_proxies
from consumer.settings.settings import load_with_kcl
from minutebook.clock import SystemClock, new_id, new_random

_PROXY = "http://user:secret@proxy.example.com:3128"


def test_without_a_proxy_nothing_is_said() -> None:
    """An empty variable is none."""
    assert check_proxies({"PATH": "/bin", "HTTPS_PROXY": ""}) is None


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
def test_the_daemon_would_go_past_it(name: str) -> None:
    """It takes no notice of the variable that all others take, in either case of letters."""
    check = check_proxies({name: _PROXY})

    assert check is not None
    assert check.outcome is CheckOutcome.WARN
    assert "KCL's daemon" in check.sentence
    assert "HTTP_PROXY" in check.next_step


def test_everything_but_the_daemon_would_go_past_it() -> None:
    """boto3 reads HTTP_PROXY for plain endpoints alone."""
    check = check_proxies({"http_proxy": _PROXY})

    assert check is not None
    assert check.outcome is CheckOutcome.WARN
    assert "HTTPS_PROXY" in check.next_step


@pytest.mark.parametrize(
    "daemons",
    [
        {"HTTP_PROXY": _PROXY},
        {"http_proxy": _PROXY},
        {"JAVA_TOOL_OPTIONS": "-Xmx1g -Dhttp.proxyHost=proxy.example.com -Dhttp.proxyPort=3128"},
    ],
)
def test_both_are_told(daemons: dict[str, str]) -> None:
    """Also by Java's own property, which the daemon takes before the variables."""
    check = check_proxies({"HTTPS_PROXY": _PROXY, **daemons})

    assert check is not None
    assert check.outcome is CheckOutcome.OK


def test_a_password_is_not_printed() -> None:
    """Which a proxy's address may hold."""
    checks = [check_proxies({"HTTPS_PROXY": _PROXY}), check_proxies({"HTTPS_PROXY": _PROXY, "HTTP_PROXY": _PROXY})]

    assert all(check is not None and "secret" not in f"{check.sentence} {check.next_step}" for check in checks)


def test_the_doctor_says_it_before_it_asks_anybody() -> None:
    """Its first requests may hang."""
    names = {"STREAM_NAME": "flights", "APPLICATION_NAME": "archive", "REGION_NAME": "eu-west-1", "BUCKET": "minutes"}
    loaded = load_with_kcl(None, {f"MINUTEBOOK_{name}": value for name, value in names.items()})
    environ = {**os.environ, "HTTPS_PROXY": _PROXY}

    checks = preflight(loaded, environ, whole=True, clock=SystemClock(), rng=new_random(), new_id=new_id)

    assert "proxy" in {check.name for check in takewhile(lambda check: check.name != "credentials", checks)}
