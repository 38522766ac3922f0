"""Mutations of cuts: which side of a cut a record is on."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_HISTORIES: Final = ("test_each_record_lies_on_one_side_of_a_cut",)

CUTS: Final = (
    Mutation(
        "list only the minutes before the cut's time",
        Change(
            "consumer.cut.archive_cut:cut_archive",
            "_minutes_before(store, prefix, lasts, at_ms)",
            "()",
        ),
        tests=(
            *_HISTORIES,
            "test_a_stamp_that_stepped_back_takes_what_lies_before_it_along",
            "test_a_stamp_far_ahead_is_found_however_far",
        ),
    ),
    Mutation(
        "cut an expired day at the segments that are left",
        Change("consumer.cut.archive_cut:cut_archive", "day.end_ms <= at_ms", "False"),
        tests=(*_HISTORIES, "test_expired_days_lie_before_the_cut"),
    ),
    Mutation(
        "compare positions of a cut as text",
        Change("minutebook.cut:Cut.is_before", "position <= last", "str(position) <= str(last)"),
        tests=(*_HISTORIES, "test_a_cut_holds_positions_of_any_length"),
    ),
    Mutation(
        "leave the record at the cut's position to both sides",
        Change("minutebook.cut:Cut.is_before", "position <= last", "position < last"),
        tests=_HISTORIES,
    ),
    Mutation(
        "call a shard ended that ended behind the cut",
        Change("consumer.cut.archive_cut:_entry", "last is not None and end <= last", "last is not None"),
        tests=(*_HISTORIES, "test_a_shard_that_has_ended_before_is_at_its_end"),
    ),
    Mutation(
        "give descendants of an ended shard no row",
        Change("consumer.cut.lease_rows:_own", "shard_id in known or not info.closed", "shard_id in known"),
        Change("consumer.cut.lease_rows:_own", "{*known, *own}.intersection(info.parents)", "False"),
        tests=(*_HISTORIES, "test_every_descendant_has_a_row"),
    ),
    Mutation(
        "hand over what had ended before the archive began",
        Change("consumer.cut.lease_rows:_own", "shard_id in known or not info.closed", "True"),
        tests=("test_what_had_ended_before_the_archive_began_has_none",),
    ),
    Mutation(
        "hand over one parent of a merge",
        Change("consumer.cut.lease_rows:plan_handover", "not parents <= own", "False"),
        tests=(*_HISTORIES, "test_parents_of_a_merge_have_both_a_row_or_neither"),
    ),
    Mutation(
        "cut where nothing is proven",
        Change(
            "consumer.cut.command:judge",
            "Interval(from_ms, at_ms)",
            "Interval(from_ms, at_ms - 8 * MINUTE_MS)",
        ),
        tests=("test_what_had_arrived_before_must_be_proven",),
    ),
    Mutation(
        "judge one hour whatever is asked for",
        Change("consumer.cut.command:judged_from_ms", "hours * HOUR_MS", "HOUR_MS"),
        tests=("test_a_gap_is_found_within_the_hours_that_are_judged",),
    ),
    Mutation(
        "take a part of a day for all that lies before a cut",
        Change("minutebook.reader.tables:_check_reach", "day.until is not None", "False"),
        tests=("test_a_part_of_a_day_must_reach_the_cut",),
    ),
    Mutation(
        "divide published days by another stream's cut",
        Change("minutebook.reader.tables:_check_stream", "other is not None", "False"),
        tests=("test_a_cut_of_a_stream_of_another_name_is_refused",),
    ),
    Mutation(
        "trust the present retention",
        Change("consumer.cut.command:check_held", "stream.holds(row.shard_id, position)", "True"),
        tests=("test_a_cut_older_than_a_day_is_proven_by_what_the_stream_holds",),
    ),
    Mutation(
        "hand over to an application whose worker has started",
        Change("consumer.cut.command:check_unused", "lock is not None", "False"),
        tests=("test_a_worker_that_has_started_is_refused",),
    ),
    Mutation(
        "replace the rows of an application that has run",
        Change("consumer.cut.command:check_unused", "planned.get(key) != _progress(lease)", "False"),
        tests=("test_rows_of_an_application_that_has_run_are_left_alone",),
    ),
)
