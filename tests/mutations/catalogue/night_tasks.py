"""Mutations of the nightly job's tasks: S3's weather, errors on their way to the driver, and sorting."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_ANSWERS: Final = "archive/answers.py"
_STORAGE: Final = "archive/store/s3_storage.py"
_FAILURES: Final = "compaction/spark/failures.py"
_SORTING: Final = "compaction/tasks/sorting.py"

_PARQUET: Final = "compaction/tasks/parquet.py"
_ID_ROWS: Final = "compaction/tasks/ids/rows.py"
_ID_COPIES: Final = "compaction/tasks/ids/copies.py"
_DROPPING: Final = "compaction/tasks/ids/dropping.py"
_PRODUCERS: Final = "compaction/producers/copies.py"

_TORN: Final = "tests/integration/archive/test_torn_answers.py"
_FAILURE_TESTS: Final = "tests/unit/compaction/spark/test_failures.py"
_MERGE: Final = "tests/unit/compaction/tasks/test_merging.py"
_PARQUET_TESTS: Final = "tests/unit/compaction/tasks/test_parquet.py"
_IDS: Final = "tests/unit/compaction/tasks/test_event_ids.py"
_COPIES_HISTORIES: Final = "tests/property/test_producer_copies.py"
_LEFT_OUT: Final = "tests/unit/compaction/publish/test_left_out.py"

NIGHT_TASKS: Final = (
    Mutation(
        "send a piece in one call, which has no longer than connecting may take",
        Change(_STORAGE, "= bytes(self._pending), bytearray()", "= self._pending, bytearray()"),
        tests=(
            "tests/integration/archive/test_slow_line.py::test_a_piece_arrives_that_takes_longer_than_connecting_may",
        ),
    ),
    Mutation(
        "take a torn listing of a folder for an empty one",
        Change(_STORAGE, '                check_whole(page, what, "IsTruncated")\n', ""),
        tests=(f"{_TORN}::test_a_torn_answer_to_the_night_is_not_believed",),
    ),
    Mutation(
        "believe a row of a LIST that names no object",
        Change(
            _ANSWERS,
            "                if field not in row:",
            '                if field == "Prefix" and field not in row:',
        ),
        tests=("tests/unit/archive/test_answers.py::test_a_row_that_lacks_a_field_is_asked_for_again",),
    ),
    Mutation(
        "take a torn object for one without lines",
        Change(
            _STORAGE,
            '        check_whole(answer, f"GET {key}", "ContentLength")\n        metadata =',
            "        metadata =",
        ),
        tests=(f"{_TORN}::test_a_torn_answer_to_the_night_is_not_believed",),
    ),
    Mutation(
        "believe an upload whose end was not told",
        Change(_STORAGE, '                check_whole(answer, f"COMPLETE {self._key}", "ETag")\n', ""),
        tests=(f"{_TORN}::test_a_torn_answer_to_an_upload_is_not_believed",),
    ),
    Mutation(
        "give up a task whose store may be well again",
        Change(_FAILURES, "    except _PASSING as exc:\n", "    except () as exc:\n"),
        tests=(f"{_FAILURE_TESTS}::test_what_may_have_passed_is_left_to_sparks_next_try",),
    ),
    Mutation(
        "tell the driver's bucket alone of values that are not there",
        Change("compaction/spark/dealt.py", "for number in range(self.buckets)]", "for number in [0]]"),
        tests=("tests/unit/compaction/spark/test_dealt.py::test_a_failure_goes_wherever_values_were_to_go",),
    ),
    Mutation(
        "let the other tasks run when one is denied",
        Change(_FAILURES, "        tell([failure])\n", ""),
        tests=(f"{_FAILURE_TESTS}::test_what_cannot_pass_is_told_at_once",),
    ),
    Mutation(
        "let a later run's line come before an earlier one's",
        Change(_SORTING, "heapq.merge(*map(_rows, files),", "heapq.merge(*map(_rows, reversed(files)),"),
        tests=(f"{_MERGE}::test_sorting_keeps_every_line",),
    ),
    Mutation(
        "say that rows are sorted which are not",
        Change(_PARQUET, "in_order = self._is_sorted and self._ascends(table)", "in_order = self._is_sorted"),
        tests=(f"{_PARQUET_TESTS}::test_an_order_is_said_where_it_is",),
    ),
    Mutation(
        "forget the last row of the row group before",
        Change(_PARQUET, "(before is None or before <= first) and _is_ascending", "_is_ascending"),
        tests=(f"{_PARQUET_TESTS}::test_an_order_that_ends_later_is_an_error",),
    ),
    Mutation(
        "leave a row for every record of an id that all have",
        Change(
            _ID_ROWS, "    if not groups:\n        return memoryview(ordered)\n", "    return memoryview(ordered)\n"
        ),
        tests=(f"{_IDS}::test_an_id_that_all_records_have_leaves_two_rows",),
    ),
    Mutation(
        "count an event's lines in an object as two",
        Change(_ID_ROWS, "COUNTED | (end - begin)", "COUNTED | 2"),
        tests=(f"{_COPIES_HISTORIES}::test_of_each_event_exactly_the_first_record_stays",),
    ),
    Mutation(
        "leave out the first of an event's many lines in an object, too",
        Change(_DROPPING, "_NO_LINE if copies.kept is None else copies.kept", "_NO_LINE"),
        tests=(f"{_IDS}::test_an_id_that_all_records_have_leaves_two_rows",),
    ),
    Mutation(
        "compare rows on disk with those in memory alone",
        Change(
            _ID_COPIES, "        _spread(held, files)\n        held.clear()\n        for file", "        for file"
        ),
        tests=(f"{_COPIES_HISTORIES}::test_of_each_event_exactly_the_first_record_stays",),
    ),
    Mutation(
        "leave out whatever the path says, were it every record",
        Change(_PRODUCERS, "if copies.share > options.max_repeats:", "if copies.share > 1:"),
        tests=(f"{_LEFT_OUT}::test_a_path_that_most_records_share_is_refused",),
    ),
)
