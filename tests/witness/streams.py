"""Streams of a server that others use, too: ListStreams names the first hundred."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


def is_gone(client: "KinesisClient", name: str) -> bool:
    """Tell whether a stream is deleted."""
    try:
        client.describe_stream_summary(StreamName=name)
    except client.exceptions.ResourceNotFoundException:
        return True
    return False
