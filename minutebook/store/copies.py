"""Copies of whole objects that S3 makes by itself: no byte of them passes this machine."""

from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from minutebook.aws.clients import error_code
from minutebook.store.s3 import check_whole, translate
from minutebook.store.uploads import S3Uploads

OTHER_OBJECT: Final = frozenset({"PreconditionFailed", "412", "NoSuchKey", "404"})
"""What S3 answers where an object is gone, or another one than was named by its ETag."""


class S3Copies(S3Uploads):
    """The part of `Storage` that is about copies."""

    def copy(self, source: str, key: str, etag: str) -> bool:
        """Send one CopyObject with `x-amz-copy-source-if-match`; see `Storage`.

        S3 answers 200 before it has copied, and tells the end in the body.
        """
        what = f"COPY {source} to {key}"
        try:
            answer = self._s3.copy_object(
                Bucket=self.bucket, Key=key, CopySource={"Bucket": self.bucket, "Key": source}, CopySourceIfMatch=etag
            )
        except ClientError as exc:
            if error_code(exc) in OTHER_OBJECT:
                return False
            raise translate(exc, what) from exc
        except (BotoCoreError, ValueError) as exc:
            raise translate(exc, what) from exc
        check_whole(answer.get("CopyObjectResult", {}), what, "ETag")
        return True
