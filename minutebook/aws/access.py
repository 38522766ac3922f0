"""How an account's own rules ask AWS to be reached: roles, endpoints, and what every PUT carries.

All of it is optional, and none of it belongs to the protocol: it is added to the requests where they are sent
(`minutebook.aws.clients`), so that no part of the product can forget it.

    expectedBucketOwner   every request to S3 names the account that the bucket must belong to; S3 refuses with 403
                          where it belongs to another one, as a bucket of the same name that somebody else made
    kmsKeyId              every PUT asks for SSE-KMS with this key, with an S3 Bucket Key, which spares requests
    storageClass          every PUT of 128 KiB or more asks for it; S3 bills smaller objects in other classes as that
                          large, so they stay STANDARD
    objectTags            every PUT carries them
    streamRoleArn         Kinesis, and nothing else, is asked as this role, which is assumed anew before it expires
    useFips, useDualstack which of AWS's endpoints are asked
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from minutebook.properties_file import flag

LEAST_BYTES: Final = 128 << 10
"""What S3 bills at least for an object of another storage class than STANDARD (Amazon S3 User Guide)."""
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
    """What the settings say of it. Hashable and small: it travels with the address of a store."""

    expected_bucket_owner: str | None = None
    kms_key_id: str | None = None
    storage_class: str | None = None
    object_tags: tuple[tuple[str, str], ...] = ()
    stream_role_arn: str | None = None
    stream_role_external_id: str | None = None
    use_fips: bool = False
    use_dualstack: bool = False

    @property
    def says_of_s3(self) -> bool:
        """Tell whether anything is added to requests to S3."""
        return bool(self.expected_bucket_owner or self.kms_key_id or self.storage_class or self.object_tags)

    def put_parameters(self, size: int | None) -> dict[str, Any]:
        """Return what a PUT of `size` bytes carries; None: a multipart upload, whose size nobody knows yet."""
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

    def copy_parameters(self) -> dict[str, Any]:
        """Return what a copy within the bucket carries: S3 takes neither key nor class from the object it copies.

        The tags are named again, too: to copy them S3 would want the right to read them.
        """
        parameters = self.put_parameters(None)
        if self.object_tags:
            parameters["TaggingDirective"] = "REPLACE"
        if self.expected_bucket_owner is not None:
            parameters["ExpectedSourceBucketOwner"] = self.expected_bucket_owner
        return parameters


PLAIN: Final = Access()
"""As AWS is reached where nobody says anything."""


def account(text: str) -> str:
    """Parse the number of an AWS account."""
    if not re.fullmatch(r"[0-9]{12}", text):
        raise ValueError(f"must be an account of 12 digits, not {text!r}")
    return text


def kms_key(text: str) -> str:
    """Parse what names a KMS key: its ARN or id, or that of an alias."""
    if not _KEY.fullmatch(text):
        raise ValueError(
            f"must be a KMS key: its id, its ARN (arn:aws:kms:<region>:<account>:key/<id>), or alias/<name>, "
            f"not {text!r}"
        )
    return text


def storage_class(text: str) -> str:
    """Parse a storage class whose objects can be read at once."""
    if text in {"GLACIER", "DEEP_ARCHIVE"}:
        raise ValueError(
            f"must not be {text}: its objects cannot be read until they are restored, and the audit and the next "
            "owner of a shard read them; move old days there by a lifecycle rule"
        )
    if text not in _CLASSES:
        raise ValueError(f"must be one of {', '.join(_CLASSES)}, not {text!r}")
    return text


def object_tags(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `name=value, name=value`: at most ten, of the characters that S3 takes everywhere."""
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
    """Parse what a role's trust policy may ask for."""
    if not _EXTERNAL_ID.fullmatch(text):
        raise ValueError("must be 2 to 1224 of A-Z a-z 0-9 + . @ : / _ -")
    if "=" in text:  # it would ask with what stands before it, or without any (NestedPropertyKey.java)
        raise ValueError("must be another one: KCL takes no external id with '='")
    return text


def account_of(role_arn: str) -> str:
    """Return the account of a role that `role` has parsed."""
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
"""The names after `minutebook.`, each with its parser; each is a field of `Access`, written in one word."""


def access_contradictions(access: Access, endpoints: Mapping[str, str | None], stream_account: str) -> list[str]:
    """Return what cannot be true together. `endpoints`: name in the file -> address; the account may be empty."""
    errors = []
    named = sorted(name for name, address in endpoints.items() if address)
    for name, wanted in (("useFips", access.use_fips), ("useDualstack", access.use_dualstack)):
        if wanted and named:
            errors.append(f"minutebook.{name} chooses among AWS's endpoints, and {named[0]} names another: keep one")
    if access.stream_role_external_id and not access.stream_role_arn:
        errors.append("minutebook.streamRoleExternalId has no effect without minutebook.streamRoleArn")
    if access.stream_role_arn and stream_account not in {"", account_of(access.stream_role_arn)}:
        errors.append(
            f"minutebook.streamRoleArn is a role of {account_of(access.stream_role_arn)}, and streamArn lies in "
            f"{stream_account}: Kinesis is asked for a stream of the role's own account"
        )
    return errors


def read_access(texts: Mapping[str, str], errors: list[str]) -> Access:
    """Return what a file's texts say, by the names after `minutebook.`; what is wrong with them goes to `errors`."""
    values: dict[str, Any] = {}
    for name, parse in ACCESS_PROPERTIES.items():
        if name in texts:
            try:
                values[re.sub(r"(?=[A-Z])", "_", name).lower()] = parse(texts[name])
            except ValueError as exc:
                errors.append(f"minutebook.{name} {exc}")
    return Access(**values)
