"""The mutations: a file, a text that occurs in it once, what it becomes, and the fast tests that must then fail."""

from typing import Final

from tests.mutations.mutation import Mutation
from tests.mutations.nightly import NIGHTLY
from tests.mutations.producers import PRODUCERS

_SLOTS: Final = "tests/unit/consumer/processor/test_slots.py"
_CHECKPOINTS: Final = "tests/unit/consumer/processor/test_checkpoints.py"
_START: Final = "tests/unit/consumer/processor/test_start.py"
_END: Final = "tests/unit/consumer/processor/test_end.py"
_BUFFER: Final = "tests/unit/consumer/processor/test_buffer.py"
_PROTOCOL: Final = "tests/unit/consumer/processor/test_protocol.py"
_RETENTION: Final = "tests/unit/consumer/processor/test_retention.py"
_COMMIT: Final = "tests/unit/archive/store/test_commit.py"
_ICEBERG: Final = "tests/integration/compaction/test_iceberg.py"
_PLAN: Final = "tests/unit/compaction/iceberg/test_plan.py"
_S3: Final = "tests/unit/archive/store/test_s3.py"

HISTORIES: Final = "tests/property/test_processor_histories.py"
"""The property ring; `--histories` asks whether it notices a mutation, too."""

MUTATIONS: Final = (
    Mutation(
        "commit without If-None-Match",
        "archive/store/s3.py",
        '                IfNoneMatch="*",\n',
        "",
        (f"{_S3}::test_every_put_is_conditional",),
    ),
    Mutation(
        "checkpoint before commit",
        "consumer/processor/processor.py",
        "shard.checkpoints.offer(process_records_input.checkpointer, archiver.chain.tail, archiver.delivered)",
        "shard.checkpoints.offer(process_records_input.checkpointer, archiver.delivered, archiver.delivered)",
        (f"{_CHECKPOINTS}::test_nothing_is_checkpointed_before_it_is_durable",),
    ),
    Mutation(
        "ignore the sub-sequence number in checkpoints",
        "consumer/processor/checkpoints.py",
        "(str(tail.sequence), tail.sub)",
        "(str(tail.sequence), 0)",
        (f"{_CHECKPOINTS}::test_a_checkpoint_names_its_sub_sequence_number",),
    ),
    Mutation(
        "ignore the sub-sequence number of records",
        "archive/format/record.py",
        "return Position(int(self.sequence_number), self.sub_sequence_number)",
        "return Position(int(self.sequence_number), 0)",
        (f"{_BUFFER}::test_an_aggregate_of_one_arrival_time_stays_in_order",),
    ),
    Mutation(
        "treat 412 as success without HEAD",
        "archive/store/commit.py",
        'if until_known(put, backoff, f"PUT {key}") is PutOutcome.CREATED:',
        'if until_known(put, backoff, f"PUT {key}") in PutOutcome:',
        (f"{_COMMIT}::test_412_with_another_writer_tells_how_far_it_got",),
    ),
    Mutation(
        "take every winner for ourselves",
        "archive/store/commit.py",
        "if winner.writer == metadata.writer:",
        "if winner.shard_id == metadata.shard_id:",
        (f"{_SLOTS}::test_a_slot_lost_to_a_shorter_segment_leaves_the_rest",),
    ),
    Mutation(
        "take our own retried PUT for another's",
        "archive/store/commit.py",
        "if winner.writer == metadata.writer:",
        "if not winner.writer:",
        (f"{_COMMIT}::test_412_with_our_writer_is_committed",),
    ),
    Mutation(
        "treat 409 as 412",
        "archive/store/s3.py",
        "if _status(exc) == _PRECONDITION_FAILED:",
        "if _status(exc) in (409, _PRECONDITION_FAILED):",
        (f"{_S3}::test_a_passing_failure_leaves_the_outcome_open",),
    ),
    Mutation(
        "treat an unknown outcome as success",
        "archive/retry.py",
        "            if not backoff.wait():\n",
        "            if what.startswith('PUT'):\n"
        "                return PutOutcome.CREATED  # type: ignore[return-value]\n"
        "            if not backoff.wait():\n",
        (f"{_COMMIT}::test_an_unknown_outcome_sends_the_same_bytes_again",),
    ),
    Mutation(
        "let botocore repeat requests",
        "archive/store/s3.py",
        'retries={"total_max_attempts": 1, "mode": "standard"}',
        'retries={"total_max_attempts": 2, "mode": "standard"}',
        (f"{_S3}::test_botocore_itself_never_repeats",),
    ),
    Mutation(
        "swallow an exception in process_records",
        "consumer/processor/protocol.py",
        "                self.processor.process_records(Batch(records, behind, self.checkpointer))\n",
        "                try:\n"
        "                    self.processor.process_records(Batch(records, behind, self.checkpointer))\n"
        "                except Exception as exc:\n"
        "                    print(exc)\n",
        (f"{_SLOTS}::test_an_outage_ends_the_process_without_a_checkpoint",),
    ),
    Mutation(
        "sort by arrival time",
        "consumer/processor/processor.py",
        "archiver.take(records, received_at)",
        "archiver.take(sorted(records, key=lambda record: record.arrival_ms), received_at)",
        (f"{_BUFFER}::test_arrival_times_that_step_back_only_make_buffers_shorter",),
    ),
    Mutation(
        "LIST only on sentinel starts",
        "consumer/processor/archiver.py",
        "            self._sequences.load_minute(minute, self.chain.archived_through)\n",
        "            if isinstance(self.chain.tail, ChainStart):\n"
        "                self._sequences.load_minute(minute, self.chain.archived_through)\n",
        (f"{_SLOTS}::test_a_checkpoint_inside_a_stored_span_is_found_by_list",),
    ),
    Mutation(
        "never LIST",
        "consumer/processor/sequence_store.py",
        "if minute in self._loaded or (self._loaded and not self._may_be_stored(minute)):",
        "if minute >= 0:",
        (f"{_SLOTS}::test_a_wiped_lease_table_adds_nothing", f"{_BUFFER}::test_the_first_minutes_cost_one_list_each"),
    ),
    Mutation(
        "LIST every minute for ever",
        "consumer/processor/sequence_store.py",
        "return start_ms < self._started_ms + SKEW_MS",
        "return True",
        (f"{_BUFFER}::test_a_steady_shard_minute_costs_one_put_and_nothing_else",),
    ),
    Mutation(
        "believe the end of an open shard",
        "consumer/processor/shard_end.py",
        "not info.closed:",
        "info.closed is None:",
        (f"{_END}::test_an_open_shard_whose_reading_ends_is_not_believed_either",),
    ),
    Mutation(
        "believe the end of a shard with records left",
        "consumer/processor/shard_end.py",
        "not self._services.stream.ends_after(",
        "None is self._services.stream.ends_after(",
        (f"{_END}::test_a_closed_shard_with_records_left_is_not_at_its_end",),
    ),
    Mutation(
        "answer the end of a shard without proof",
        "consumer/processor/processor.py",
        "        shard.end_proof.mark_end(",
        "        (lambda *_, **__: None)(",
        (f"{_END}::test_the_end_of_an_open_shard_is_not_believed",),
    ),
    Mutation(
        "checkpoint the end of a shard by its last number",
        "consumer/processor/processor.py",
        "shard.checkpoints.shard_end(shard_ended_input.checkpointer, ",
        "shard.checkpoints.now(shard_ended_input.checkpointer, shard.archiver.chain.tail, shard.archiver.delivered, ",
        (f"{_END}::test_the_checkpoint_at_the_end_has_no_arguments",),
    ),
    Mutation(
        "go on after a lost lease",
        "consumer/processor/processor.py",
        "        self._silent = True\n",
        "        self._silent = False\n",
        (f"{_CHECKPOINTS}::test_after_a_refused_checkpoint_for_a_lost_lease_nothing_is_committed",),
    ),
    Mutation(
        "commit what is held when the lease is lost",
        "consumer/processor/processor.py",
        '        self._fall_silent("KCL says that the lease is lost")\n',
        '        self._opened().archiver.commit("lease_lost")\n'
        '        self._fall_silent("KCL says that the lease is lost")\n',
        (f"{_CHECKPOINTS}::test_a_lost_lease_drops_the_buffer",),
    ),
    Mutation(
        "no check of the stream's name",
        "consumer/archived/application.py",
        "if record.stream_arn != identity.arn:",
        "if not identity.arn:",
        (f"{_START}::test_another_stream_is_refused",),
    ),
    Mutation(
        "no check of the stream's creation time",
        "consumer/archived/application.py",
        "if record.stream_created_ms != identity.created_ms:",
        "if not identity.created_ms:",
        (f"{_START}::test_a_stream_made_again_under_its_name_is_refused",),
    ),
    Mutation(
        "start at LATEST",
        "consumer/processor/shard_start.py",
        'if sequence_number == "LATEST":',
        'if sequence_number == "NEVER":',
        (f"{_START}::test_latest_is_refused",),
    ),
    Mutation(
        "commit however old the buffer is",
        "consumer/processor/buffer.py",
        "if age > self._settings.max_segment_age_seconds:",
        "if age < 0:",
        (f"{_BUFFER}::test_a_buffer_that_is_too_old_is_thrown_away",),
    ),
    Mutation(
        "compare the winner's end by its sequence number alone",
        "consumer/processor/cutting.py",
        "if at > position",
        "if at.sequence > position.sequence",
        (f"{_SLOTS}::test_a_slot_is_lost_in_the_middle_of_an_aggregate",),
    ),
    Mutation(
        "drop the rest of a lost buffer",
        "consumer/processor/archiver.py",
        "        return self._recut(buffer, outcome.winner.last)\n",
        "        return None\n",
        (f"{_SLOTS}::test_a_slot_lost_to_a_shorter_segment_leaves_the_rest",),
    ),
    Mutation(
        "take records out of order",
        "consumer/processor/archiver.py",
        "if self.delivered is not None and position <= self.delivered:",
        "if self.delivered is None and position.sequence < 0:",
        (f"{_SLOTS}::test_a_record_twice_in_one_consumer_stops_the_shard",),
    ),
    Mutation(
        "the first commit before the start marker",
        "consumer/processor/archiver.py",
        "self._on_chain_start(buffer.segment.span.first, chain_start, budget)",
        "Continuity.PROVEN",
        (f"{_START}::test_the_start_marker_comes_before_the_first_segment",),
    ),
    Mutation(
        "pass over a gap that retention made while the machine slept",
        "consumer/processor/processor.py",
        "shard.retention.check_unbroken(",
        "id(",
        (f"{_RETENTION}::test_a_gap_while_the_machine_slept_is_never_passed_over",),
    ),
    Mutation(
        "count a buffer's age from the first request to Kinesis",
        "consumer/processor/archiver.py",
        "        self._fresh_at = received_at\n",
        "        self._fresh_at = self._services.clock.monotonic()\n",
        (f"{_RETENTION}::test_a_batch_ages_while_kinesis_is_asked",),
    ),
    Mutation(
        "believe that a batch has just come",
        "consumer/processor/retention.py",
        "past_ms > STALE_DELIVERY_MS and ",
        "past_ms < 0 and ",
        (f"{_RETENTION}::test_a_batch_that_waited_in_the_pipe_for_days_is_not_archived",),
    ),
    Mutation(
        "resume past retention without a mark",
        "consumer/processor/shard_start.py",
        "        return Continuity.UNPROVEN\n\n    def _read_marker",
        "        return Continuity.PROVEN\n\n    def _read_marker",
        (f"{_START}::test_a_resume_past_retention_is_marked",),
    ),
    *NIGHTLY,
    *PRODUCERS,
    Mutation(
        "read the pointer before the table",
        "compaction/iceberg/commit.py",
        """                view = self._table.look(self._publisher.folder.day)
                manifest = self._manifest()
""",
        """                manifest = self._manifest()
                view = self._table.look(self._publisher.folder.day)
""",
        (f"{_ICEBERG}::test_a_run_with_an_older_view_never_brings_an_older_generation_back",),
    ),
    Mutation(
        "let pyiceberg repeat commits",
        "compaction/iceberg/table.py",
        '"commit.retry.num-retries": "0"',
        '"commit.retry.num-retries": "4"',
        (f"{_ICEBERG}::test_two_runs_of_one_generation_have_one_winner",),
    ),
    Mutation(
        "give a table files without a mark",
        "compaction/iceberg/commit.py",
        '        self._publisher.marks.put(generation, self._short, msgspec.json.encode(mark) + b"\\n")\n',
        "",
        (f"{_ICEBERG}::test_a_run_without_the_table_never_sweeps_what_the_table_names",),
    ),
    Mutation(
        "unmark a generation as soon as it is replaced",
        "compaction/iceberg/commit.py",
        "        if recorded.committed_ms < self._clock.now_ms() - GRACE_MS:\n",
        "        if recorded.committed_ms < self._clock.now_ms() + GRACE_MS:\n",
        (f"{_ICEBERG}::test_a_run_without_the_table_never_sweeps_what_the_table_names",),
    ),
    Mutation(
        "replace rows that somebody added to the table",
        "compaction/iceberg/plan.py",
        "    if strangers and (recorded is None or rows != recorded.rows):\n",
        "    if strangers and recorded is None:\n",
        (f"{_PLAN}::test_rows_that_are_not_those_committed_are_refused",),
    ),
    Mutation(
        "sweep a generation as soon as it is replaced",
        "compaction/publish/publisher.py",
        "_epoch_ms(pointer) >= now_ms - grace_ms",
        "_epoch_ms(pointer) >= now_ms + grace_ms",
        (
            "tests/unit/compaction/publish/test_publisher.py::test_a_generation_stays_for_the_grace_after_it_was_replaced",
        ),
    ),
)
