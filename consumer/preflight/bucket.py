"""Pre-flight checks of the bucket: it answers, permits our requests, has our time and rules that delete nothing.

The consumer needs no permission to read the rules, so such a request that is refused gives "unknown", not a failure.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from consumer.preflight import bucket_rules
from consumer.preflight.check import Check
from consumer.preflight.probe import PROBE_TYPE, Probe
from minutebook.aws.checksums import CRC32_HEADER, WHEN_REQUIRED
from minutebook.aws.clients import make_s3_client
from minutebook.errors import StoreRefused
from minutebook.format.day import MINUTES_A_DAY
from minutebook.format.keys import application_key
from minutebook.format.minute import MINUTE_MS
from minutebook.index.names import ArchiveIndex
from minutebook.store.refusals import NO_CHECKSUMS, NO_CONDITIONS, UNNAMED_HEADER, Row
from minutebook.store.retrying import RetryingStore
from minutebook.store.s3 import S3Store, translate

_NAME: Final = "bucket"
_BODY: Final = b"minutebook doctor\n"
_SKEW_WARN_SECONDS: Final = 5
_SKEW_LIMIT_SECONDS: Final = 240
"""A starting processor LISTs up to five minutes around its clock; one of them is kept in reserve."""
_TAGGED_OBJECTS: Final = 3
_REPLICATED_OBJECTS: Final = 10


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
    try:
        store.put_if_absent(key, _BODY, {"minutebook-doctor": "1"}, PROBE_TYPE)
    except StoreRefused as exc:
        refused = _refused_header(probe) if exc.next_step == UNNAMED_HEADER.do else None
        if refused is None:
            raise
        return refused
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


def _refused_header(probe: Probe) -> Check | None:
    """Find out which header of a PUT the store refuses without a name; None if it is another part of the request."""

    def failed(row: Row, header: str) -> Check:
        means = row.means.format(detail=header)
        return Check.failed(
            _NAME, f"{means}; a PUT without it is taken", next_step=row.do, exit_code=StoreRefused.exit_code
        )

    settings = probe.settings
    client = make_s3_client(settings.region, settings.s3_endpoint, settings.access, checksums=WHEN_REQUIRED)
    try:
        RetryingStore(S3Store(client, settings.bucket), probe.backoff).put_if_absent(probe.new_key(), _BODY)
    except StoreRefused:
        pass
    else:
        return failed(NO_CHECKSUMS, CRC32_HEADER)
    key = probe.new_key()
    try:
        probe.ask_s3(lambda: client.put_object(Bucket=settings.bucket, Key=key, Body=_BODY), f"PUT {key}")
    except StoreRefused:
        return None
    return failed(NO_CONDITIONS, "If-None-Match")


def _status(error: StoreRefused) -> int:
    cause = error.__cause__
    return int(cause.response["ResponseMetadata"]["HTTPStatusCode"]) if isinstance(cause, ClientError) else 0


def check_lifecycle(probe: Probe) -> Check:
    """Fail if lifecycle rules delete objects under the prefix: each deletion frees a slot again.

    Warn if they, or archive tiers, make objects unreadable.
    """
    name, bucket = "lifecycle", probe.settings.bucket
    try:
        answer = probe.ask_s3(
            lambda: probe.s3.get_bucket_lifecycle_configuration(Bucket=bucket), f"GetBucketLifecycle of {bucket}"
        )
    except StoreRefused as exc:
        if _code(exc) == "NoSuchLifecycleConfiguration":
            return Check.ok(name, "no rules")
        return Check.unknown(name, str(exc), next_step="allow s3:GetLifecycleConfiguration to have it checked")
    rules, prefix = [dict(rule) for rule in answer.get("Rules", [])], probe.settings.prefix
    tags, unread = _carried_tags(probe, rules)
    expiring = list(bucket_rules.expiring_rules(rules, prefix, tags))
    if expiring:
        return Check.failed(
            name,
            f"rules delete raw objects: {', '.join(expiring)}",
            next_step="take the prefix out of the rule; minutebook expire deletes what is safe to delete",
            exit_code=6,
        )
    return unread or _check_archiving(probe, rules, tags)


def _carried_tags(probe: Probe, rules: list[dict[str, Any]]) -> tuple[list[Mapping[str, str]], Check | None]:
    """Return the tags of our objects: those that every PUT takes, and those of the newest objects.

    Others may tag what we wrote; the tags of objects are read only if a rule selects by tag. The check tells that
    they cannot be read.
    """
    tags: list[Mapping[str, str]] = [dict(probe.settings.access.object_tags)]
    if not bucket_rules.are_by_tag(rules, probe.settings.prefix):
        return tags, None
    for key in _newest_keys(probe, _TAGGED_OBJECTS):
        get_tags = partial(probe.s3.get_object_tagging, Bucket=probe.settings.bucket, Key=key)
        try:
            stored = probe.ask_s3(get_tags, f"GetObjectTagging of {key}")
        except StoreRefused as exc:
            return tags, Check.unknown(
                "lifecycle",
                f"rules select by tag, and the tags of raw objects cannot be read: {exc}",
                next_step="allow s3:GetObjectTagging below the prefix to have them compared",
            )
        tags.append({tag["Key"]: tag["Value"] for tag in stored["TagSet"]})
    return tags, None


def _check_archiving(probe: Probe, rules: list[dict[str, Any]], tags: list[Mapping[str, str]]) -> Check:
    """Warn of lifecycle rules and archive tiers that make raw objects unreadable, with the day."""
    name, prefix, bucket = "lifecycle", probe.settings.prefix, probe.settings.bucket
    today = datetime.fromtimestamp(probe.clock.now_ms() / 1000, UTC)
    moves = list(bucket_rules.archiving_rules(rules, prefix, tags, today))
    if probe.settings.access.storage_class == bucket_rules.TIERING or bucket_rules.is_tiered(rules, prefix, tags):
        try:
            answer = probe.ask_s3(
                lambda: probe.s3.list_bucket_intelligent_tiering_configurations(Bucket=bucket),
                f"ListBucketIntelligentTieringConfigurations of {bucket}",
            )
        except StoreRefused as exc:
            if not moves:
                return Check.unknown(
                    name,
                    str(exc),
                    next_step="allow s3:GetIntelligentTieringConfiguration to have archive tiers checked",
                )
        else:
            tierings = [dict(tiering) for tiering in answer.get("IntelligentTieringConfigurationList", [])]
            moves += bucket_rules.archiving_tiers(tierings, prefix, tags, today)
    if moves:
        return Check.warn(
            name,
            f"rules make raw objects unreadable: {', '.join(map(str, moves))}",
            next_step="no night, audit or restore reads such an object before it is restored: take the prefix out of "
            "the rule, or move to GLACIER_IR, which is read at once",
        )
    return Check.ok(name, f"{len(rules)} rules, none deletes or archives under the prefix")


def check_replication(probe: Probe) -> Check:
    """Fail if another bucket is replicated into the prefix: replication overwrites without a condition.

    It looks at the newest objects: replication may have begun late.
    """
    name = "replication"
    keys = _newest_keys(probe, _REPLICATED_OBJECTS)
    for key in keys:
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
    return Check.ok(name, f"none of the {len(keys)} newest objects is a replica")


def _newest_keys(probe: Probe, count: int) -> list[str]:
    """Return the keys of the newest segments, the newest first; of the owner's record if there is no segment."""
    index, newest = (
        ArchiveIndex(probe.store, probe.settings.prefix),
        probe.clock.now_ms() // MINUTE_MS + MINUTES_A_DAY,
    )
    for hour in index.hours_back(newest, 0):
        rows = list(probe.store.list_objects(hour.path(probe.settings.prefix)))
        if rows:
            rows.sort(key=lambda row: row.last_modified_ms, reverse=True)
            return [row.key for row in rows[:count]]
    return [row.key for row in probe.store.first_objects(application_key(probe.settings.prefix), 1)]


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
