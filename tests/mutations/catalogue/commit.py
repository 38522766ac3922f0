"""Mutations of the commit protocol: slots, winners, LIST, buffers and their age."""

from typing import Final

from tests.mutations.mutation import Change, Mutation, in_mode

_COMMIT: Final = "minutebook.store.commit"
_ARCHIVER: Final = "consumer.processor.archiver:Archiver"
_SEQUENCE_STORE: Final = "consumer.processor.sequence_store:SequenceStore"

_PLAIN: Final = in_mode(
    "plain",
    Mutation(
        "commit without If-None-Match",
        Change("minutebook.store.s3:S3Store.put_if_absent", "IfNoneMatch='*'"),
        tests=("test_every_put_is_conditional",),
    ),
    Mutation(
        "409 is 412",
        Change(
            "minutebook.store.s3:S3Store.put_if_absent",
            "http_status(exc) == _PRECONDITION_FAILED",
            "http_status(exc) in (409, _PRECONDITION_FAILED)",
        ),
        tests=("test_a_passing_failure_leaves_the_outcome_open",),
    ),
    Mutation(
        "412 is success without HEAD",
        Change(
            f"{_COMMIT}:commit_segment",
            "until_known(put, backoff, f'PUT {key}') is PutOutcome.CREATED",
            "until_known(put, backoff, f'PUT {key}') in PutOutcome",
        ),
        tests=("test_412_with_another_writer_tells_how_far_it_got",),
    ),
    Mutation(
        "an unknown outcome is success",
        Change(
            "minutebook.retry:until_known",
            "attempts += 1",
            (
                "if what.startswith('PUT'):\n"
                "    from minutebook.store.objects import PutOutcome\n"
                "    return PutOutcome.CREATED\n"
                "OLD"
            ),
        ),
        tests=("test_an_unknown_outcome_sends_the_same_bytes_again",),
    ),
    Mutation(
        "an unknown outcome is a lost slot",
        Change(
            "minutebook.retry:until_known",
            "attempts += 1",
            (
                "if what.startswith('PUT'):\n"
                "    from minutebook.store.objects import PutOutcome\n"
                "    return PutOutcome.EXISTS\n"
                "OLD"
            ),
        ),
        tests=("test_an_unknown_outcome_is_asked_again_until_it_is_known",),
    ),
    Mutation(
        "ignore the sub-sequence number of records",
        Change("minutebook.format.record:Record.position", "self.sub_sequence_number", "0"),
        tests=("test_an_aggregate_of_one_arrival_time_stays_in_order",),
    ),
    Mutation(
        "each writer uses a compression of its own",
        Change(
            "consumer.processor.processor:ShardProcessor.initialize",
            "SequenceStore(services, shard_id, start.compression)",
            "SequenceStore(services, shard_id, services.settings.compression or start.compression)",
        ),
        tests=("test_writers_with_two_settings_contend_for_one_slot",),
    ),
    Mutation(
        "sort by arrival time",
        Change(f"{_ARCHIVER}._take_piece", "piece.records", "sorted(OLD, key=lambda record: record.arrival_ms)"),
        tests=("test_arrival_times_that_step_back_only_make_buffers_shorter",),
    ),
    Mutation(
        "LIST only after a start at a sentinel",
        Change(
            f"{_ARCHIVER}._commit_before",
            "self._sequences.load_minute(minute, self.chain.archived_through)",
            ("if isinstance(self.chain.tail, ChainStart):\n    OLD"),
        ),
        tests=("test_a_checkpoint_inside_a_stored_span_is_found_by_list",),
    ),
    Mutation(
        "drop the rest of a lost buffer",
        Change(f"{_ARCHIVER}._commit_once", "self._recut(buffer, outcome.winner.last)", "None"),
        tests=("test_a_slot_lost_to_a_shorter_segment_leaves_the_rest",),
    ),
    Mutation(
        "LIST only after a start at a checkpoint",
        Change(
            f"{_ARCHIVER}._commit_before",
            "self._sequences.load_minute(minute, self.chain.archived_through)",
            ("if not isinstance(self.chain.tail, ChainStart):\n    OLD"),
        ),
        tests=("test_a_restart_after_the_put_and_before_the_checkpoint_adds_nothing",),
    ),
    Mutation(
        "reuse the writer id",
        Change(f"{_ARCHIVER}._commit_once", "self._services.new_id()", "'writer-1'"),
        tests=("test_each_commit_has_a_writer_of_its_own",),
    ),
    Mutation(
        "ignore where the winner ended",
        Change(f"{_ARCHIVER}._commit_once", "self._adopt_tail(outcome.winner)", "self.chain.tail = metadata.last"),
        tests=("test_a_slot_lost_to_a_longer_segment_skips_what_it_holds",),
    ),
    Mutation(
        "cut buffers anywhere but at minutes",
        Change("consumer.processor.buffer:Buffer.ends_before", "minute != self.segment.minute", "minute < 0"),
        tests=("test_a_minute_that_changes_inside_a_batch_cuts_it",),
    ),
    Mutation(
        "send the rest of a lost buffer whole",
        Change("consumer.processor.cutting:slices_behind", "at > position", "at"),
        tests=("test_slots_are_lost_one_after_another",),
    ),
    Mutation(
        "never LIST",
        Change(f"{_SEQUENCE_STORE}.load_minute", "minute in self._loaded", "minute >= 0"),
        tests=(
            "test_a_wiped_lease_table_adds_nothing",
            "test_the_first_minutes_cost_one_list_each",
        ),
    ),
    Mutation(
        "LIST every minute for ever",
        Change(f"{_SEQUENCE_STORE}._may_be_stored", "start_ms < self._started_ms + SKEW_MS", "True"),
        tests=("test_a_steady_shard_minute_costs_one_put_and_nothing_else",),
    ),
    Mutation(
        "LIST the first minute by the clock alone",
        Change(
            f"{_SEQUENCE_STORE}.load_minute",
            "self._loaded and (not self._may_be_stored(minute))",
            "not self._may_be_stored(minute)",
        ),
        tests=("test_a_clock_that_was_wrong_at_the_start_doubles_nothing",),
    ),
    Mutation(
        "key from first and last",
        Change(
            f"{_SEQUENCE_STORE}.commit",
            "segment_key(self._prefix, self._shard_id, segment.minute, first, segment.compression)",
            "OLD.replace('.jsonl', f'-L{metadata.last.sequence}_{metadata.last.sub}.jsonl')",
        ),
        Change("minutebook.format.keys:parse_segment_key", "", ("key = re.sub('-L[0-9_]+', '', key)\nOLD")),
        tests=("test_a_slot_lost_to_a_shorter_segment_leaves_the_rest",),
    ),
    Mutation(
        "no guard of a buffer's age",
        Change(
            "consumer.processor.buffer:Buffer.check_age", "age > self._settings.max_segment_age_seconds", "age < 0"
        ),
        tests=("test_a_buffer_that_is_too_old_is_thrown_away",),
    ),
    Mutation(
        "count no pause that the monotonic clock misses",
        Change("minutebook.clock:PauseCountingClock.monotonic", "now + self._missed", "now"),
        tests=("test_a_virtual_machine_that_was_paused_never_commits_an_old_buffer",),
    ),
    Mutation(
        "count a buffer's age from its append",
        Change(f"{_ARCHIVER}._open_buffer", "self._fresh_at", "self._services.clock.monotonic()"),
        tests=("test_a_processor_that_sleeps_in_a_list_commits_nothing_that_is_stale",),
    ),
    Mutation(
        "begin behind a stored range without a mark",
        Change(
            f"{_ARCHIVER}._commit_before",
            "isinstance(self.chain.tail, ChainStart) and stored.last < position",
            "self.chain.tail is None",
        ),
        tests=("test_a_break_before_a_stored_range_is_reported",),
    ),
)

COMMIT: Final = (
    *_PLAIN,
    Mutation(
        "a document that is read short once is damaged",
        Change("minutebook.store.retrying:RetryingStore.read", "again = self.get(key)", "again = None"),
        tests=("test_a_document_that_is_read_short_or_missed_once_is_no_damage",),
    ),
    Mutation(
        "a document that is missed once is gone",
        Change("minutebook.store.retrying:RetryingStore.read", "stored is None and must_exist", "False"),
        tests=("test_a_listed_document_that_is_read_short_or_missed_once_is_no_damage",),
    ),
    Mutation(
        "archive what was withheld beside the chain",
        Change(f"{_ARCHIVER}._leave_out", "withheld is None", "True"),
        tests=("test_an_aggregate_that_was_withheld_from_the_first_writer_lies_beside_no_chain",),
    ),
    Mutation(
        "leave out what the first writer missed",
        Change(
            f"{_ARCHIVER}._leave_out", "held_back(services, self.shard_id, origin.info, first, stored.first)", "[]"
        ),
        tests=("test_a_record_that_the_first_writer_should_have_had_is_still_archived",),
    ),
    Mutation(
        "measure a pause from the start, not from the last look",
        Change("minutebook.clock:PauseCountingClock.monotonic", "min(self._lead, lead)", "self._lead"),
        tests=("test_a_virtual_machine_that_was_paused_never_commits_an_old_buffer",),
    ),
    Mutation(
        "take trembling clocks for pauses",
        Change("minutebook.clock:PauseCountingClock.monotonic", "_JITTER_SECONDS", "0"),
        tests=("test_a_wall_clock_that_trembles_or_steps_back_changes_nothing",),
    ),
    Mutation(
        "let botocore repeat requests",
        Change("minutebook.aws.clients:client_config", "1", "2"),
        tests=("test_botocore_itself_never_repeats",),
    ),
    Mutation(
        "take every winner for ourselves",
        Change(
            f"{_COMMIT}:commit_segment", "winner.writer == metadata.writer", "winner.shard_id == metadata.shard_id"
        ),
        tests=("test_a_slot_lost_to_a_shorter_segment_leaves_the_rest",),
    ),
    Mutation(
        "take our own retried PUT for another's",
        Change(f"{_COMMIT}:commit_segment", "winner.writer == metadata.writer", "not winner.writer"),
        tests=("test_412_with_our_writer_is_committed",),
    ),
    Mutation(
        "swallow an exception in process_records",
        Change(
            "consumer.processor.protocol:_StrictProcess._perform_action",
            "self.processor.process_records(DeliveredBatch(action, self.checkpointer))",
            ("try:\n    OLD\nexcept Exception as exc:\n    print(exc)"),
        ),
        tests=("test_an_outage_ends_the_process_without_a_checkpoint",),
    ),
    Mutation(
        "follow a redirect to any address",
        Change("minutebook.aws.redirects:same_object", "not (is_there or is_aws)", "not new_host"),
        tests=("test_nothing_else",),
    ),
    Mutation(
        "end a LIST at a page that names no next one",
        Change("minutebook.store.s3:check_page", "page['IsTruncated']", "page is None"),
        tests=("test_a_list_that_ends_in_the_middle_is_refused",),
    ),
    Mutation(
        "take a proxy's page for a pointer that was replaced",
        Change(
            "minutebook.store.s3_storage:S3Storage.put_if_match", "check_whole(answer, f'PUT {key}', 'ETag')", "None"
        ),
        tests=("test_a_proxys_page_is_no_answer_of_the_store",),
    ),
    Mutation(
        "take an object for deleted that no answer names",
        Change(
            "minutebook.store.s3_storage:S3Storage.delete",
            "answer.get('Deleted', [])",
            "[{'Key': key} for key in batch]",
        ),
        tests=("test_a_proxys_page_is_no_answer_of_the_store",),
    ),
    Mutation(
        "follow a redirect however long the machine slept",
        Change("minutebook.aws.redirects:_follow", "0 <= clock.now_ms() - first_ms <= _SOON_MS", "first_ms >= 0"),
        tests=("test_a_machine_that_slept_behind_a_redirect_sends_nothing",),
    ),
    Mutation(
        "send a body without its checksum",
        Change("minutebook.aws.clients:_make_client", "register_checksums(client)", "client.meta"),
        tests=("test_a_body_is_sent_once_whole_with_a_checksum_that_s3_compares",),
    ),
    Mutation(
        "take a record that was stamped before its stream was made",
        Change(
            "consumer.stream.port:StreamIdentity.check_arrival",
            "arrival_ms >= earliest_ms",
            "arrival_ms >= 0",
        ),
        tests=("test_a_stamp_in_seconds_stops_the_shard_before_anything_is_written",),
    ),
    Mutation(
        "take records out of order",
        Change(
            "consumer.processor.cutting:check_order",
            "delivered is not None and position <= delivered",
            "delivered is None and position.sequence < 0",
        ),
        tests=("test_a_record_twice_in_one_consumer_stops_the_shard",),
    ),
)
