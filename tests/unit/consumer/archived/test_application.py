"""The position that KCL is given: it must be one with which this KCL can open every row that is there."""

import pytest

from consumer.archived.application import KclStart, kcl_start
from consumer.stream.port import StreamIdentity
from minutebook.format.document import FORMAT
from minutebook.format.markers import ApplicationRecord

DAY_MS = 86_400_000
NOW_MS = 1_795_256_160_000
CREATED_MS = NOW_MS - 30 * DAY_MS + 123
IDENTITY = StreamIdentity("arn", CREATED_MS, DAY_MS)


def record(start_at_ms: int | None) -> ApplicationRecord:
    """Return an application record that stores this start."""
    return ApplicationRecord(
        format=FORMAT,
        stream_arn="arn",
        stream_created_ms=CREATED_MS,
        application="app",
        start="oldest",
        start_at_ms=start_at_ms,
        writer="w",
        written_at_ms=0,
    )


@pytest.mark.parametrize("has_timestamp_rows", [False, True])
def test_a_start_that_the_stream_still_holds_is_the_stored_one(*, has_timestamp_rows: bool) -> None:
    """Every writer begins at the same record."""
    stored = record(NOW_MS - DAY_MS)
    start = kcl_start(stored, IDENTITY, NOW_MS, has_timestamp_rows=has_timestamp_rows)
    assert start == KclStart((NOW_MS - DAY_MS) // 1000)


def test_an_older_start_is_the_trim_horizon_where_no_row_waits_for_the_timestamp() -> None:
    """On an empty table KCL would look for the shards that were open then, and never initialise."""
    assert kcl_start(record(NOW_MS - DAY_MS - 1), IDENTITY, NOW_MS, has_timestamp_rows=False) == KclStart(None)


def test_an_older_start_stays_a_timestamp_while_a_row_waits_for_it() -> None:
    """KCL 3.1.3 cannot open a row at AT_TIMESTAMP without one; Kinesis answers an old one from its trim horizon."""
    stored = record(NOW_MS - 9 * DAY_MS)
    assert kcl_start(stored, IDENTITY, NOW_MS, has_timestamp_rows=True) == KclStart((NOW_MS - 9 * DAY_MS) // 1000)


def test_a_row_at_a_timestamp_that_nobody_stored_is_read_from_the_streams_beginning() -> None:
    """The stored start is the trim horizon, and the stream's creation is another name for that."""
    assert kcl_start(record(None), IDENTITY, NOW_MS, has_timestamp_rows=True) == KclStart(CREATED_MS // 1000)
    assert kcl_start(record(None), IDENTITY, NOW_MS, has_timestamp_rows=False) == KclStart(None)
