"""Mutations of the dedupe by watermarks."""

from typing import Final

from tests.mutations.mutation import Change, Mutation, in_mode

_ARCHIVER: Final = "consumer.processor.archiver:Archiver"
_DEDUPE_STARTER: Final = "consumer.processor.dedupe_start:DedupeStarter"

_WATERMARK: Final = in_mode(
    "watermark",
    Mutation(
        "the loser of a slot judges nothing again",
        Change(f"{_ARCHIVER}._recut", "self._hold(rest, part)", "rest.hold(part, ())"),
        tests=("test_the_loser_of_a_slot_judges_the_rest_again",),
    ),
    Mutation(
        "the winner's watermarks are not adopted",
        Change(f"{_ARCHIVER}._adopt_tail", "self._dedupe.adopt(other, self._sequences.watermarks_of(other))", "pass"),
        tests=("test_the_loser_of_a_slot_judges_the_rest_again",),
    ),
    Mutation(
        "a loser keeps its own watermarks",
        Change(
            f"{_ARCHIVER}._commit_once", "self._adopt_tail(outcome.winner)", "self.chain.tail = outcome.winner.last"
        ),
        tests=("test_the_loser_of_a_slot_judges_the_rest_again",),
    ),
    Mutation(
        "the tail row before the commit",
        Change(
            f"{_ARCHIVER}._commit_once",
            "segment = buffer.segment",
            (
                "OLD\n"
                "if self._dedupe is not None:\n"
                "    self._dedupe.committed(segment.metadata(after=self.chain.tail, writer='early'))"
            ),
        ),
    ),
    Mutation(
        "a segment carries no numbers",
        Change(f"{_ARCHIVER}._commit_once", "self._dedupe.watermarks", "type(self._dedupe.watermarks() or 0)"),
        tests=("test_watermarks_are_found_in_the_archive_when_the_table_is_lost",),
    ),
    Mutation(
        "watermarks beside go without their segment's writer",
        Change(
            "consumer.processor.sequence_store:SequenceStore.commit",
            "watermarks_key(self._prefix, self._shard_id, segment.minute, first, writer)",
            "OLD.replace(writer, 'w')",
        ),
        tests=("test_large_watermarks_stand_beside_the_segment",),
    ),
    Mutation(
        "all producers are one",
        Change(
            "minutebook.format.payload:ProducerNumbers.of",
            "'' if self._key is None else self._key.text(payload)",
            "''",
        ),
    ),
    Mutation(
        "records without a number are duplicates",
        Change(
            "consumer.dedupe.deduplicator:WatermarkDedupe.judge",
            "verdicts.append(None)",
            "verdicts.append('unknown')",
        ),
        tests=("test_records_without_an_id_are_kept",),
    ),
    Mutation(
        "watermarks without gaps",
        Change("consumer.dedupe.watermarks:Watermarks.take", "ordered", "ordered or intervals"),
        tests=("test_a_number_below_the_watermark_that_was_never_seen_is_new",),
    ),
    Mutation(
        "a merged shard closes its parents' gaps",
        Change("consumer.dedupe.watermarks:_union", "low <= merged[-1][1] + 1", "True"),
        tests=("test_a_merged_shard_has_seen_what_both_parents_saw",),
    ),
    Mutation(
        "the oldest gap is closed when there are too many",
        Change(
            "consumer.dedupe.watermarks:_add",
            "del intervals[0]",
            "intervals[:2] = [(intervals[0][0], intervals[1][1])]",
        ),
        tests=("test_too_many_gaps_forget_the_oldest_numbers_only",),
    ),
    Mutation(
        "watermarks are not loaded after a restart",
        Change(f"{_DEDUPE_STARTER}.open", "self._at(shard_id, tail)", "Watermarks()"),
        tests=("test_watermarks_are_found_in_the_archive_when_the_table_is_lost",),
    ),
    Mutation(
        "watermarks are taken from any tail row",
        Change(f"{_DEDUPE_STARTER}._at", "row.position == position", "True"),
        tests=("test_a_tail_row_of_another_position_is_not_believed",),
    ),
    Mutation(
        "children inherit from their parents alone",
        Change(f"{_DEDUPE_STARTER}._inherited", "self._inherited(parent)", "Watermarks()"),
        tests=("test_a_child_inherits_through_a_parent_that_ended_empty",),
    ),
    Mutation(
        "children inherit nothing",
        Change(f"{_DEDUPE_STARTER}._inherited", "() if info is None else info.parents", "()"),
        tests=("test_children_inherit_what_their_parent_saw",),
    ),
    Mutation(
        "a merged shard inherits from one parent",
        Change(f"{_DEDUPE_STARTER}._inherited", "info.parents", "info.parents[:1]"),
    ),
    Mutation(
        "a lost tail row stops the search",
        Change(
            f"{_DEDUPE_STARTER}._at",
            "self._named(shard_id, position, row) or self._find(shard_id, position)",
            "self._named(shard_id, position, row) or None if row is None else self._find(shard_id, position)",
        ),
        tests=("test_watermarks_are_found_in_the_archive_when_the_table_is_lost",),
    ),
    Mutation(
        "a tail row that cannot be read ends the shard",
        Change("consumer.dedupe.table:DynamoDedupeTable.read_tail", "FormatError", "StoreRefused"),
    ),
)

WATERMARKS: Final = (
    *_WATERMARK,
    Mutation(
        "a state of any length goes into the tail row",
        Change("consumer.dedupe.table:tail_item", "len(text) <= LONGEST_STATE_BYTES", "True"),
        tests=("test_a_state_too_long_for_an_item_is_searched_for_when_the_row_is_lost",),
    ),
)
