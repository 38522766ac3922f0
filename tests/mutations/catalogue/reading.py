"""Mutations of readers of raw segments: each position once, nothing lost while a night publishes."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_NIGHT: Final = "test_a_night_that_publishes_after_the_list_doubles_nothing_and_loses_nothing"
_MERGE: Final = "merge = Merge(merge_sources(storage, group, order.dropped))"

READING: Final = (
    Mutation(
        "read raw what the inventory names",
        Change("minutebook.reader.live:unnamed", "row is None or row[:2] != segment[:2]", "True"),
        tests=(_NIGHT, "test_a_segment_that_the_inventory_names_is_read_from_parquet"),
    ),
    Mutation(
        "take a segment that was stored again for the published one",
        Change("minutebook.reader.live:unnamed", "row[:2] != segment[:2]", "row[0] != segment[0]"),
        tests=("test_a_segment_that_was_stored_again_gives_what_the_files_lack",),
    ),
    Mutation(
        "repeat published rows of a segment that was stored again",
        Change("minutebook.reader.live:_unpublished", "_is_published(rows, files)", "_is_published(rows, [])"),
        tests=("test_a_raw_segment_repeats_no_position_of_a_published_part",),
    ),
    Mutation(
        "take an expired day that is not published for an empty one",
        Change("minutebook.reader.live:open_live", "day.published is None", "False"),
        tests=("test_an_expired_day_that_is_not_published_is_no_empty_day",),
    ),
    Mutation(
        "merge segments in the order of their minutes",
        Change(
            "minutebook.segments.listing:position_order", "segment.parsed.first", "Position(segment.parsed.minute)"
        ),
        tests=("test_days_come_in_order_and_within_a_shard_positions_ascend",),
    ),
    Mutation(
        "follow without a second list",
        Change(
            "minutebook.cat.following:FollowedSegments._has_been_seen",
            "seen is not None and segment.parsed.first <= seen",
            "True",
        ),
        tests=("test_a_segment_waits_until_all_before_it_are_listed",),
    ),
    Mutation(
        "move the window over what the last list has seen",
        Change(
            "minutebook.cat.following:FollowedSegments._poll",
            "min([window, *(parsed.minute for parsed in unseen)])",
            "window",
        ),
        tests=("test_the_window_does_not_move_over_what_was_never_listed",),
    ),
    Mutation(
        "let Arrow read the zeros behind a decimal's scale",
        Change(
            "compaction.columns.arrays:_decimal",
            "_without_zeros(kind, column).cast(kind.arrow)",
            "column.cast(kind.arrow)",
        ),
        tests=("test_a_value_is_read_exactly",),
    ),
    Mutation(
        "leave the rest of an Avro block",
        Change(
            "compaction.columns.decode.avro_child:_records_of_file",
            "block.num_records < 0 or content.tell() < len(content.getbuffer())",
            "False",
        ),
        tests=("test_a_block_holds_as_many_records_as_it_says",),
    ),
    Mutation(
        "call a document whole that a struct cuts",
        Change("compaction.night.columns_again:_fewer", "before.filled and _is_cut(before, after)", "False"),
        tests=("test_a_document_with_fewer_values_is_named",),
    ),
    Mutation(
        "write lines that Python reads before those that have gathered",
        Change("compaction.tasks.task:_read", "gathered.flush()", "pass"),
        tests=("test_lines_of_many_objects_come_in_order",),
    ),
    Mutation(
        "merge before what has gathered is written",
        Change(
            "compaction.tasks.task:_read_groups",
            f"if gathered is not None:\n    gathered.flush()\n{_MERGE}",
            _MERGE,
        ),
        tests=("test_lines_of_many_objects_come_in_order",),
    ),
    Mutation(
        "gather lines of large segments, too",
        Change("compaction.parquet.gathering:GatheredLines.takes", "block.size > _SMALL_BYTES", "False"),
        tests=("test_lines_of_a_large_segment_have_a_table_of_their_own",),
    ),
    Mutation(
        "give gathered lines the first segment's name",
        Change("compaction.columns.arrow_columns:repeated_column", "len({text for text, _ in runs}) == 1", "True"),
        tests=("test_small_segments_share_a_table", "test_lines_of_many_objects_come_in_order"),
    ),
    Mutation(
        "let no time step back across blocks",
        Change("compaction.parquet.reading:SegmentReader.tables", "self._arrivals[1]", "_NEVER_MS"),
        tests=("test_arrivals_that_step_back_are_measured",),
    ),
)
