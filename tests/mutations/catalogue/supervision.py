"""Mutations of what keeps every shard read: KCL's start, the age of a buffer, the supervisor and its watch."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_APPLICATION: Final = "consumer/archived/application.py"
_START: Final = "consumer/daemon/start.py"
_BUFFER: Final = "consumer/processor/buffer.py"
_ARCHIVER: Final = "consumer/processor/archiver.py"

_STARTS: Final = "tests/unit/consumer/archived/test_application.py"
_BUFFERS: Final = "tests/unit/consumer/processor/test_buffer.py"
_CLAIMS: Final = "tests/unit/consumer/processor/test_claims.py"
_DAEMON_STARTS: Final = "tests/unit/consumer/daemon/test_start.py"

SUPERVISION: Final = (
    Mutation(
        "an old start is the trim horizon whatever the rows say",
        Change(_APPLICATION, "if is_held or has_timestamp_rows else None", "if is_held else None"),
        tests=(f"{_STARTS}::test_an_older_start_stays_a_timestamp_while_a_row_waits_for_it",),
        mode="operations",
    ),
    Mutation(
        "the rows are not looked at before a start",
        Change(_START, "return with_rows if rows is not None and rows.has_timestamp_rows else plain", "return plain"),
        tests=(f"{_DAEMON_STARTS}::test_a_later_start_of_the_daemon_looks_again",),
    ),
    Mutation(
        "a minute that keeps coming is held until it is too old",
        Change(_BUFFER, "self.seconds_left(now) <= self._settings.max_segment_age_seconds / 2", "False"),
        tests=(f"{_BUFFERS}::test_a_minute_that_keeps_coming_is_committed_in_good_time",),
    ),
    Mutation(
        "the age of a buffer is looked at only when a delivery ends",
        Change(
            _ARCHIVER, "if reason is None and self._buffer.is_aged(self._services.clock.monotonic()):", "if False:"
        ),
        tests=(f"{_CLAIMS}::test_claims_that_are_held_back_do_not_outlive_their_buffer",),
    ),
    Mutation(
        "all claims of a delivery are asked for before its age is looked at",
        Change(_ARCHIVER, "_JUDGED_AT_ONCE: Final = 250", "_JUDGED_AT_ONCE: Final = 10_000"),
        tests=(f"{_CLAIMS}::test_claims_that_are_held_back_do_not_outlive_their_buffer",),
    ),
)
