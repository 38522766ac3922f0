"""Mutations of how a shard begins, is checkpointed, fenced and ends."""

from typing import Final

from tests.mutations.mutation import Change, Mutation, in_mode

_SHARD_PROCESSOR: Final = "consumer.processor.processor:ShardProcessor"
_SHARD_END_PROOF: Final = "consumer.processor.shard_end:ShardEndProof"
_SHARD_STARTER: Final = "consumer.processor.shard_start:ShardStarter"

_PLAIN: Final = in_mode(
    "plain",
    Mutation(
        "checkpoint before commit",
        Change(
            f"{_SHARD_PROCESSOR}.process_records",
            "shard.checkpoints.offer(process_records_input.checkpointer, archiver.chain.tail, archiver.delivered)",
            "shard.checkpoints.offer(process_records_input.checkpointer, archiver.delivered, archiver.delivered)",
        ),
        tests=("test_nothing_is_checkpointed_before_it_is_durable",),
    ),
    Mutation(
        "answer an end without a marker",
        Change(f"{_SHARD_PROCESSOR}.shard_ended", "shard.end_proof.mark_end", "lambda *_, **__: None"),
        tests=("test_the_end_of_an_open_shard_is_not_believed",),
    ),
    Mutation(
        "go on after a refused checkpoint",
        Change(f"{_SHARD_PROCESSOR}._fall_silent", "True", "False"),
        tests=("test_after_a_refused_checkpoint_for_a_lost_lease_nothing_is_committed",),
    ),
    Mutation(
        "commit what is held when the lease is lost",
        Change(f"{_SHARD_PROCESSOR}.lease_lost", "", ("self._opened().archiver.commit('lease_lost')\nOLD")),
        tests=("test_a_lost_lease_drops_the_buffer",),
    ),
    Mutation(
        "no start marker",
        Change(
            "consumer.processor.archiver:Archiver._claim",
            "self._on_chain_start(buffer.segment.span, buffer.oldest_ms, tail, budget)",
            "Continuity.PROVEN",
        ),
        tests=("test_the_start_marker_comes_before_the_first_segment",),
    ),
    Mutation(
        "no check of the stream's name",
        Change("minutebook.owner:check_stream", "record.stream_arn != stream.arn", "not stream.arn"),
        tests=("test_another_stream_is_refused",),
    ),
    Mutation(
        "no check of the stream's creation time",
        Change(
            "minutebook.owner:check_stream",
            "record.stream_created_ms != stream.created_ms",
            "not stream.created_ms",
        ),
        tests=("test_a_stream_made_again_under_its_name_is_refused",),
    ),
    Mutation(
        "accept LATEST",
        Change(
            f"{_SHARD_STARTER}.start",
            "",
            ("if sequence_number == 'LATEST':\n    sequence_number = 'TRIM_HORIZON'\nOLD"),
        ),
        tests=("test_latest_is_refused",),
    ),
    Mutation(
        "resume past retention without a mark",
        Change(f"{_SHARD_STARTER}._continuity", "", "return Continuity.PROVEN"),
        Change(
            "minutebook.coverage.continuity:judge_continuity",
            "is_young(base.until_ms, answered_ms) or _is_base_held(base, held)",
            "True",
        ),
        tests=("test_a_resume_past_retention_is_marked",),
    ),
    Mutation(
        "accept LATEST, and forget where a shard was begun",
        Change(
            f"{_SHARD_STARTER}.start",
            "",
            ("if sequence_number == 'LATEST':\n    sequence_number = 'TRIM_HORIZON'\nOLD"),
        ),
        Change(f"{_SHARD_STARTER}._compare", "begun == first", "True"),
        tests=("test_a_start_at_another_record_is_refused",),
    ),
    Mutation(
        "checkpoint without the sub-sequence number",
        Change("consumer.processor.checkpoints:IntervalCheckpoints.now", "tail.sub", "0"),
        tests=("test_a_checkpoint_names_its_sub_sequence_number",),
    ),
    Mutation(
        "checkpoint a winner's end before it was delivered",
        Change("consumer.processor.checkpoints:IntervalCheckpoints.now", "tail > delivered", "False"),
        tests=("test_after_a_longer_winner_no_checkpoint_lies_inside_its_span",),
    ),
    Mutation(
        "a reader that was overtaken goes on",
        Change(
            "consumer.processor.retention:RetentionGuard.check_unbroken",
            "not self.is_unbroken(delivered)",
            "delivered == 0",
        ),
        tests=("test_a_gap_while_the_machine_slept_is_never_passed_over",),
    ),
    Mutation(
        "answer a false end with records left",
        Change(
            "consumer.evidence.held:walk_to_end",
            ("if reached is Reached.MORE:\n    return None"),
            ("if reached:\n    return walk"),
        ),
        tests=("test_a_closed_shard_with_records_left_is_not_at_its_end",),
    ),
    Mutation(
        "call every end proven",
        Change(f"{_SHARD_END_PROOF}.mark_end", "info is not None and unbroken and is_known", "info is not None"),
        tests=("test_an_end_reached_past_retention_is_not_proven",),
    ),
    Mutation(
        "end a shard behind whole aggregates, or mark it as read there",
        Change("consumer.evidence.tip_walk:TipWalk._is_behind", "self._position.sub", "1 << 60"),
        tests=(
            "test_the_rest_of_an_aggregate_is_not_skipped_at_a_false_end",
            "test_the_rest_of_the_aggregate_that_the_tail_lies_in_is_no_tip",
        ),
    ),
)

SHARDS: Final = (
    *_PLAIN,
    Mutation(
        "checkpoint the end of a shard by its last number",
        Change(
            f"{_SHARD_PROCESSOR}.shard_ended",
            "shard.checkpoints.shard_end",
            "lambda to, **budget: shard.checkpoints.now(to, archiver.chain.tail, archiver.delivered, **budget)",
        ),
        tests=("test_the_checkpoint_at_the_end_has_no_arguments",),
    ),
    Mutation(
        "end the worker for a lease that is lost at the end of its shard",
        Change(f"{_SHARD_PROCESSOR}.shard_ended", "self._fall_silent(str(exc))", "raise"),
        tests=("test_an_end_of_a_lost_lease_is_a_lost_lease",),
    ),
    Mutation(
        "read an end as if every hash key were the shard's",
        Change(f"{_SHARD_END_PROOF}._read_to_end", "hash_range=shard_hash_range(info)"),
        tests=("test_what_kcl_would_not_deliver_does_not_keep_a_shard_from_ending",),
    ),
    Mutation(
        "believe the end of an open shard",
        Change(f"{_SHARD_END_PROOF}._read_to_end", "not info.closed", "info.closed is None"),
        tests=("test_an_open_shard_whose_reading_ends_is_not_believed_either",),
    ),
)
