"""A consumer as one writes it on kclpy's samples: its loop and decoder, json, base64, gzip, and a PUT a minute.

python -m benchmarks.pipe.plain ENDPOINT
"""

import gzip
import io
import json
import sys
from typing import Any

import boto3
from amazon_kclpy import kcl
from amazon_kclpy.v3 import processor
from botocore.config import Config


class Consumer(processor.RecordProcessorBase):  # type: ignore[misc] # kclpy is untyped
    """One shard. It checkpoints nowhere, which makes it cheaper than any that does."""

    def __init__(self, endpoint: str) -> None:
        self._s3 = boto3.client(
            "s3", region_name="us-east-1", endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"})
        )
        self._shard = ""
        self._minute = -1
        self._out = io.BytesIO()
        self._gzip = gzip.GzipFile(fileobj=self._out, mode="wb", compresslevel=6)

    def initialize(self, initialize_input: Any) -> None:  # noqa: ANN401 - kclpy's
        """Take the shard's name."""
        self._shard = initialize_input.shard_id

    def process_records(self, process_records_input: Any) -> None:  # noqa: ANN401 - kclpy's
        """Take a batch."""
        for record in process_records_input.records:
            minute = record.timestamp_millis // 60_000
            if minute != self._minute:
                self._put()
                self._minute, self._out = minute, io.BytesIO()
                self._gzip = gzip.GzipFile(fileobj=self._out, mode="wb", compresslevel=6)
            entry = {
                "shard_id": self._shard,
                "sequence_number": record.sequence_number,
                "sub_sequence_number": record.sub_sequence_number,
                "partition_key": record.partition_key,
                "arrival_ms": record.timestamp_millis,
            }
            try:
                entry["data"] = record.binary_data.decode()
            except UnicodeDecodeError:
                entry["data_base64"] = record.get("data")
            self._gzip.write(json.dumps(entry).encode() + b"\n")

    def lease_lost(self, lease_lost_input: Any) -> None:  # noqa: ANN401 - kclpy's
        """Do nothing."""

    def shard_ended(self, shard_ended_input: Any) -> None:  # noqa: ANN401 - kclpy's
        """Do nothing."""

    def shutdown_requested(self, shutdown_requested_input: Any) -> None:  # noqa: ANN401, ARG002 - kclpy's
        """Send what is held."""
        self._put()

    def _put(self) -> None:
        self._gzip.close()
        if self._minute >= 0:
            self._s3.put_object(
                Bucket="bench", Key=f"plain/{self._minute}-{id(self._out)}", Body=self._out.getvalue()
            )


if __name__ == "__main__":
    kcl.KCLProcess(Consumer(sys.argv[1])).run()
