"""Multipart uploads that nobody finished: S3 keeps their pieces, and asks money for them, until somebody aborts."""

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from minutebook.aws.clients import error_code
from minutebook.store.s3 import S3Store, translate
from minutebook.store.storage import Upload

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class S3Uploads(S3Store):
    """The part of `Storage` that is about uploads which were left open."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        super().__init__(client, bucket)
        self._s3 = client

    def open_uploads(self, prefix: str) -> list[Upload]:
        """List the uploads below a prefix; see `Storage`."""
        try:
            return [
                Upload(row["Key"], row["UploadId"], int(row["Initiated"].timestamp() * 1000))
                for page in self._s3.get_paginator("list_multipart_uploads").paginate(
                    Bucket=self.bucket, Prefix=prefix
                )
                for row in page.get("Uploads", [])
            ]
        except (
            ClientError,
            BotoCoreError,
            ValueError,
        ) as exc:  # the last: botocore's own, for a date that was cut off
            raise translate(exc, f"LIST uploads of s3://{self.bucket}/{prefix}") from exc

    def abort_upload(self, upload: Upload) -> None:
        """Abort one upload; 404: somebody has finished or aborted it. See `Storage`."""
        try:
            self._s3.abort_multipart_upload(Bucket=self.bucket, Key=upload.key, UploadId=upload.upload_id)
        except (ClientError, BotoCoreError) as exc:
            if error_code(exc) != "NoSuchUpload":
                raise translate(exc, f"ABORT {upload.key}") from exc
