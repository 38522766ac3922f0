"""How a body's integrity is checked on its way to S3: hashed once, and cheaply.

A PUT carries the CRC32 of its body in a header, and S3 refuses the body (BadDigest) where it is another one. ISA-L
computes it in a hundredth of the time of SHA-256, which then has nothing to add where TLS protects the connection.
"""

from base64 import b64encode
from typing import TYPE_CHECKING, Final

from isal import isal_zlib

if TYPE_CHECKING:
    from botocore.awsrequest import AWSRequest

_HEADER: Final = "x-amz-checksum-crc32"


def crc32_text(body: bytes) -> str:
    """Return the checksum as S3's API takes it: the base64 of four bytes, the highest first."""
    return b64encode(isal_zlib.crc32(body).to_bytes(4, "big")).decode()


def hash_once(request: "AWSRequest", **_: object) -> None:
    """Leave the body's SHA-256 out of a signature, before it is made, where there are both the checksum and TLS.

    botocore does so itself where it computes the checksum, and then wraps the body, which costs as much again. It
    looks for how it did (`S3SigV4Auth`): one that looks elsewhere hashes the body too. Without TLS it always does.
    """
    if _HEADER in request.headers:
        request.context["checksum"] = {"request_algorithm": {"algorithm": "crc32", "in": "header", "name": _HEADER}}
