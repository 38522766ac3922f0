"""Mutations of runs of many days, of what removes leftovers of them, and of reading the stream again in slices."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_SIDE: Final = "compaction/days/side_by_side.py"
_STOP: Final = "compaction/days/stop.py"
_OUTCOME: Final = "compaction/days/outcome.py"
_MEMORY: Final = "compaction/inventory/memory.py"
_VACUUM: Final = "compaction/vacuum/day.py"
_PUBLISHER: Final = "compaction/publish/publisher.py"
_DAYS: Final = "tests/unit/compaction/days/test_side_by_side.py"
_KINESIS: Final = "compaction/stream/kinesis.py"
_PACE: Final = "compaction/stream/pace.py"
_LEVEL: Final = "compaction/comparison/level.py"
_SLICES: Final = "compaction/comparison/slices.py"
_READ: Final = "tests/unit/compaction/stream/test_reading.py"
_COMPARED: Final = "tests/unit/compaction/comparison/test_level.py"
_LEFT: Final = "tests/unit/compaction/vacuum/test_left_alone.py"
_CLEARED: Final = "tests/unit/compaction/vacuum/test_vacuum.py"

DAYS: Final = (
    Mutation(
        "let a day's error end the days behind it",
        Change(_SIDE, "if done.error is not None and not isinstance(done.error, MinutebookError):", "if done.error:"),
        tests=(f"{_DAYS}::test_a_day_that_fails_fails_alone",),
    ),
    Mutation(
        "swallow a fault of the program in a run of many days",
        Change(_SIDE, "    if fault is not None:\n        raise fault\n", ""),
        tests=(f"{_DAYS}::test_a_fault_of_the_program_is_raised_and_no_day_begins_after_it",),
    ),
    Mutation(
        "begin the days that are left when the run was asked to end",
        Change(_SIDE, "        stop.check()\n        given", "        given"),
        tests=(f"{_DAYS}::test_no_day_begins_once_the_run_is_to_end",),
    ),
    Mutation(
        "leave Spark's jobs running when the run is to end",
        Change(_SIDE, "                cancel()", "                pass"),
        tests=(f"{_DAYS}::test_a_stop_ends_days_at_work_and_begins_no_other",),
    ),
    Mutation(
        "sleep through a signal",
        Change(_STOP, "            self._stop.check()\n            self._clock", "            self._clock"),
        Change(_STOP, "min(left, _TICK_SECONDS)", "left"),
        tests=(f"{_DAYS}::test_nobody_sleeps_on_once_the_run_is_to_end",),
    ),
    Mutation(
        "let a refused day hide another day's defects",
        Change(_OUTCOME, "(1, 3, 6, 2, 5, 4, 0)", "(1, 6, 2, 3, 5, 4, 0)"),
        tests=(f"{_DAYS}::test_the_worst_day_gives_the_exit_code",),
    ),
    Mutation(
        "keep what a finished day held",
        Change(_MEMORY, "    gc.unfreeze()\n", ""),
        tests=(f"{_DAYS}::test_what_a_day_held_is_given_back",),
    ),
    Mutation(
        "let vacuum take the generation that a query may have begun on",
        Change(_VACUUM, "publisher.written_ms(pointer) >= before_ms", "publisher.written_ms(pointer) < 0"),
        tests=(f"{_CLEARED}::test_while_the_pointer_is_young_all_stays",),
    ),
    Mutation(
        "let vacuum take what a table names",
        Change(_VACUUM, "marked = publisher.table_marks.generations()", "marked = frozenset[str]()"),
        tests=(f"{_CLEARED}::test_what_a_table_may_name_stays",),
    ),
    Mutation(
        "let vacuum take what the symlinks still name",
        Change(_VACUUM, "row.key.removeprefix(folder.root) not in symlinked and not", "not"),
        tests=(f"{_CLEARED}::test_what_the_symlinks_still_name_stays",),
    ),
    Mutation(
        "let vacuum clear an expired day that has lost its pointer",
        Change(_VACUUM, " and not has_raw(folder.day):", " and False:"),
        tests=(f"{_LEFT}::test_a_damaged_day_is_left_alone",),
    ),
    Mutation(
        "believe the date of a pointer that somebody put back",
        Change(_PUBLISHER, "0 if head is None else head.last_modified_ms", "0"),
        tests=(f"{_CLEARED}::test_a_pointer_that_was_put_back_is_young",),
    ),
    Mutation(
        "let vacuum take what others put beside ours",
        Change("compaction/publish/sweep.py", " and folder.is_of_a_run(row.key)", ""),
        tests=(f"{_CLEARED}::test_what_others_put_among_ours_stays",),
    ),
    Mutation(
        "let a further slice stand where the day began",
        Change(_KINESIS, "max(log.since_ms, reach.created_ms) if reach.at is None else None", "max(log.since_ms, 0)"),
        tests=(f"{_READ}::test_slices_go_on_where_the_day_began_longer_ago_than_the_stream_keeps",),
    ),
    Mutation(
        "let vacuum clear a day whose published files are gone",
        Change(_VACUUM, "sizes.get(file.key) != file.bytes", "sizes.get(file.key) == -1"),
        tests=(f"{_LEFT}::test_a_damaged_day_is_left_alone",),
    ),
    Mutation(
        "let vacuum take where chains stood",
        Change(_VACUUM, "inventory_beside(key), ends_beside(key), tasks", "inventory_beside(key), tasks"),
        tests=(f"{_CLEARED}::test_the_generation_before_goes_with_all_that_is_its",),
    ),
    Mutation(
        "let vacuum take the audit that the pointer names",
        Change(_VACUUM, "pointer.audit or audit_beside(key), inventory", "inventory"),
        Change(_VACUUM, "named |= {manifest.audit, *", "named |= {*"),
        tests=(f"{_CLEARED}::test_the_generation_before_goes_with_all_that_is_its",),
    ),
    Mutation(
        "let vacuum leave a pointer without its audit",
        Change(
            _VACUUM,
            "    if stored is not None:\n        storage.put_if_absent",
            "    if stored is None:\n        storage.put_if_absent",
        ),
        tests=(f"{_CLEARED}::test_an_old_audit_that_a_pointer_names_again_is_there",),
    ),
    Mutation(
        "swap a pointer to an audit that vacuum is deleting",
        Change(_PUBLISHER, "            self.storage.put_if_absent(*self._audit)\n", "            pass\n"),
        tests=(f"{_CLEARED}::test_a_swap_puts_its_audit_again",),
    ),
    Mutation(
        "give up the upload of a run at work",
        Change(_VACUUM, "upload.started_ms < before_ms and ", ""),
        tests=(f"{_CLEARED}::test_an_unfinished_upload_is_given_up",),
    ),
    Mutation(
        "believe that a slice begins where the one before it ended",
        Change(
            _KINESIS, "log.is_broken = reach.at is not None and record.sequence != reach.at", "log.is_broken = False"
        ),
        tests=(f"{_READ}::test_a_slice_that_does_not_begin_where_the_one_before_ended_is_broken",),
    ),
    Mutation(
        "believe that nothing leaves the stream in front of a slow reader",
        Change(_KINESIS, "stood_ms <= now_ms - reach.retention_ms:", "stood_ms <= 0:"),
        tests=(f"{_READ}::test_a_reading_that_retention_overtakes_is_broken",),
    ),
    Mutation(
        "read on in an aggregate from its first record",
        Change(_KINESIS, "if (reach.start is None or position >= reach.start) and (", "if ("),
        tests=(f"{_READ}::test_slices_are_what_one_reading_is",),
    ),
    Mutation(
        "take all of a shard's bytes from its consumers",
        Change(_PACE, "size / (BYTES_A_SECOND * self._share)", "size / (BYTES_A_SECOND * 100)"),
        tests=(f"{_READ}::test_a_reading_takes_its_share_and_no_more",),
    ),
    Mutation(
        "cut a shard within overlapping segments",
        Change(_SLICES, " and reached is not None and reached < first", " and reached is not None"),
        tests=(f"{_COMPARED}::test_a_cut_lies_where_everything_before_it_has_ended",),
    ),
    Mutation(
        "mark a sample as if the day had been read",
        Change(_LEVEL, "{} if window.is_sample else whole)", "whole)"),
        tests=(f"{_COMPARED}::test_a_sample_writes_no_mark_and_says_what_it_left_out",),
    ),
    Mutation(
        "mark a shard that was not read in one unbroken piece",
        Change(_LEVEL, "if not result.error and not result.log.is_broken\n", "if not result.error\n"),
        tests=(f"{_COMPARED}::test_what_retention_took_in_front_of_the_reader_is_not_foreign",),
    ),
    Mutation(
        "mark a shard that could not be read",
        Change(_LEVEL, "if not result.error and not result.log.is_broken\n", "if not result.log.is_broken\n"),
        tests=(f"{_COMPARED}::test_a_shard_that_cannot_be_read_leaves_the_other_compared",),
    ),
)
