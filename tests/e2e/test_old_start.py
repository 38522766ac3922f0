"""A shard without a record, whose application was started at a time that has run out of retention since.

Its lease row is still at AT_TIMESTAMP. KCL 3.1.3 can open it only with a time in its configuration.
"""

import dataclasses
from typing import TYPE_CHECKING

import pytest

from consumer.stream.kinesis import KinesisStream
from minutebook.clock import SystemClock, new_random
from minutebook.format.document import FORMAT
from minutebook.format.keys import application_key
from minutebook.format.markers import JSON_TYPE, ApplicationRecord, encode_marker
from tests.e2e.harness import PREFIX, Application
from tests.witness.readback import assert_exactly_once

if TYPE_CHECKING:
    from pathlib import Path

    from demo.embedded import EmbeddedAws
    from tests.witness.events import Event

_SHARD = "shardId-000000000000"
_OLD_MS = 25 * 3600 * 1000


@pytest.mark.parametrize("start_ms", [-_OLD_MS, None], ids=["a stored time", "the trim horizon"])
def test_a_row_at_a_timestamp_is_opened_after_the_time_has_passed(
    embedded_aws: "EmbeddedAws", tmp_path: "Path", start_ms: int | None
) -> None:
    """Everything that the stream still holds is archived, once."""
    app = Application(embedded_aws, tmp_path, flushSeconds=1, checkpointIntervalSeconds=0)
    clock = SystemClock()
    identity = KinesisStream(lambda: app.kinesis, app.name, clock, new_random()).describe()
    record = ApplicationRecord(
        format=FORMAT,
        stream_arn=identity.arn,
        stream_created_ms=identity.created_ms,
        application=app.name,
        start="oldest",
        start_at_ms=None if start_ms is None else clock.now_ms() + start_ms,
        writer="an earlier life",
        written_at_ms=0,
    )
    app.store.put_if_absent(application_key(PREFIX), encode_marker(record), {}, JSON_TYPE)
    app.seed_leases({_SHARD: "w1"}, checkpoint="AT_TIMESTAMP")
    app.producer.put_numbered(10)
    with app.consume() as worker:
        opened: Event = worker.events.wait("shard_opened")
        worker.events.wait("checkpoint_written", position=str(app.producer.last()[_SHARD]))
        worker.terminate()
        assert worker.wait() == 0
    assert opened["after"] == "AT_TIMESTAMP"
    verdict = app.verdict()
    # Nobody can tell whether a record that arrived behind a start of yesterday was trimmed before this one was read.
    doubts = [text for text in verdict.broken if text.endswith("continuity unproven")]
    assert len(doubts) == (0 if start_ms is None else 1)
    assert_exactly_once(dataclasses.replace(verdict, broken=[text for text in verdict.broken if text not in doubts]))
