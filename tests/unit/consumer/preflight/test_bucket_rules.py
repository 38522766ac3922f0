"""The pre-flight's judgement, without any server: lifecycle rules and exit codes."""

from typing import Any

import pytest

from consumer.preflight.bucket import expiring_rules
from consumer.preflight.check import Check
from consumer.preflight.preflight import failed_checks_code

EXPIRE: dict[str, Any] = {"ID": "r", "Status": "Enabled", "Expiration": {"Days": 30}}


@pytest.mark.parametrize(
    "rule",
    [
        {**EXPIRE, "Filter": {"Prefix": ""}},
        {**EXPIRE, "Filter": {}},
        {**EXPIRE, "Prefix": "a/"},
        {**EXPIRE, "Filter": {"Prefix": "a/b/"}},
        {**EXPIRE, "Filter": {"Prefix": "a/b/2026/"}},
        {**EXPIRE, "Filter": {"Prefix": "a/b/_duplicates/"}},
        {**EXPIRE, "Filter": {"And": {"Prefix": "a/", "ObjectSizeGreaterThan": 5}}},
        {"ID": "r", "Status": "Enabled", "Expiration": {"Date": "2027-01-01"}, "Filter": {}},
    ],
)
def test_rules_that_delete_our_objects(rule: dict[str, Any]) -> None:
    """A rule whose prefix covers ours, from above or from below, is found."""
    assert list(expiring_rules([rule], "a/b/")) == ["r"]


@pytest.mark.parametrize(
    "rule",
    [
        {**EXPIRE, "Status": "Disabled", "Filter": {}},
        {**EXPIRE, "Filter": {"Prefix": "other/"}},
        {**EXPIRE, "Filter": {"Prefix": "a/b/_doctor/"}},
        {**EXPIRE, "Filter": {"Tag": {"Key": "k", "Value": "v"}}},
        {"ID": "r", "Status": "Enabled", "Expiration": {"ExpiredObjectDeleteMarker": True}, "Filter": {}},
        {"ID": "r", "Status": "Enabled", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}, "Filter": {}},
        {"ID": "r", "Status": "Enabled", "NoncurrentVersionExpiration": {"NoncurrentDays": 1}, "Filter": {}},
    ],
)
def test_rules_that_leave_our_objects_alone(rule: dict[str, Any]) -> None:
    """Other prefixes, tags that we never set, versions and uploads do no harm."""
    assert list(expiring_rules([rule], "a/b/")) == []


def test_the_gravest_failure_names_the_code() -> None:
    """A refusal for safety comes before settings, settings before a service that is away."""
    away, missing, unsafe = (Check.failed("x", "s", next_step="n", exit_code=code) for code in (5, 2, 6))

    assert failed_checks_code([Check.ok("x", "s"), Check.unknown("x", "s"), Check.warn("x", "s", next_step="n")]) == 0
    assert failed_checks_code([away]) == 5
    assert failed_checks_code([away, missing]) == 2
    assert failed_checks_code([away, missing, unsafe]) == 6
