"""Settings that are valid alone and contradict each other. Pure."""

import math
from collections.abc import Mapping
from typing import Any, Final

from minutebook.aws.access import Access, access_contradictions

_IDLE_SECONDS: Final = 60


def setting_contradictions(values: Mapping[str, Any], kcl: Mapping[str, str]) -> list[str]:
    """Return one sentence each. `values`: only what is set, by the names in `Settings`; `kcl`: the texts of KCL's."""
    age = values.get("max_segment_age_seconds", 900)
    errors = []
    if age <= _IDLE_SECONDS + values.get("linger_seconds", 5):
        errors.append("minutebook.maxSegmentAgeSeconds must exceed 60 s + minutebook.lingerSeconds")
    if age <= (values.get("flush_seconds") or 0):
        errors.append("minutebook.maxSegmentAgeSeconds must exceed minutebook.flushSeconds")
    hold_seconds = min(values.get("flush_seconds") or math.inf, _IDLE_SECONDS + values.get("linger_seconds", 5))
    if values.get("max_uncommitted_seconds", math.inf) <= hold_seconds:
        errors.append(f"minutebook.maxUncommittedSeconds must exceed {hold_seconds:g} s: buffers are held so long")
    silence = kcl.get("timeoutInSeconds", "")
    if silence.isdecimal() and int(silence) < values.get("store_timeout_seconds", 300) + _IDLE_SECONDS:
        errors.append(
            "timeoutInSeconds must exceed minutebook.storeTimeoutSeconds by 60 s: "
            "the daemon would halt while a processor waits for S3"
        )
    return errors + _dedupe(values) + _watching(values)


def _dedupe(values: Mapping[str, Any]) -> list[str]:
    """Return the settings that the deduplication mode requires and lacks, and those that it would ignore."""
    mode = values.get("dedupe")
    needs = {"claims": {"event_id"}, "watermark": {"producer_sequence"}}.get(mode or "", set())
    takes = {"claims": {"event_id", "dedupe_table"}}.get(mode or "", set())
    if mode == "watermark":
        takes = {"producer_sequence", "producer_key", "producer_ordered", "dedupe_table"}
    names = {"event_id": "eventId", "producer_sequence": "producerSequence", "producer_key": "producerKey"}
    names |= {"producer_ordered": "producerOrdered", "dedupe_table": "dedupeTable"}
    missing = [
        f"minutebook.{names[name]} is missing: minutebook.dedupe={mode} needs it"
        for name in sorted(needs)
        if values.get(name) is None
    ]
    idle = [
        f"minutebook.{names[name]} has no effect "
        + (f"with minutebook.dedupe={mode}" if mode else "without minutebook.dedupe")
        for name in sorted(names.keys() - takes)
        if values.get(name)
    ]
    return missing + idle


def _watching(values: Mapping[str, Any]) -> list[str]:
    """Return the settings of outputs that are switched off."""
    pairs = {
        ("metrics_host", "metricsHost"): ("metrics_port", "metricsPort"),
        ("metrics_interval_seconds", "metricsIntervalSeconds"): ("metrics", "metrics"),
    }
    return [
        f"minutebook.{idle} has no effect without minutebook.{wanted}"
        for (name, idle), (needed, wanted) in pairs.items()
        if name in values and needed not in values
    ]


def access_errors(values: Mapping[str, Any], kcl: Mapping[str, str], *, account: str) -> list[str]:
    """Return the contradictions in how AWS is reached; `account` is the stream's, or empty if it is not known."""
    addresses = {
        "minutebook.s3Endpoint": values.get("s3_endpoint"),
        "kinesisEndpoint": values.get("kinesis_endpoint"),
        "dynamoDBEndpoint": values.get("dynamodb_endpoint"),
    }
    access: Access = values["access"]
    errors = access_contradictions(access, addresses, account)
    provider = kcl.get("AwsCredentialsProvider")
    # The file written for the daemon has both; then the provider names this role, and the processors accept it.
    if access.stream_role_arn and provider is not None and f"|{access.stream_role_arn}|" not in provider:
        errors.append(
            "AwsCredentialsProvider and minutebook.streamRoleArn both say as whom KCL asks Kinesis: keep one "
            "(AwsCredentialsProviderDynamoDB says it for the tables)"
        )
    return errors
