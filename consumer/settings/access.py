"""What cannot be true together of how AWS is reached, beside what `archive.access` says of it."""

from collections.abc import Mapping
from typing import Any

from archive.access import Access, contradictions


def reached_by(values: Mapping[str, Any], kcl: Mapping[str, str], *, account: str) -> list[str]:
    """Return the errors; `account` is the stream's, or empty."""
    addresses = {
        "minutebook.s3Endpoint": values.get("s3_endpoint"),
        "kinesisEndpoint": values.get("kinesis_endpoint"),
        "dynamoDBEndpoint": values.get("dynamodb_endpoint"),
    }
    access: Access = values["access"]
    errors = contradictions(access, addresses, account)
    provider = kcl.get("AwsCredentialsProvider")
    # The daemon's own file says both, as one: the processors read it.
    if access.stream_role_arn and provider is not None and f"|{access.stream_role_arn}|" not in provider:
        errors.append(
            "AwsCredentialsProvider and minutebook.streamRoleArn both say as whom KCL asks Kinesis: keep one "
            "(AwsCredentialsProviderDynamoDB says it for the tables)"
        )
    return errors
