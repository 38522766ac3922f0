"""The checksum of what a PUT to S3 carries: the store compares it with the bytes that arrived.

    request_checksum_calculation   PutObject, UploadPart            DeleteObjects
    when_supported (the default)   x-amz-checksum-crc32             x-amz-checksum-crc32, by botocore
    when_required                  Content-MD5                      Content-MD5

The setting is the AWS SDKs' own (variable AWS_REQUEST_CHECKSUM_CALCULATION, or the AWS configuration file). Stores
that refuse S3's newer headers know Content-MD5, so no request goes without a checksum. Both are headers: botocore
would send a body in chunks with the checksum behind it, which such stores refuse, too.
"""

import hashlib
from base64 import b64encode
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from isal import isal_zlib

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CRC32_HEADER: Final = "x-amz-checksum-crc32"
"""ISA-L computes it in a hundredth of the time of SHA-256, and much faster than MD5."""
WHEN_REQUIRED: Final = "when_required"


def register_checksums(client: "S3Client") -> None:
    """Let the client's writes carry their checksum."""
    for operation in ("PutObject", "UploadPart"):
        client.meta.events.register(f"before-call.s3.{operation}", _add_checksum)
    if _takes_md5(client.meta.config):
        client.meta.events.register("before-call.s3.DeleteObjects", _add_checksum)


def _takes_md5(config: object) -> bool:
    return getattr(config, "request_checksum_calculation", None) == WHEN_REQUIRED


def _add_checksum(params: dict[str, Any], **_: object) -> None:
    """Put the checksum into a header, and tell botocore that it is there.

    The signer then leaves the body's SHA-256 out where TLS protects the body, and hashes it as well where nothing
    does (`S3SigV4Auth`). A version that does not look hashes it always.
    """
    context, headers = params["context"], params["headers"]
    checksum = context.setdefault("checksum", {})
    checksum.pop("request_algorithm_header", None)
    with _whole_body(params["body"]) as body:
        if _takes_md5(context["client_config"]):
            checksum.pop("request_algorithm", None)
            headers["Content-MD5"] = b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        else:
            checksum["request_algorithm"] = {"algorithm": "crc32", "in": "header", "name": CRC32_HEADER}
            headers[CRC32_HEADER] = b64encode(isal_zlib.crc32(body).to_bytes(4, "big")).decode()


def _whole_body(body: bytes | BytesIO) -> memoryview:
    """Return the bytes without a copy; botocore has made a file of those of a PUT, and not of other bodies."""
    return body.getbuffer() if isinstance(body, BytesIO) else memoryview(body)
