"""A KCL application that is not ours: `recording_processor.py LOG` notes shard and position of each record."""

import sys
from pathlib import Path
from typing import Any

from amazon_kclpy import kcl
from amazon_kclpy.v3 import processor


class Recorder(processor.RecordProcessorBase):  # type: ignore[misc]  # kclpy has no types
    """Notes what it is given, and checkpoints behind it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._shard_id = ""

    def initialize(self, initialize_input: Any) -> None:  # noqa: ANN401 - kclpy has no types
        """Note the shard."""
        self._shard_id = initialize_input.shard_id

    def process_records(self, process_records_input: Any) -> None:  # noqa: ANN401
        """Note the records, then checkpoint."""
        records = process_records_input.records
        with self._log.open("a") as log:
            log.writelines(f"{self._shard_id} {row.sequence_number} {row.sub_sequence_number}\n" for row in records)
        if records:
            process_records_input.checkpointer.checkpoint(
                records[-1].sequence_number, records[-1].sub_sequence_number
            )

    def lease_lost(self, lease_lost_input: Any) -> None:  # noqa: ANN401
        """Do nothing."""

    def shard_ended(self, shard_ended_input: Any) -> None:  # noqa: ANN401
        """Let the children begin."""
        shard_ended_input.checkpointer.checkpoint()

    def shutdown_requested(self, shutdown_requested_input: Any) -> None:  # noqa: ANN401
        """Do nothing: what was noted is checkpointed."""


if __name__ == "__main__":
    kcl.KCLProcess(Recorder(Path(sys.argv[1]))).run()
