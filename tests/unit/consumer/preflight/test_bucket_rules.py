"""The pre-flight's judgement, without any server: lifecycle rules and exit codes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from consumer.preflight.bucket_rules import (
    archiving_rules,
    archiving_tiers,
    are_by_tag,
    expiring_rules,
    is_tiered,
)
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
    assert list(expiring_rules([rule], "a/b/", [{}])) == ["r"]


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
    assert list(expiring_rules([rule], "a/b/", [{}])) == []


TAGS = {"team": "data", "keep": "no"}


@pytest.mark.parametrize(
    "selection",
    [
        {"Tag": {"Key": "keep", "Value": "no"}},
        {"And": {"Prefix": "a/", "Tags": [{"Key": "keep", "Value": "no"}, {"Key": "team", "Value": "data"}]}},
        {"And": {"Prefix": "a/b/2026/", "Tags": [{"Key": "keep", "Value": "no"}]}},
    ],
)
def test_rules_by_a_tag_that_our_objects_carry(selection: dict[str, Any]) -> None:
    """As bad as one by the prefix, whoever tags them: one of our objects has all the tags of the rule."""
    rule = {**EXPIRE, "Filter": selection}
    assert are_by_tag([rule], "a/b/")
    assert list(expiring_rules([rule], "a/b/", [{}, TAGS])) == ["r"]


@pytest.mark.parametrize(
    "selection",
    [
        {"Tag": {"Key": "keep", "Value": "yes"}},
        {"And": {"Prefix": "a/", "Tags": [{"Key": "keep", "Value": "no"}, {"Key": "x", "Value": "y"}]}},
        {"And": {"Prefix": "other/", "Tags": [{"Key": "keep", "Value": "no"}]}},
    ],
)
def test_rules_by_tags_that_no_object_of_ours_carries(selection: dict[str, Any]) -> None:
    """Another value, one tag of two, another prefix; tags of two objects do not add up."""
    assert list(expiring_rules([{**EXPIRE, "Filter": selection}], "a/b/", [{}, TAGS, {"x": "y"}])) == []


TODAY = datetime(2026, 11, 25, 12, tzinfo=UTC)


def moving(storage_class: str, **when: object) -> dict[str, Any]:
    """Return a rule that moves objects."""
    return {"ID": "r", "Status": "Enabled", "Transitions": [{"StorageClass": storage_class, **when}]}


@pytest.mark.parametrize("storage_class", ["GLACIER", "DEEP_ARCHIVE"])
@pytest.mark.parametrize("at", ["", "a/", "a/b/", "a/b/2026/"])
def test_rules_that_make_our_objects_unreadable(storage_class: str, at: str) -> None:
    """With the day: from above and from below our prefix."""
    rule = {**moving(storage_class, Days=90), "Filter": {"Prefix": at}}
    assert [str(move) for move in archiving_rules([rule], "a/b/", [{}], TODAY)] == [
        f"r (today's to {storage_class} on 2027-02-23, 90 days after they were written)"
    ]


def test_a_rule_with_a_date_hits_on_that_day() -> None:
    """Or today, where the day is over: S3 goes on with it."""
    dates = [datetime(2027, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)]
    rules = [{**moving("GLACIER", Date=date), "Filter": {}} for date in dates]
    days = [f"{move.day:%Y-%m-%d}" for move in archiving_rules(rules, "a/b/", [{}], TODAY)]
    assert days == ["2027-01-01", "2026-11-25"]


@pytest.mark.parametrize(
    "rule",
    [
        {**moving("GLACIER", Days=1), "Filter": {"Prefix": "other/"}},
        {**moving("GLACIER", Days=1), "Filter": {}, "Status": "Disabled"},
        {**moving("GLACIER", Days=1), "Filter": {"Tag": {"Key": "k", "Value": "v"}}},
        {**moving("GLACIER_IR", Days=1), "Filter": {}},
        {**moving("INTELLIGENT_TIERING", Days=1), "Filter": {}},
        {"ID": "r", "Status": "Enabled", "Filter": {}, "NoncurrentVersionTransitions": [{"StorageClass": "GLACIER"}]},
    ],
)
def test_rules_that_leave_our_objects_readable(rule: dict[str, Any]) -> None:
    """Other objects, other classes, versions that are no more."""
    assert list(archiving_rules([rule], "a/b/", [{}], TODAY)) == []


def test_archive_tiers_make_objects_unreadable_that_nobody_reads() -> None:
    """Where they are of the class that has tiers, by our setting or by a rule."""
    tiering = {
        "Id": "cold",
        "Status": "Enabled",
        "Filter": {"Prefix": "a/"},
        "Tierings": [{"Days": 90, "AccessTier": "ARCHIVE_ACCESS"}],
    }
    (move,) = archiving_tiers([tiering], "a/b/", [{}], TODAY)
    assert str(move) == "cold (today's to ARCHIVE_ACCESS on 2027-02-23, 90 days after they were last read)"
    assert list(archiving_tiers([{**tiering, "Filter": {"Prefix": "x/"}}], "a/b/", [{}], TODAY)) == []
    assert is_tiered([{**moving("INTELLIGENT_TIERING", Days=1), "Filter": {}}], "a/b/", [{}])
    assert not is_tiered([{**moving("GLACIER", Days=1), "Filter": {}}], "a/b/", [{}])


def test_the_gravest_failure_names_the_code() -> None:
    """A refusal for safety comes before settings, settings before a service that is away."""
    away, missing, unsafe = (Check.failed("x", "s", next_step="n", exit_code=code) for code in (5, 2, 6))

    assert failed_checks_code([Check.ok("x", "s"), Check.unknown("x", "s"), Check.warn("x", "s", next_step="n")]) == 0
    assert failed_checks_code([away]) == 5
    assert failed_checks_code([away, missing]) == 2
    assert failed_checks_code([away, missing, unsafe]) == 6
