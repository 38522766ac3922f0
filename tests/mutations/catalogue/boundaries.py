"""Mutations of what the histories of boundaries have found; those of their own rules are in `tests.boundaries`."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

BOUNDARIES: Final = (
    Mutation(
        "stand on a mark that is not stored under all of its days",
        Change("consumer.evidence.shard_evidence:ShardEvidence._marks_of", "day_of_ms(mark.until_ms) == day", "True"),
        tests=("test_a_mark_of_two_days_that_was_stored_under_the_first_alone_is_nothing_to_go_on_from",),
    ),
    Mutation(
        "let a segment reach over the beginning of its chain",
        Change(
            "consumer.processor.archiver:Archiver._bound",
            "self._begun is None",
            "True",
        ),
        tests=("test_a_recorded_beginning_without_its_segment_is_a_slot_of_its_own",),
    ),
    Mutation(
        "forget a beginning that lies ahead after a checkpoint",
        Change(
            "consumer.processor.shard_start:ShardStarter._begun",
            "begun <= checkpoint",
            "checkpoint is not None",
        ),
        tests=("test_a_recorded_beginning_without_its_segment_is_a_slot_of_its_own",),
    ),
    Mutation(
        "archive over a beginning that another processor has made meanwhile",
        Change(
            "consumer.processor.shard_start:ShardStarter._compare",
            "was_skipped and span.last < begun",
            "was_skipped and first < begun",
        ),
        tests=("test_a_beginning_behind_held_records_ends_the_process_once",),
    ),
)
