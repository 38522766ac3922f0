"""Optional rules of an account for requests to AWS: roles, endpoints, and parameters of every PUT.

`minutebook.aws.clients` adds them to each request as it is sent, so no caller can forget them.

    expectedBucketOwner   every request to S3 names the account that must own the bucket; S3 answers 403 if another
                          account owns a bucket of this name
    kmsKeyId              every PUT requests SSE-KMS with this key and an S3 Bucket Key, which saves KMS requests
    storageClass          every PUT of 128 KiB or more requests it; smaller objects stay STANDARD, because S3 bills
                          them as 128 KiB in other classes
    objectTags            every PUT carries them
    streamRoleArn         requests to Kinesis alone use this role, which is assumed again before it expires
    useFips, useDualstack which of AWS's endpoints are used
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from minutebook.properties_file import flag

LEAST_BYTES: Final = 128 << 10
"""The least size that S3 bills for an object outside STANDARD (Amazon S3 User Guide)."""
_MOST_TAGS: Final = 10
_CLASSES: Final = ("STANDARD", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR")
_PARTITION: Final = r"arn:aws(?:-[a-z]+)*"
_KEY: Final = re.compile(
    rf"{_PARTITION}:kms:[a-z0-9-]+:[0-9]{{12}}:(?:key/[A-Za-z0-9-]{{1,128}}|alias/[A-Za-z0-9/_-]{{1,250}})"
    r"|alias/[A-Za-z0-9/_-]{1,250}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32}"
)
_ROLE: Final = re.compile(rf"{_PARTITION}:iam::([0-9]{{12}}):role/[A-Za-z0-9+=,.@_/-]{{1,576}}")
_EXTERNAL_ID: Final = re.compile(r"[A-Za-z0-9+=.@:/_-]{2,1224}")
_TAG: Final = re.compile(r"[\w +\-.:/@]*")
_LONGEST_NAME, _LONGEST_VALUE = 128, 256


class Access(NamedTuple):
    """The settings of this module. Hashable and small: part of a store's address."""

    expected_bucket_owner: str | None = None
    kms_key_id: str | None = None
    storage_class: str | None = None
    object_tags: tuple[tuple[str, str], ...] = ()
    stream_role_arn: str | None = None
    stream_role_external_id: str | None = None
    use_fips: bool = False
    use_dualstack: bool = False

    @property
    def changes_s3_requests(self) -> bool:
        """Return whether requests to S3 get additional parameters."""
        return bool(self.expected_bucket_owner or self.kms_key_id or self.storage_class or self.object_tags)

    def put_parameters(self, size: int | None) -> dict[str, Any]:
        """Return the parameters of a PUT of `size` bytes; None for a multipart upload of unknown size."""
        parameters: dict[str, Any] = {}
        if self.kms_key_id is not None:
            parameters |= {
                "ServerSideEncryption": "aws:kms",
                "SSEKMSKeyId": self.kms_key_id,
                "BucketKeyEnabled": True,
            }
        if self.storage_class is not None and (size is None or size >= LEAST_BYTES):
            parameters["StorageClass"] = self.storage_class
        if self.object_tags:
            parameters["Tagging"] = urlencode(self.object_tags)
        return parameters


PLAIN: Final = Access()
"""Without any of these rules."""


def account(text: str) -> str:
    """Parse the number of an AWS account."""
    if not re.fullmatch(r"[0-9]{12}", text):
        raise ValueError(f"must be an account of 12 digits, not {text!r}")
    return text


def kms_key(text: str) -> str:
    """Parse the ARN or id of a KMS key, or the ARN or name of an alias."""
    if not _KEY.fullmatch(text):
        raise ValueError(
            f"must be a KMS key: its id, its ARN (arn:aws:kms:<region>:<account>:key/<id>), or alias/<name>, "
            f"not {text!r}"
        )
    return text


def storage_class(text: str) -> str:
    """Parse a storage class with immediate access."""
    if text in {"GLACIER", "DEEP_ARCHIVE"}:
        raise ValueError(
            f"must not be {text}: its objects cannot be read until they are restored, and the audit and the next "
            "owner of a shard read them"
        )
    if text not in _CLASSES:
        raise ValueError(f"must be one of {', '.join(_CLASSES)}, not {text!r}")
    return text


def object_tags(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `name=value, name=value`: at most ten, of characters that S3 allows in every region."""
    tags = []
    for part in text.split(","):
        name, separator, value = (piece.strip() for piece in part.partition("="))
        usable = _TAG.fullmatch(name) and _TAG.fullmatch(value) and len(value) <= _LONGEST_VALUE
        if not (separator and name and usable and len(name) <= _LONGEST_NAME) or name.lower().startswith("aws:"):
            raise ValueError(
                f"must be tags such as team=data,class=raw (letters, digits, blanks and + - . : / _ @), not {text!r}"
            )
        tags.append((name, value))
    if len(tags) > _MOST_TAGS or len({name for name, _ in tags}) < len(tags):
        raise ValueError(f"must be at most {_MOST_TAGS} tags, each name once, not {text!r}")
    return tuple(tags)


def role(text: str) -> str:
    """Parse the ARN of a role."""
    if not _ROLE.fullmatch(text):
        raise ValueError(f"must be the ARN of a role (arn:aws:iam::<account>:role/<name>), not {text!r}")
    if "," in text:  # AwsCredentialsProviderPropertyValueDecoder.java
        raise ValueError(f"must name a role without a comma: KCL takes a comma for the end of it, as in {text!r}")
    return text


def external_id(text: str) -> str:
    """Parse the external id of a role's trust policy."""
    if not _EXTERNAL_ID.fullmatch(text):
        raise ValueError("must be 2 to 1224 of A-Z a-z 0-9 + . @ : / _ -")
    if "=" in text:  # KCL would cut it off there, or send none (NestedPropertyKey.java)
        raise ValueError("must be another one: KCL takes no external id with '='")
    return text


def account_of(role_arn: str) -> str:
    """Return the account in the ARN of a role; empty if it is not one."""
    match = _ROLE.fullmatch(role_arn)
    return match[1] if match else ""


ACCESS_PROPERTIES: Final[Mapping[str, Callable[[str], object]]] = {
    "expectedBucketOwner": account,
    "kmsKeyId": kms_key,
    "storageClass": storage_class,
    "objectTags": object_tags,
    "streamRoleArn": role,
    "streamRoleExternalId": external_id,
    "useFips": flag,
    "useDualstack": flag,
}
"""The parsers of the properties, by their names after `minutebook.`; each sets a field of `Access`."""


def access_contradictions(access: Access, endpoints: Mapping[str, str | None], stream_account: str) -> list[str]:
    """Return an error for each contradiction. `endpoints`: property -> address; `stream_account` may be empty."""
    errors = []
    custom = sorted(name for name, address in endpoints.items() if address)
    for name, is_set in (("useFips", access.use_fips), ("useDualstack", access.use_dualstack)):
        if is_set and custom:
            errors.append(f"minutebook.{name} chooses among AWS's endpoints, and {custom[0]} names another: keep one")
    if access.stream_role_external_id and not access.stream_role_arn:
        errors.append("minutebook.streamRoleExternalId has no effect without minutebook.streamRoleArn")
    if access.stream_role_arn and stream_account not in {"", account_of(access.stream_role_arn)}:
        errors.append(
            f"minutebook.streamRoleArn is a role of {account_of(access.stream_role_arn)}, and streamArn lies in "
            f"{stream_account}: Kinesis is asked for a stream of the role's own account"
        )
    return errors


def read_access(texts: Mapping[str, str], errors: list[str]) -> Access:
    """Parse the texts, by their names after `minutebook.`; sentences about wrong ones are appended to `errors`."""
    values: dict[str, Any] = {}
    for name, parse in ACCESS_PROPERTIES.items():
        if name in texts:
            try:
                values[re.sub(r"(?=[A-Z])", "_", name).lower()] = parse(texts[name])
            except ValueError as exc:
                errors.append(f"minutebook.{name} {exc}")
    return Access(**values)
