"""The settings of a run: one frozen value, read once and checked before any I/O.

The file holds KCL's own names and `minutebook.*` (KCL ignores unknown names). All errors are reported at once.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from minutebook.aws.access import PLAIN, Access, access_contradictions
from minutebook.compression import Compression
from minutebook.errors import SettingsError
from minutebook.properties_file import Source, read_settings
from minutebook.settings.kcl_properties import refuse
from minutebook.settings.names import OUR_PROPERTIES, OURS, is_known, overrides, snake, unknown
from minutebook.settings.values import Start
from minutebook.spans import SLOT_SECONDS
from minutebook.wording import ITEM

_IDLE_SECONDS: Final = 60
_DIGITS: Final = 10
"""More than any number of KCL's has."""
_ARN: Final = re.compile(r"arn:[^:]+:kinesis:([^:]+):([0-9]+):stream/([a-zA-Z0-9_.-]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings of a run, with units in their names. `flush_seconds` None: segments end with their minute only.

    `prefix` is empty or ends in a slash. `start` is `oldest`, `now` or epoch milliseconds. `compression` None: the
    one that the archive was begun with, and gzip for a new archive.
    """

    stream_name: str
    application_name: str
    region: str
    bucket: str
    access: Access = PLAIN
    prefix: str = ""
    s3_endpoint: str | None = None
    kinesis_endpoint: str | None = None
    dynamodb_endpoint: str | None = None
    checkpoint_interval_seconds: float = 30
    linger_seconds: float = 5
    flush_seconds: float | None = None
    max_segment_bytes: int = 134_217_728
    max_segment_age_seconds: float = 900
    compression: Compression | None = None
    start: Start = "oldest"
    store_timeout_seconds: float = 300
    dedupe: Literal["claims", "watermark"] | None = None
    event_id: str | None = None
    producer_sequence: str | None = None
    producer_key: str | None = None
    producer_ordered: bool = False
    dedupe_table: str | None = None
    adopt_checkpoint: bool = False
    release_leases: bool = True
    fork_server: bool = True
    log_level: str = "info"
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    metrics: Literal["emf"] | None = None
    metrics_interval_seconds: float = 60
    max_uncommitted_seconds: float | None = None
    complete_slot_seconds: int = SLOT_SECONDS
    """The distance of two boundaries at which the archive is said to be complete; 0: nobody says it."""
    columns: str | None = None
    """The path of a file that the nightly job reads."""
    event_time: str | None = None
    event_window: int | None = None
    """Where the nightly job finds the time of an event, and how many days before its arrival that may lie."""
    glue_endpoint: str | None = None
    """Where the nightly job finds the registry of schemas; None: Glue in the stream's region."""

    @property
    def dedupe_table_name(self) -> str | None:
        """The table of claims and watermarks; None where producer deduplication is off."""
        return None if self.dedupe is None else self.dedupe_table or f"{self.application_name}-dedupe"


class LoadedSettings(NamedTuple):
    """A checked file: the typed settings and their texts.

    `kcl` holds KCL's properties, `ours` the names after `minutebook.` with the environment's overrides applied.
    """

    settings: Settings
    kcl: Mapping[str, str]
    ours: Mapping[str, str]
    path: Path | None = None
    """None if the environment holds the text of the file."""


def load_settings(path: Source, environ: Mapping[str, str]) -> Settings:
    """Read and check `path` (None: the text in the environment), with the environment's overrides.

    Raises one SettingsError for all errors.
    """
    return load_with_kcl(path, environ).settings


def load_with_kcl(path: Source, environ: Mapping[str, str]) -> LoadedSettings:
    """Do what `load_settings` does, and keep KCL's properties for the daemon's file."""
    source = read_settings(path, environ)
    errors = [*source.errors, *source.override_errors]
    texts, override_errors = overrides(environ)
    errors += override_errors
    kcl: dict[str, str] = {}
    for name, text in source.values.items():
        if name.startswith(OURS) and name.removeprefix(OURS) in OUR_PROPERTIES:
            texts.setdefault(name.removeprefix(OURS), (name, text))
        elif is_known(name):
            kcl[name] = text
            errors += filter(None, [refuse(name, text)])
        else:
            errors.append(unknown(name))
    values = _parse(texts, errors)
    _take_kcl(kcl, values, environ, errors)
    values["access"] = Access(**{name: values.pop(name) for name in Access._fields if name in values})
    errors += _missing(values, texts) + _setting_contradictions(values, kcl)
    errors += _access_errors(values, kcl, account=_account(kcl))
    if errors:
        raise _settings_error(source.source, errors)
    ours = {name: text for name, (_, text) in texts.items()}
    return LoadedSettings(Settings(**values), kcl, ours, source.path)


def _parse(texts: Mapping[str, tuple[str, str]], errors: list[str]) -> dict[str, Any]:
    defaults = {field.name: field.default for field in fields(Settings)} | Access._field_defaults
    values: dict[str, Any] = {}
    for name, (where, text) in texts.items():
        try:
            values[snake(name)] = OUR_PROPERTIES[name](text)
        except ValueError as exc:
            errors.append(f"{where} {exc}{_default_hint(defaults[snake(name)])}")
    return values


def _default_hint(default: object) -> str:
    """Return ` (default ...)` as written in a file; empty for a required setting."""
    if default is MISSING:
        return ""
    words: dict[object, str] = {None: "unset", "": "empty", (): "unset", False: "false", True: "true"}
    return f" (default {words.get(default, default)})"


def _take_kcl(kcl: Mapping[str, str], values: dict[str, Any], environ: Mapping[str, str], errors: list[str]) -> None:
    """Copy what our own clients need from KCL's properties into `values`."""
    arn = _ARN.fullmatch(kcl.get("streamArn", ""))
    if "streamArn" in kcl and arn is None:
        errors.append(f"streamArn must be arn:aws:kinesis:<region>:<account>:stream/<name>, not {kcl['streamArn']!r}")
    if arn and kcl.get("streamName", arn[3]) != arn[3]:
        errors.append("streamName and streamArn name two streams: keep one of them")
    if arn and kcl.get("regionName", arn[1]) != arn[1]:
        errors.append(f"regionName={kcl['regionName']}, and streamArn lies in {arn[1]}: remove regionName")
    region = arn[1] if arn else environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    ours = {
        "stream_name": kcl.get("streamName") or (arn[3] if arn else None),
        "application_name": kcl.get("applicationName"),
        "region": kcl.get("regionName") or region,
        "kinesis_endpoint": kcl.get("kinesisEndpoint"),
        "dynamodb_endpoint": kcl.get("dynamoDBEndpoint"),
    }
    values.update({name: value for name, value in ours.items() if value})
    if "start" not in values and "initialPositionInStreamExtended" in kcl:
        seconds_text = kcl["initialPositionInStreamExtended"]
        usable = refuse("initialPositionInStreamExtended", seconds_text) is None
        values["start"] = int(seconds_text) * 1000 if usable else "oldest"


def _missing(values: Mapping[str, Any], texts: Mapping[str, tuple[str, str]]) -> list[str]:
    needed = {
        "stream_name": "streamName (or streamArn)",
        "application_name": "applicationName",
        "region": "regionName",
    }
    missing = [f"{text} is missing" for name, text in needed.items() if name not in values]
    return missing if "bucket" in texts else [*missing, "minutebook.bucket is missing"]


def _setting_contradictions(values: Mapping[str, Any], kcl: Mapping[str, str]) -> list[str]:
    """Return one sentence each. `values`: only what is set, by the names in `Settings`; `kcl`: the texts of KCL's."""
    age = values.get("max_segment_age_seconds", 900)
    errors = []
    if age <= _IDLE_SECONDS + values.get("linger_seconds", 5):
        errors.append("minutebook.maxSegmentAgeSeconds must exceed 60 s + minutebook.lingerSeconds")
    most = 1000 * (age - _IDLE_SECONDS - values.get("linger_seconds", 5))
    if _number(kcl.get("idleTimeBetweenReadsInMillis")) >= most > 0:
        errors.append(
            f"idleTimeBetweenReadsInMillis must be less than {most:.0f}: a minute is committed when its shard is "
            f"read again, within minutebook.maxSegmentAgeSeconds ({age:g})"
        )
    if age <= (values.get("flush_seconds") or 0):
        errors.append("minutebook.maxSegmentAgeSeconds must exceed minutebook.flushSeconds")
    hold_seconds = min(values.get("flush_seconds") or math.inf, _IDLE_SECONDS + values.get("linger_seconds", 5))
    if values.get("max_uncommitted_seconds", math.inf) <= hold_seconds:
        errors.append(f"minutebook.maxUncommittedSeconds must exceed {hold_seconds:g} s: buffers are held so long")
    silence = _number(kcl.get("timeoutInSeconds"))
    if silence and silence < values.get("store_timeout_seconds", 300) + _IDLE_SECONDS:
        errors.append(
            "timeoutInSeconds must exceed minutebook.storeTimeoutSeconds by 60 s: "
            "the daemon would halt while a processor waits for S3"
        )
    return errors + _dedupe_errors(values) + _idle_outputs(values)


def _number(text: str | None) -> int:
    """Return a number of KCL's; 0 where there is none, or none of its kind, which is told by itself."""
    return int(text) if text is not None and text.isdecimal() and len(text) <= _DIGITS else 0


def _dedupe_errors(values: Mapping[str, Any]) -> list[str]:
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


def _idle_outputs(values: Mapping[str, Any]) -> list[str]:
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


def _access_errors(values: Mapping[str, Any], kcl: Mapping[str, str], *, account: str) -> list[str]:
    """Return the contradictions in how AWS is reached; `account` is the stream's, or empty if it is not known."""
    addresses = {
        "minutebook.s3Endpoint": values.get("s3_endpoint"),
        "kinesisEndpoint": values.get("kinesis_endpoint"),
        "dynamoDBEndpoint": values.get("dynamodb_endpoint"),
        "minutebook.glueEndpoint": values.get("glue_endpoint"),
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


def _account(kcl: Mapping[str, str]) -> str:
    """Return the stream's account from its ARN; empty without one."""
    arn = _ARN.fullmatch(kcl.get("streamArn", ""))
    return arn[2] if arn else ""


def _settings_error(path: str, errors: list[str]) -> SettingsError:
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    return SettingsError(
        ITEM.join([f"{path}: {count} in the settings", *errors]),
        next_step="correct the lines named; `minutebook init` prints a file that explains every name",
    )
