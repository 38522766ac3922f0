"""Events in the partition of their own day: rows that would lie elsewhere, be there twice, or not at all."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_FILES: Final = "compaction/events/files.py"
_WORK: Final = "compaction/events/work.py"
_TABLE: Final = "compaction/iceberg/table.py"
_WINDOW: Final = "compaction/typed/events/window.py"
_CUT: Final = "tests/unit/compaction/events/test_work.py"
_MADE: Final = "tests/unit/compaction/events/test_files.py"
_TYPED: Final = "tests/unit/compaction/typed/test_event_time.py"
_COMMITTED: Final = "tests/integration/compaction/test_iceberg_events.py"

EVENT_TIME: Final = (
    Mutation(
        "delete by the day of events, not of arrival",
        Change(_TABLE, "self._renamed.get(ARRIVAL, ARRIVAL)", "EVENT_TIME"),
        tests=(f"{_COMMITTED}::test_a_late_object_replaces_the_day_of_its_arrival_alone",),
    ),
    Mutation(
        "take rows with and without a time into one partition",
        Change(_TABLE, "not in {0, file.record_count}", "not in {0, file.record_count, 18}"),
        tests=(f"{_COMMITTED}::test_rows_with_and_without_a_time_in_one_file_are_refused",),
    ),
    Mutation(
        "let a run without the time of events into a table by event",
        Change(
            _TABLE,
            "if fields == [ARRIVAL] or (self._by_event and fields == [ARRIVAL, EVENT_TIME]):",
            "if fields[:1] == [ARRIVAL]:",
        ),
        tests=(f"{_COMMITTED}::test_a_run_without_events_is_refused_by_a_table_that_has_them",),
    ),
    Mutation(
        "take events from any day",
        Change(_WINDOW, "pc.greater(late, self._days)", "pc.greater(late, 1_000_000)"),
        tests=(f"{_TYPED}::test_the_window_is_in_days",),
    ),
    Mutation(
        "round times before 1970 up to the next day",
        Change(_WINDOW, "_EPOCH: Final = 719_162", "_EPOCH: Final = 0"),
        tests=(f"{_TYPED}::test_days_of_times_before_1970_are_not_rounded_up",),
    ),
    Mutation(
        "name generations without the window of events",
        Change("compaction/typed/columns.py", "event time within {self.event.window_days} days", "event time"),
        tests=(f"{_TYPED}::test_another_window_or_path_is_another_generation",),
    ),
    Mutation(
        "balance days of events whatever their numbers say",
        Change(
            "compaction/typed/events/judged.py",
            "balanced=without == missing and sum(known.values()) + without == counts.rows",
            "balanced=sum(known.values()) <= counts.rows",
        ),
        tests=(f"{_TYPED}::test_numbers_that_do_not_add_up_hold_the_day_back",),
    ),
    Mutation(
        "record files by event whatever they hold",
        Change(_FILES, ")) != manifest.rows:", ")) < 0:"),
        tests=(f"{_MADE}::test_rows_that_are_not_the_manifests_are_never_recorded",),
    ),
    Mutation(
        "believe a record whose files are gone",
        Change(
            _FILES,
            "if found is not None and (is_young or set(rows) == set(held)) and self._is_whole(found):",
            "if found is not None:",
        ),
        tests=(
            f"{_MADE}::test_a_record_that_is_not_whole_is_not_believed",
            f"{_MADE}::test_an_old_record_counts_while_the_table_holds_its_files",
        ),
    ),
    Mutation(
        "believe that the table's files are there",
        Change(
            _FILES,
            "(is_young or set(rows) == set(held)) and self._is_whole(found)",
            "(set(rows) == set(held) or (is_young and self._is_whole(found)))",
        ),
        tests=(f"{_COMMITTED}::test_a_file_of_the_table_that_is_gone_is_made_again",),
    ),
    Mutation(
        "bring back what somebody deleted with its files",
        Change(
            "compaction/iceberg/plan.py",
            "return is_theirs or sum(file.rows for file in live) != recorded.rows",
            "return is_theirs",
        ),
        tests=(f"{_COMMITTED}::test_deleted_rows_of_a_day_of_events_never_come_back",),
    ),
    Mutation(
        "give the table both runs' files by event",
        Change(_FILES, "            return self._agreed(key, manifest)\n", ""),
        tests=(f"{_MADE}::test_of_two_runs_at_once_one_has_its_files",),
    ),
    Mutation(
        "tidy up what a record names",
        Change(_FILES, "old -= set() if known is None else", "old -= set() if known is not None else"),
        tests=(f"{_MADE}::test_what_a_killed_run_left_is_deleted_when_it_is_old",),
    ),
    Mutation(
        "leave scraps of the last event day ungathered",
        Change(
            _WORK, "    for scrap in scraps:\n        by_day", "    for scrap in list(scraps)[1:]:\n        by_day"
        ),
        tests=(f"{_CUT}::test_each_row_is_in_one_file",),
    ),
    Mutation(
        "make any partition that a published day calls for",
        Change(
            _WORK, "if day is not None and not order.day", "if day is not None and order.day < 0 and not order.day"
        ),
        tests=(f"{_CUT}::test_an_event_outside_of_the_window_is_refused",),
    ),
    Mutation(
        "sort sequence numbers as texts",
        Change("compaction/events/rows.py", '        "digits": pc.binary_length(rows["sequence_number"]),\n', ""),
        tests=(f"{_CUT}::test_each_row_is_in_one_file",),
    ),
)
