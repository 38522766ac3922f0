"""What is asked of AWS: requests, heard from botocore's own hook or from a server, as IAM sees them."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from minutebook.aws.clients import aws_session
from minutebook.store.places import open_storage
from tests.witness.policies import Names, Request

# The actions that are named otherwise than their operations (Service Authorization Reference, Amazon S3).
_S3_ACTIONS: Final = {
    "HeadObject": "GetObject",
    "HeadBucket": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "DeleteObjects": "DeleteObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "ListBucketIntelligentTieringConfigurations": "GetIntelligentTieringConfiguration",
}
_S3_CONTEXT: Final = {"IfNoneMatch": "s3:if-none-match", "IfMatch": "s3:if-match", "Prefix": "s3:prefix"}
_UNCONDITIONAL: Final = frozenset({"CreateMultipartUpload", "UploadPart"})
_PARTIQL: Final = re.compile(r'(INSERT INTO|UPDATE) "([a-zA-Z0-9_.-]+)" .*')
_EVENT: Final = "provide-client-params.*.*"


class Heard:
    """The requests that were heard, each once."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.requests: list[Request] = []

    def operation(self, service: str, operation: str, params: Mapping[str, Any]) -> None:
        """Take down one operation of an SDK."""
        for request in self._requests(service, operation, params):
            if request not in self.requests:
                self.requests.append(request)

    def hook(self, event_name: str, params: Mapping[str, Any], **_: object) -> None:
        """Take down what botocore is about to send."""
        _, service, operation = event_name.split(".")
        self.operation(service, operation, params)

    def _requests(self, service: str, operation: str, params: Mapping[str, Any]) -> Iterator[Request]:
        names = self.names
        where = f"{names.region}:{names.account}"
        if service == "kinesis":
            yield Request(f"kinesis:{operation}", f"arn:aws:kinesis:{where}:stream/{names.stream}")
        elif operation == "BatchExecuteStatement":  # PartiQL: an action for each kind of statement, on its table
            for statement in params["Statements"]:
                verb, table = _PARTIQL.fullmatch(statement["Statement"]).groups()  # type: ignore[union-attr] # else it fails
                yield Request(
                    f"dynamodb:PartiQL{verb.split()[0].capitalize()}", f"arn:aws:dynamodb:{where}:table/{table}"
                )
        elif service == "dynamodb":
            index = f"/index/{params['IndexName']}" if "IndexName" in params else ""
            table = f"arn:aws:dynamodb:{where}:table/{params['TableName']}{index}"
            yield Request(f"dynamodb:{operation}", table)
        elif service == "s3":
            yield from _s3_requests(operation, params)
        else:
            yield Request(f"{service}:{operation}", "*")


def _s3_requests(operation: str, params: Mapping[str, Any]) -> Iterator[Request]:
    action = f"s3:{_S3_ACTIONS.get(operation, operation)}"
    bucket = f"arn:aws:s3:::{params['Bucket']}"
    context = {name: str(params[key]) for key, name in _S3_CONTEXT.items() if key in params}
    if action == "s3:PutObject":
        context["s3:ObjectCreationOperation"] = "false" if operation in _UNCONDITIONAL else "true"
    keys = [each["Key"] for each in params.get("Delete", {}).get("Objects", [])]
    keys = keys or ([params["Key"]] if "Key" in params else [])
    if not keys:
        yield Request(action, bucket, context)
    for key in keys:
        yield Request(action, f"{bucket}/{key}", context)
        if action == "s3:GetObject":  # else S3 does not say that a key is not there: it answers 403
            yield Request("s3:ListBucket", bucket, {"s3:prefix": key})


@contextmanager
def hearing(names: Names) -> Iterator[Heard]:
    """Hear what clients of this process ask that are made while the block runs."""
    heard = Heard(names)
    events = aws_session().events
    open_storage.cache_clear()
    events.register(_EVENT, heard.hook, unique_id="heard")
    try:
        yield heard
    finally:
        events.unregister(_EVENT, unique_id="heard")
        open_storage.cache_clear()
