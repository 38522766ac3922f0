"""Mutations of a shard's beginning, checkpoints, retention and end."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_PAST_RETENTION: Final = "tests/simulation/found/test_found_past_retention.py"
_MODEL: Final = "tests/model/test_found_by_the_model.py"
_AT_THE_END: Final = "tests/simulation/found/test_found_at_the_end.py"
_PROCESSOR: Final = "consumer/processor/processor.py"
_ARCHIVER: Final = "consumer/processor/archiver.py"
_APPLICATION: Final = "consumer/archived/application.py"
_SHARD_START: Final = "consumer/processor/shard_start.py"
_CHECKPOINTS: Final = "consumer/processor/checkpoints.py"
_RETENTION: Final = "consumer/processor/retention.py"
_SHARD_END: Final = "consumer/processor/shard_end.py"
_END_WALK: Final = "consumer/evidence/end_walk.py"

_CHECKPOINT_TESTS: Final = "tests/unit/consumer/processor/test_checkpoints.py"
_BUFFER: Final = "tests/unit/consumer/processor/test_buffer.py"
_ENDS: Final = "tests/unit/consumer/processor/test_end.py"
_SLOTS: Final = "tests/unit/consumer/processor/test_slots.py"
_STARTS: Final = "tests/unit/consumer/processor/test_start.py"
_READ_MARKS: Final = "tests/unit/consumer/evidence/test_read_marks.py"
_RETENTION_TESTS: Final = "tests/unit/consumer/processor/test_retention.py"

SHARDS: Final = (
    Mutation(
        "checkpoint before commit",
        Change(_PROCESSOR, "archiver.chain.tail, archiver.delivered)", "archiver.delivered, archiver.delivered)"),
        tests=(f"{_CHECKPOINT_TESTS}::test_nothing_is_checkpointed_before_it_is_durable",),
        mode="plain",
    ),
    Mutation(
        "answer an end without a marker",
        Change(_PROCESSOR, "shard.end_proof.mark_end(", "(lambda *_, **__: None)("),
        tests=(f"{_ENDS}::test_the_end_of_an_open_shard_is_not_believed",),
        mode="plain",
    ),
    Mutation(
        "checkpoint the end of a shard by its last number",
        Change(
            _PROCESSOR,
            "shard_end(shard_ended_input.checkpointer,",
            "now(shard_ended_input.checkpointer, shard.archiver.chain.tail, shard.archiver.delivered,",
        ),
        tests=(f"{_ENDS}::test_the_checkpoint_at_the_end_has_no_arguments",),
    ),
    Mutation(
        "end the worker for a lease that is lost at the end of its shard",
        Change(
            _PROCESSOR,
            "SHARD_END_BUDGET_SECONDS)\n        except LeaseLost as exc:\n            self._fall_silent(str(exc))",
            "SHARD_END_BUDGET_SECONDS)\n        except LeaseLost:\n            raise",
        ),
        tests=(f"{_ENDS}::test_an_end_of_a_lost_lease_is_a_lost_lease",),
    ),
    Mutation(
        "read an end as if every hash key were the shard's",
        Change("consumer/processor/shard_end.py", "            hash_range=shard_hash_range(info),\n", ""),
        tests=(f"{_ENDS}::test_what_kcl_would_not_deliver_does_not_keep_a_shard_from_ending",),
    ),
    Mutation(
        "go on after a refused checkpoint",
        Change(_PROCESSOR, "self._silent = True", "self._silent = False"),
        tests=(f"{_CHECKPOINT_TESTS}::test_after_a_refused_checkpoint_for_a_lost_lease_nothing_is_committed",),
        mode="plain",
    ),
    Mutation(
        "commit what is held when the lease is lost",
        Change(
            _PROCESSOR,
            'self._fall_silent("KCL says',
            'self._opened().archiver.commit("lease_lost")\n        self._fall_silent("KCL says',
        ),
        tests=(f"{_CHECKPOINT_TESTS}::test_a_lost_lease_drops_the_buffer",),
        mode="plain",
    ),
    Mutation(
        "no guard of a buffer's age",
        Change("consumer/processor/buffer.py", "if age > self._settings.max_segment_age_seconds:", "if age < 0:"),
        tests=(f"{_BUFFER}::test_a_buffer_that_is_too_old_is_thrown_away",),
        mode="plain",
    ),
    Mutation(
        "no start marker",
        Change(_ARCHIVER, "self._on_chain_start(buffer.segment.span.first, tail, budget)", "Continuity.PROVEN"),
        tests=(f"{_STARTS}::test_the_start_marker_comes_before_the_first_segment",),
        mode="plain",
    ),
    Mutation(
        "pass over a gap that retention made while the machine slept",
        Change(_PROCESSOR, "shard.retention.check_unbroken(", "id("),
        tests=(f"{_RETENTION_TESTS}::test_a_gap_while_the_machine_slept_is_never_passed_over",),
    ),
    Mutation(
        "count a buffer's age from the first request to Kinesis",
        Change(_ARCHIVER, "self._fresh_at = received_at", "self._fresh_at = self._services.clock.monotonic()"),
        tests=(f"{_RETENTION_TESTS}::test_a_batch_ages_while_kinesis_is_asked",),
    ),
    Mutation(
        "count a buffer's age from its append",
        Change(
            _ARCHIVER,
            "minute, settings, self._fresh_at, arrival_ms, compression)",
            "minute, settings, self._services.clock.monotonic(), arrival_ms, compression)",
        ),
        mode="plain",
        tests=(f"{_PAST_RETENTION}::test_a_processor_that_sleeps_in_a_list_commits_nothing_that_is_stale",),
    ),
    Mutation(
        "begin behind a stored range without a mark",
        Change(
            _ARCHIVER,
            "if isinstance(self.chain.tail, ChainStart) and stored.last < position:",
            "if self.chain.tail is None:",
        ),
        mode="plain",
        tests=(f"{_MODEL}::test_a_break_before_a_stored_range_is_reported",),
    ),
    Mutation(
        "no check of the stream's name",
        Change(_APPLICATION, "if record.stream_arn != identity.arn:", "if not identity.arn:"),
        tests=(f"{_STARTS}::test_another_stream_is_refused",),
        mode="plain",
    ),
    Mutation(
        "no check of the stream's creation time",
        Change(_APPLICATION, "if record.stream_created_ms != identity.created_ms:", "if not identity.created_ms:"),
        tests=(f"{_STARTS}::test_a_stream_made_again_under_its_name_is_refused",),
        mode="plain",
    ),
    Mutation(
        "accept LATEST",
        Change(
            _SHARD_START,
            'if sequence_number == "LATEST":\n            raise SettingsError(',
            'if sequence_number == "LATEST":\n'
            '            sequence_number = "TRIM_HORIZON"\n'
            '        if sequence_number == "never":\n'
            "            raise SettingsError(",
        ),
        tests=(f"{_STARTS}::test_latest_is_refused",),
        mode="plain",
    ),
    Mutation(
        "resume past retention without a mark",
        Change(
            _SHARD_START,
            "        return Continuity.UNPROVEN\n\n    def _read_marker",
            "        return Continuity.PROVEN\n\n    def _read_marker",
        ),
        Change(
            "archive/coverage/continuity.py",
            "    if is_young(base.until_ms, answered_ms) or _is_base_held(base, held):\n",
            "    if base is not held:\n",
        ),
        tests=(f"{_STARTS}::test_a_resume_past_retention_is_marked",),
        mode="plain",
    ),
    Mutation(
        "accept LATEST, and forget where a shard was begun",
        Change(
            _SHARD_START,
            'if sequence_number == "LATEST":\n            raise SettingsError(',
            'if sequence_number == "LATEST":\n'
            '            sequence_number = "TRIM_HORIZON"\n'
            '        if sequence_number == "never":\n'
            "            raise SettingsError(",
        ),
        Change(_SHARD_START, "if begun == first:", "if begun is not None:"),
        mode="plain",
        tests=(f"{_STARTS}::test_a_start_at_another_record_is_refused",),
    ),
    Mutation(
        "checkpoint without the sub-sequence number",
        Change(_CHECKPOINTS, "(str(tail.sequence), tail.sub)", "(str(tail.sequence), 0)"),
        tests=(f"{_CHECKPOINT_TESTS}::test_a_checkpoint_names_its_sub_sequence_number",),
        mode="plain",
    ),
    Mutation(
        "checkpoint a winner's end before it was delivered",
        Change(_CHECKPOINTS, "delivered is None or tail > delivered:", "delivered is None:"),
        mode="plain",
        tests=(f"{_SLOTS}::test_after_a_longer_winner_no_checkpoint_lies_inside_its_span",),
    ),
    Mutation(
        "believe that a batch has just come",
        Change(_RETENTION, "past_ms > STALE_DELIVERY_MS and", "past_ms < 0 and"),
        tests=(f"{_RETENTION_TESTS}::test_a_batch_that_waited_in_the_pipe_for_days_is_not_archived",),
    ),
    Mutation(
        "a reader that was overtaken goes on",
        Change(_RETENTION, "if not self.is_unbroken(delivered):", "if delivered == 0:"),
        mode="plain",
        tests=(f"{_RETENTION_TESTS}::test_a_gap_while_the_machine_slept_is_never_passed_over",),
    ),
    Mutation(
        "believe the end of an open shard",
        Change(_SHARD_END, "not info.closed:", "info.closed is None:"),
        tests=(f"{_ENDS}::test_an_open_shard_whose_reading_ends_is_not_believed_either",),
    ),
    Mutation(
        "answer a false end with records left",
        Change(
            _END_WALK,
            "        if reached is Reached.MORE:\n            return None\n",
            "        if reached:\n            return walk\n",
        ),
        tests=(f"{_ENDS}::test_a_closed_shard_with_records_left_is_not_at_its_end",),
        mode="plain",
    ),
    # Either check alone finds an open shard: it has an iterator left, too.
    Mutation(
        "answer a false end of an open shard",
        Change(_SHARD_END, "not info.closed:", "info.closed is None:"),
        Change(
            _END_WALK,
            "        if reached is Reached.MORE:\n            return None\n",
            "        if reached:\n            return walk\n",
        ),
        mode="plain",
        tests=(f"{_ENDS}::test_the_end_of_an_open_shard_is_not_believed",),
    ),
    Mutation(
        "call every end proven",
        Change(_SHARD_END, "and unbroken and is_known else", "else"),
        mode="plain",
        tests=(f"{_AT_THE_END}::test_an_end_reached_past_retention_is_not_proven",),
    ),
    Mutation(
        "end a shard behind whole aggregates, or mark it as read there",
        Change(
            "consumer/evidence/tip_walk.py",
            "self.record, archived = record, self._position.sub",
            "self.record, archived = record, 1 << 60",
        ),
        mode="plain",
        tests=(
            f"{_AT_THE_END}::test_the_rest_of_an_aggregate_is_not_skipped_at_a_false_end",
            f"{_READ_MARKS}::test_the_rest_of_the_aggregate_that_the_tail_lies_in_is_no_tip",
        ),
    ),
)
