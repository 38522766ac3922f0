"""Mutations of the nightly job's tasks: S3's weather, errors on their way to the driver, and sorting."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_STORAGE: Final = "archive/store/s3_storage.py"
_FAILURES: Final = "compaction/spark/failures.py"
_SORTING: Final = "compaction/tasks/sorting.py"

_TORN: Final = "tests/integration/archive/test_torn_answers.py"
_FAILURE_TESTS: Final = "tests/unit/compaction/spark/test_failures.py"
_MERGE: Final = "tests/unit/compaction/tasks/test_merging.py"

NIGHT_TASKS: Final = (
    Mutation(
        "take a torn listing of a folder for an empty one",
        Change(_STORAGE, '                check_whole(page, f"LIST {folder}", "IsTruncated")\n', ""),
        tests=(f"{_TORN}::test_a_torn_answer_to_the_night_is_not_believed",),
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
        "let the other tasks run when one is denied",
        Change(_FAILURES, "        tell([failure])\n", ""),
        tests=(f"{_FAILURE_TESTS}::test_what_cannot_pass_is_told_at_once",),
    ),
    Mutation(
        "let a later run's line come before an earlier one's",
        Change(_SORTING, "heapq.merge(*map(_rows, files),", "heapq.merge(*map(_rows, reversed(files)),"),
        tests=(f"{_MERGE}::test_sorting_keeps_every_line",),
    ),
)
