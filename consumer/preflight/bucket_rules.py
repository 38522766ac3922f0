"""What a bucket's lifecycle rules and archive tiers do to objects below a prefix. Pure.

Rules are dictionaries in the form of S3's API (GetBucketLifecycleConfiguration, and
ListBucketIntelligentTieringConfigurations). A rule selects by prefix, by tags, or by both; filters by size are not
looked at: some objects below the prefix have any size.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

Rule = Mapping[str, Any]
TagSet = Mapping[str, str]
"""The tags of one object, by name."""

TIERING: Final = "INTELLIGENT_TIERING"
_UNREADABLE: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})
"""Storage classes whose objects are read only after RestoreObject; GLACIER_IR is read at once."""


class Move(NamedTuple):
    """A rule that makes objects unreadable: those of today on `day`, which is so many `days` after `since`."""

    rule: str
    storage_class: str
    day: datetime
    days: int | None = None
    since: str = "they were written"

    def __str__(self) -> str:
        """Return it in words."""
        age = "" if self.days is None else f", {self.days} days after {self.since}"
        return f"{self.rule} (today's to {self.storage_class} on {self.day:%Y-%m-%d}{age})"


def expiring_rules(rules: Collection[Rule], prefix: str, tags: Collection[TagSet]) -> Iterator[str]:
    """Yield the ids of the rules that delete current objects under `prefix`; `tags` are those of our objects.

    A rule for `<prefix>_doctor/` alone is allowed.
    """
    for name, rule in _selecting(rules, prefix, tags):
        if {"Days", "Date"} & set(rule.get("Expiration") or {}):
            yield name


def archiving_rules(
    rules: Collection[Rule], prefix: str, tags: Collection[TagSet], today: datetime
) -> Iterator[Move]:
    """Yield what the lifecycle rules make unreadable, for objects that are written today."""
    for name, transition in _transitions(rules, prefix, tags):
        if (storage_class := str(transition.get("StorageClass"))) in _UNREADABLE:
            # A transition has either; S3's answer is parsed by botocore, which makes datetimes of dates.
            date, days = transition.get("Date"), int(transition.get("Days", 0))
            if isinstance(date, datetime):
                yield Move(name, storage_class, max(date, today))
            else:
                yield Move(name, storage_class, today + timedelta(days), days)


def archiving_tiers(
    tierings: Collection[Rule], prefix: str, tags: Collection[TagSet], today: datetime
) -> Iterator[Move]:
    """Yield what archive tiers make unreadable: objects of class INTELLIGENT_TIERING nobody read for days."""
    for name, tiering in _selecting(tierings, prefix, tags):
        for tier in tiering.get("Tierings", ()):
            days, access = int(tier["Days"]), str(tier["AccessTier"])
            yield Move(name, access, today + timedelta(days), days, "they were last read")


def is_tiered(rules: Collection[Rule], prefix: str, tags: Collection[TagSet]) -> bool:
    """Return whether a lifecycle rule moves objects to INTELLIGENT_TIERING."""
    return any(change.get("StorageClass") == TIERING for _, change in _transitions(rules, prefix, tags))


def are_by_tag(rules: Collection[Rule], prefix: str) -> bool:
    """Return whether an enabled rule at this prefix selects by tag: then it matters which tags our objects carry."""
    return any(_is_at(rule, prefix) and _wanted_tags(rule) for rule in rules)


def _transitions(
    rules: Collection[Rule], prefix: str, tags: Collection[TagSet]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, rule in _selecting(rules, prefix, tags):
        for transition in rule.get("Transitions") or ():
            yield name, transition


def _selecting(rules: Collection[Rule], prefix: str, tags: Collection[TagSet]) -> Iterator[tuple[str, Rule]]:
    """Yield the enabled rules that select objects of ours, with their ids."""
    for number, rule in enumerate(rules, 1):
        wanted = _wanted_tags(rule)
        if _is_at(rule, prefix) and (not wanted or any(wanted.items() <= carried.items() for carried in tags)):
            yield str(rule.get("ID") or rule.get("Id") or f"rule {number}"), rule


def _is_at(rule: Rule, prefix: str) -> bool:
    selection = rule.get("Filter") or {}
    both = selection.get("And") or {}
    at = str(selection.get("Prefix", both.get("Prefix", rule.get("Prefix", ""))) or "")
    is_below = at.startswith(prefix) and not at.startswith(f"{prefix}_doctor/")
    return rule.get("Status") == "Enabled" and (prefix.startswith(at) or is_below)


def _wanted_tags(rule: Rule) -> dict[str, str]:
    """Return the tags that an object must carry for the rule to select it."""
    selection = rule.get("Filter") or {}
    one, several = selection.get("Tag"), (selection.get("And") or {}).get("Tags") or ()
    return {str(tag["Key"]): str(tag["Value"]) for tag in ([one] if one else several)}
