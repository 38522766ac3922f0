"""Mutations of reading the stream by enhanced fan-out, and of the consumer that does."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_FAN_OUT: Final = "compaction/stream/fan_out.py"
_CONSUMERS: Final = "compaction/stream/consumers.py"
_READ: Final = "tests/unit/compaction/stream/test_fan_out.py"
_RUN: Final = "tests/unit/compaction/stream/test_consumers.py"

FAN_OUT: Final = (
    Mutation(
        "take a record for new that an event before the tear had brought",
        Change(_FAN_OUT, "if sequence > self._last]", "if sequence > 0]"),
        tests=(f"{_READ}::test_it_goes_on_where_the_last_whole_event_ended",),
    ),
    Mutation(
        "go on behind the number that the last event named",
        Change(_FAN_OUT, '"AT_SEQUENCE_NUMBER", "SequenceNumber"', '"AFTER_SEQUENCE_NUMBER", "SequenceNumber"'),
        tests=(f"{_READ}::test_it_goes_on_where_the_last_whole_event_ended",),
    ),
    Mutation(
        "take the end of a subscription for the end of the shard",
        Change(
            _FAN_OUT,
            "                    if event.is_end:\n",
            "                    if event.is_end or event.reached:\n",
        ),
        tests=(f"{_READ}::test_it_is_what_polling_reads",),
    ),
    Mutation(
        "give a shard up at an exception whose name botocore does not know",
        Change(_FAN_OUT, " and not _is_unnamed(exc):", ":"),
        tests=(f"{_READ}::test_it_goes_on_where_the_last_whole_event_ended",),
    ),
    Mutation(
        "leave the consumer that the run registered",
        Change(_CONSUMERS, "        self._ours, self._in_doubt = ", "        _, self._in_doubt = "),
        tests=(f"{_RUN}::test_what_a_run_registered_it_removes",),
    ),
    Mutation(
        "take a consumer for ours whose registration was not answered",
        Change(
            _CONSUMERS,
            "                return found.arn\n",
            "                self._ours = found.arn\n                return found.arn\n",
        ),
        tests=(
            f"{_RUN}::test_a_registration_without_an_answer_is_nobodys",
            f"{_RUN}::test_what_was_there_is_used_and_left",
        ),
    ),
)
