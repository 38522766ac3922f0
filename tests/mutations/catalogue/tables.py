"""What others do to tables of published days, and what a night then must not do."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_NAMES: Final = "compaction/iceberg/names.py"
_FAILURES: Final = "compaction/iceberg/failures.py"
_NAMED: Final = "tests/unit/compaction/iceberg/test_names.py"
_FAILED: Final = "tests/integration/compaction/test_iceberg_failures.py"
_EVENTS: Final = "tests/integration/compaction/test_iceberg_events.py"
_CONFLICTS: Final = "tests/integration/compaction/test_iceberg_conflicts.py"

TABLES: Final = (
    Mutation(
        "give a new column the values of a renamed one",
        Change(_NAMES, 'return f"it renamed to {now}"', 'return ""'),
        tests=(f"{_NAMED}::test_a_renamed_name_stays_with_its_column",),
    ),
    Mutation(
        "let a new column read files that have another type",
        Change(_NAMES, "if was is not None and holds(comes, was):", "if holds(comes, comes):"),
        tests=(f"{_NAMED}::test_a_dropped_name_comes_back_with_a_type_that_reads_its_files",),
    ),
    Mutation(
        "read partitions off bounds that the table does not keep",
        Change("compaction/iceberg/table.py", "for name in (ARRIVAL, EVENT_TIME)), ", "for name in ()), "),
        tests=(f"{_EVENTS}::test_rows_lie_in_their_partition_whatever_bounds_the_table_keeps",),
    ),
    Mutation(
        "replace what another output committed",
        Change(
            "compaction/iceberg/plan.py",
            "recorded.manifest and not recorded.manifest.startswith(target.folder)",
            "not recorded.manifest.startswith('')",
        ),
        tests=("tests/unit/compaction/iceberg/test_plan.py::test_a_commit_of_another_output_is_never_replaced",),
    ),
    Mutation(
        "let a damaged table end the run of all days",
        Change(_FAILURES, "except _UNREADABLE as exc:", "except () as exc:"),
        tests=(f"{_FAILED}::test_a_damaged_table_is_refused_and_ends_no_other_day",),
    ),
    Mutation(
        "let a table that is dropped during a commit end the run of all days",
        Change(_FAILURES, "    *(NoSuchTableError, NoSuchNamespaceError),\n", ""),
        tests=(f"{_FAILED}::test_a_table_that_is_dropped_during_a_commit_is_made_again",),
    ),
    Mutation(
        "hold a day that is in the table when its snapshot is expired",
        Change("compaction/iceberg/commit.py", "return is_ours and sum(", "return is_ours and 0 > sum("),
        tests=(f"{_CONFLICTS}::test_a_day_that_is_there_is_not_held_when_its_snapshot_is_expired",),
    ),
    Mutation(
        "keep a day out of Glue's catalog when another one refuses it",
        Change(
            "compaction/rewrite.py",
            "            self._register()  # one catalog's trouble keeps the day out of no other\n",
            "",
        ),
        tests=(f"{_CONFLICTS}::test_a_refusal_of_one_catalog_keeps_the_day_out_of_no_other",),
    ),
    Mutation(
        "register two columns whose names differ in case alone",
        Change("compaction/glue/table.py", "before = found.get(column.name.lower(), column)", "before = column"),
        tests=("tests/unit/compaction/glue/test_register.py::test_names_that_differ_in_case_alone_are_one_column",),
    ),
)
