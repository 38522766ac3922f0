"""Pre-flight checks of the bucket: it answers, permits our requests, has our time and rules that delete nothing.

The consumer needs no permission to read the rules, so such a request that is refused gives "unknown", not a failure.
"""

from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from consumer.preflight.check import Check
from consumer.preflight.probe import PROBE_TYPE, Probe
from minutebook.errors import StoreRefused
from minutebook.store.s3 import translate

_NAME: Final = "bucket"
_BODY: Final = b"minutebook doctor\n"
_SKEW_WARN_SECONDS: Final = 5
_SKEW_LIMIT_SECONDS: Final = 240
"""A starting processor LISTs up to five minutes around its clock; one of them is kept in reserve."""


def check_reachable(probe: Probe) -> Check:
    """HEAD the bucket; raises StoreRefused or StoreUnavailable."""
    bucket = probe.settings.bucket
    try:
        probe.ask_s3(lambda: probe.s3.head_bucket(Bucket=bucket), f"HEAD of the bucket {bucket}")
    except StoreRefused as exc:
        status = _status(exc)
        if status == 404:  # noqa: PLR2004 - HTTP
            return Check.failed(
                _NAME,
                f"there is no bucket {bucket}",
                next_step="create it, or correct minutebook.bucket",
                exit_code=exc.exit_code,
            )
        if status in {301, 400}:
            return Check.failed(
                _NAME,
                f"the bucket {bucket} is not served by region {probe.settings.region}",
                next_step="set regionName to the bucket's region",
                exit_code=exc.exit_code,
            )
        if status != 403:  # noqa: PLR2004 - HTTP: HEAD needs s3:ListBucket; the checks after this one name what is missing
            raise
    return Check.ok(_NAME, f"{bucket} answers")


def check_stale_clock(probe: Probe) -> Check:
    """Compare this machine's clock with the Date header of S3's response."""
    before_ms = probe.clock.now_ms()
    try:
        headers: Mapping[str, str] = probe.s3.head_bucket(Bucket=probe.settings.bucket)["ResponseMetadata"][
            "HTTPHeaders"
        ]
    except ClientError as exc:
        headers = exc.response["ResponseMetadata"]["HTTPHeaders"]  # S3 dates an error response, too
    except BotoCoreError as exc:
        raise translate(exc, "HEAD of the bucket") from exc
    middle_ms = (before_ms + probe.clock.now_ms()) / 2
    date = headers.get("date")
    if date is None:
        return Check.unknown("clock", "the bucket's answers carry no Date")
    # The header is cut to whole seconds: on average S3's clock was half a second further.
    skew = (middle_ms - parsedate_to_datetime(date).timestamp() * 1000) / 1000 - 0.5
    sentence = f"this machine's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the bucket's"
    if abs(skew) > _SKEW_LIMIT_SECONDS:
        return Check.failed("clock", sentence, next_step="set the clock (chrony, systemd-timesyncd)", exit_code=6)
    if abs(skew) > _SKEW_WARN_SECONDS:
        return Check.warn("clock", sentence, next_step="let chrony or systemd-timesyncd keep it")
    return Check.ok("clock", "within 5 s of the bucket's")


def check_listing(probe: Probe) -> Check:
    """Send a LIST under the prefix; raises StoreRefused or StoreUnavailable."""
    prefix = probe.settings.prefix
    probe.store.first_objects(prefix, 1)
    return Check.ok(_NAME, f"LIST works under {prefix or 'the bucket'!r}")


def check_requests(probe: Probe) -> Check:
    """Send the protocol's four kinds of request under the prefix; raises StoreRefused or StoreUnavailable."""
    store, key = probe.store, probe.new_key()
    store.put_if_absent(key, _BODY, {"minutebook-doctor": "1"}, PROBE_TYPE)
    head, stored = store.head(key), store.get(key)
    if head is None or stored is None or key not in store.keys(probe.folder):
        return Check.failed(
            _NAME, "an object that was just written is not found", next_step="use a store that is S3", exit_code=6
        )
    if stored.body != _BODY or head.metadata.get("minutebook-doctor") != "1":
        return Check.failed(
            _NAME,
            "bytes or metadata do not come back as written",
            next_step="look for a proxy between here and the bucket",
            exit_code=6,
        )
    return Check.ok(_NAME, f"PUT, HEAD, GET and LIST work under {probe.settings.prefix or 'the bucket'!r}")


def _status(error: StoreRefused) -> int:
    cause = error.__cause__
    return int(cause.response["ResponseMetadata"]["HTTPStatusCode"]) if isinstance(cause, ClientError) else 0


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
            name,
            f"rules delete raw objects: {', '.join(expiring)}",
            next_step="take the prefix out of the rule; minutebook expire deletes what is safe to delete",
            exit_code=6,
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
    sample = [row.key for row in probe.store.first_objects(prefix, 10)]
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
