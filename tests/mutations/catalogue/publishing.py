"""Mutations of what the nightly job publishes: generations and Iceberg tables."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_PUBLISHER: Final = "compaction/publish/publisher.py"
_ICEBERG_PLAN: Final = "compaction/iceberg/plan.py"
_ICEBERG_TABLE: Final = "compaction/iceberg/table.py"
_ICEBERG_COMMIT: Final = "compaction/iceberg/commit.py"

_PUBLISHES: Final = "tests/unit/compaction/publish/test_publisher.py"
_PLANS: Final = "tests/unit/compaction/iceberg/test_plan.py"
_ICEBERG: Final = "tests/integration/compaction/test_iceberg.py"

PUBLISHING: Final = (
    Mutation(
        "sweep a generation as soon as it is replaced",
        Change(_PUBLISHER, "_epoch_ms(pointer) >= now_ms - grace_ms", "_epoch_ms(pointer) >= now_ms + grace_ms"),
        tests=(f"{_PUBLISHES}::test_a_generation_stays_for_the_grace_after_it_was_replaced",),
    ),
    Mutation(
        "replace rows that somebody added to the table",
        Change(
            _ICEBERG_PLAN,
            "if strangers and (recorded is None or rows != recorded.rows):",
            "if strangers and recorded is None:",
        ),
        tests=(f"{_PLANS}::test_rows_that_are_not_those_committed_are_refused",),
    ),
    Mutation(
        "let pyiceberg repeat commits",
        Change(_ICEBERG_TABLE, '"commit.retry.num-retries": "0"', '"commit.retry.num-retries": "4"'),
        tests=(f"{_ICEBERG}::test_two_runs_of_one_generation_have_one_winner",),
    ),
    Mutation(
        "read the pointer before the table",
        Change(
            _ICEBERG_COMMIT,
            "                view = self._table.look(self._publisher.folder.day)\n"
            "                _, manifest = self._publisher.published()\n",
            "                _, manifest = self._publisher.published()\n"
            "                view = self._table.look(self._publisher.folder.day)\n",
        ),
        tests=(f"{_ICEBERG}::test_a_run_with_an_older_view_never_brings_an_older_generation_back",),
    ),
    Mutation(
        "give a table files without a mark",
        Change(
            _ICEBERG_COMMIT,
            '        self._publisher.table_marks.put(generation, self._short, msgspec.json.encode(mark) + b"\\n")\n',
            "",
        ),
        tests=(f"{_ICEBERG}::test_a_run_without_the_table_never_sweeps_what_the_table_names",),
    ),
    Mutation(
        "unmark a generation as soon as it is replaced",
        Change(
            _ICEBERG_COMMIT,
            "if recorded.committed_ms < self._clock.now_ms() - GRACE_MS:",
            "if recorded.committed_ms < self._clock.now_ms() + GRACE_MS:",
        ),
        tests=(f"{_ICEBERG}::test_a_run_without_the_table_never_sweeps_what_the_table_names",),
    ),
)
