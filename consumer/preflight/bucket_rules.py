"""Pre-flight checks of the bucket's own rules: expiry, replication, versioning.

They need permissions that the consumer does not, so a refused request gives "unknown", not a failure.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from botocore.exceptions import ClientError

from consumer.preflight.check import Check
from consumer.preflight.probe import Probe
from minutebook.errors import StoreRefused

_SAMPLE: Final = 10
_EXPIRY_STEP: Final = "take the prefix out of the rule; minutebook expire deletes what is safe to delete"


def check_lifecycle(probe: Probe) -> Check:
    """Fail if lifecycle rules delete objects under the prefix: each deletion frees a slot again."""
    name, bucket = "lifecycle", probe.settings.bucket
    try:
        answer = probe.ask_s3(
            lambda: probe.s3.get_bucket_lifecycle_configuration(Bucket=bucket), f"GetBucketLifecycle of {bucket}"
        )
    except StoreRefused as exc:
        if _code(exc) == "NoSuchLifecycleConfiguration":
            return Check.ok(name, "no rules")
        return Check.unknown(name, str(exc), next_step="allow s3:GetLifecycleConfiguration to have it checked")
    rules = [dict(rule) for rule in answer.get("Rules", [])]
    expiring = list(expiring_rules(rules, probe.settings.prefix))
    if expiring:
        return Check.failed(
            name, f"rules delete raw objects: {', '.join(expiring)}", next_step=_EXPIRY_STEP, exit_code=6
        )
    return Check.ok(name, f"{len(rules)} rules, none deletes under the prefix")


def expiring_rules(rules: list[dict[str, Any]], prefix: str) -> Iterator[str]:
    """Yield the ids of the rules that delete current objects under `prefix`.

    A rule for `<prefix>_doctor/` alone is allowed; one that selects by tag matches none of our objects.
    """
    for number, rule in enumerate(rules):
        selection = rule.get("Filter") or {}
        both = selection.get("And") or {}
        at = str(selection.get("Prefix", both.get("Prefix", rule.get("Prefix", ""))) or "")
        tagged = bool(selection.get("Tag") or both.get("Tags"))
        expires = bool({"Days", "Date"} & set(rule.get("Expiration") or {}))
        applies = prefix.startswith(at) or (at.startswith(prefix) and not at.startswith(f"{prefix}_doctor/"))
        if rule.get("Status") == "Enabled" and expires and applies and not tagged:
            yield str(rule.get("ID", f"rule {number + 1}"))


def check_replication(probe: Probe) -> Check:
    """Fail if another bucket is replicated into the prefix: replication overwrites without a condition."""
    name = "replication"
    prefix = probe.settings.prefix
    sample = [row.key for row in probe.store.first_objects(prefix, _SAMPLE)]
    archived = [key for key in sample if not key.startswith(f"{prefix}_doctor/")]
    for key in archived:
        head: Mapping[str, Any] = probe.ask_s3(
            partial(probe.s3.head_object, Bucket=probe.settings.bucket, Key=key), f"HEAD {key}"
        )
        if head.get("ReplicationStatus") == "REPLICA":
            return Check.failed(
                name,
                f"{key} is a replica from another bucket",
                next_step="replicate to another prefix or bucket",
                exit_code=6,
            )
    return Check.ok(name, f"none of {len(archived)} objects looked at is a replica")


def check_versioning(probe: Probe) -> Check:
    """Report whether the bucket keeps versions."""
    name, bucket = "versioning", probe.settings.bucket
    try:
        answer = probe.ask_s3(
            lambda: probe.s3.get_bucket_versioning(Bucket=bucket), f"GetBucketVersioning of {bucket}"
        )
    except StoreRefused as exc:
        return Check.unknown(name, str(exc), next_step="allow s3:GetBucketVersioning to have it checked")
    if answer.get("Status") == "Enabled":
        return Check.ok(name, "on: a deleted raw object can be brought back; expire old versions by a rule")
    return Check.ok(name, "off: a deleted raw object is gone")


def _code(error: StoreRefused) -> str:
    cause = error.__cause__
    return str(cause.response["Error"]["Code"]) if isinstance(cause, ClientError) else ""
