"""Parsers of the values in a properties file.

Each turns text into a value, or raises `ValueError` with what is wrong, without the property's name.
"""

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Literal
from urllib.parse import urlsplit

from minutebook.compression import Compression

Parse = Callable[[str], object]

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"(?:[A-Za-z0-9!_.*'()=-]+/)*")
_PREFIX_LIMIT = 512
_EXPRESSION_LIMIT = 512
PROVIDERS = (
    "DefaultCredentialsProvider",
    "ContainerCredentialsProvider",
    "EnvironmentVariableCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "KclStsAssumeRoleCredentialsProvider",
    "ProfileCredentialsProvider",
    "StsAssumeRoleCredentialsProvider",
    "SystemPropertyCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
)
_LAST_MS = 253_402_300_799_999
_FEW_THREADS = 100


Start = Literal["oldest", "now"] | int
"""Where a new application begins; a number is a time in epoch milliseconds."""


def whole(low: int, high: int, unit: str) -> Parse:
    """Return the parser of a whole number in [low, high]."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
            raise ValueError(f"must be a whole number of {unit} from {low} to {high}, not {text!r}")
        if not low <= int(text) <= high:
            raise ValueError(f"must be from {low} to {high} {unit}, not {text}")
        return int(text)

    return parse


def seconds(low: float, high: float) -> Parse:
    """Return the parser of a duration in seconds, fractions allowed."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"must be a number of seconds from {low:g} to {high:g}, not {text!r}") from None
        if not (math.isfinite(number) and low <= number <= high):
            raise ValueError(f"must be from {low:g} to {high:g} seconds, not {text}")
        return number

    return parse


def one_of(*choices: str) -> Parse:
    """Return the parser of a word from a closed list."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {text!r}")
        return text

    return parse


def compression(text: str) -> Compression:
    """Parse the name of a compression."""
    one_of(*Compression)(text)
    return Compression(text)


def word(text: str) -> str:
    """Parse any text that is not empty."""
    if not text:
        raise ValueError("is empty: give a value or remove the line")
    return text


def name(longest: int, shortest: int = 1) -> Parse:
    """Return the parser of an AWS name of letters, digits, dots, dashes and underscores."""

    def parse(text: str) -> str:
        if not re.fullmatch(rf"[A-Za-z0-9_.-]{{{shortest},{longest}}}", text):
            raise ValueError(f"must be {shortest} to {longest} of A-Z a-z 0-9 . _ -, not {text!r}")
        return text

    return parse


def region(text: str) -> str:
    """Parse the name of an AWS region, without checking that it exists."""
    if not re.fullmatch(r"[a-z0-9-]{1,63}", word(text)):
        raise ValueError(f"must be a region such as us-east-1, not {text!r}")
    return text


def threads(text: str) -> int:
    """Parse the daemon's number of threads: 0 (as many as needed), or enough that shards do not block each other."""
    whole(0, 100_000, "threads")(text)
    if 0 < int(text) < _FEW_THREADS:
        raise ValueError("must be 0 (as many as are needed): in a small pool shards block each other for ever")
    return int(text)


def credentials_providers(text: str) -> str:
    """Parse providers of credentials, as the daemon takes them: names with `|` arguments, separated by commas.

    A name with dots is a class of one's own. Others are looked for in two packages, and what is not there is left out
    (AwsCredentialsProviderPropertyValueDecoder.java): without any the daemon dies. Names of the AWS SDK for Java 1,
    which most examples have, are no longer there.
    """
    for part in word(text).split(","):
        provider = part.strip().partition("|")[0]
        if "." not in provider and provider not in PROVIDERS:
            raise ValueError(
                f"must name providers of AWS's SDK for Java 2 ({', '.join(PROVIDERS)}) or a class and its package, "
                f"not {provider!r}"
            )
    return text


def duration(text: str) -> str:
    """Parse a duration of ISO 8601 as the daemon does: days, hours, minutes, seconds."""
    if not re.fullmatch(r"P(?=.)([0-9]{1,9}D)?(T(?=.)([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,9}S)?)?", text):
        raise ValueError(f"must be a duration such as P1D or PT12H, not {text!r}")
    return text


def endpoint(text: str) -> str:
    """Parse an http or https address, as AWS clients take it."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"must be an address such as http://127.0.0.1:4566, not {text!r}")
    return text


def bucket(text: str) -> str:
    """Parse a bucket's name, or the ARN of an access point."""
    if not (_BUCKET.fullmatch(text) or text.startswith("arn:")):
        raise ValueError(f"must be a bucket name (3 to 63 of a-z 0-9 . -), not {text!r}")
    return text


def prefix(text: str) -> str:
    """Parse the archive's prefix: empty, or folders that each end in a slash."""
    if text and not text.endswith("/"):
        raise ValueError(f"must end in '/': write {text}/")
    if not _PREFIX.fullmatch(text) or len(text) > _PREFIX_LIMIT:
        raise ValueError(
            f"must be folders of letters, digits and ! _ . * ' ( ) = - , each ending in one '/', "
            f"at most {_PREFIX_LIMIT} characters, not {text!r}"
        )
    return text


def start(text: str) -> Start:
    """Parse `oldest`, `now` or an ISO time that names its zone."""
    if text == "oldest":
        return "oldest"
    if text == "now":
        return "now"
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"must be oldest, now or a time such as 2026-11-21T10:16:00Z, not {text!r}") from None
    if moment.tzinfo is None:
        time = text if "T" in text or " " in text else f"{text}T00:00:00"
        raise ValueError(f"must name its time zone: write {time}Z for UTC")
    epoch_ms = round(moment.timestamp() * 1000)
    if not 0 < epoch_ms <= _LAST_MS:
        raise ValueError(f"must lie between 1970 and 9999 UTC, not {text!r}")
    return epoch_ms


def start_text(value: Start) -> str:
    """Return `value` as written in a properties file: the inverse of `start`."""
    if isinstance(value, str):
        return value
    moment = dt.datetime.fromtimestamp(value / 1000, dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def jmespath_expression(text: str) -> str:
    """Parse a JMESPath expression by compiling it."""
    import jmespath  # noqa: PLC0415 - most processors never need it

    if len(text) > _EXPRESSION_LIMIT:
        raise ValueError(f"is longer than {_EXPRESSION_LIMIT} characters")
    try:
        jmespath.compile(word(text))
    except jmespath.exceptions.JMESPathError as exc:
        raise ValueError(f"is not a JMESPath expression: {' '.join(str(exc).split())}") from exc
    except RecursionError as exc:
        raise ValueError("is not a usable JMESPath expression: too deeply nested") from exc
    return text
