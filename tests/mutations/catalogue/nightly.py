"""Mutations of the nightly job: its reader, producers' copies, and lines that were dropped."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_READING: Final = "compaction/tasks/reading.py"
_ID_ROWS: Final = "compaction/tasks/ids/rows.py"
_ID_COPIES: Final = "compaction/tasks/ids/copies.py"
_DROPPING: Final = "compaction/tasks/ids/dropping.py"
_TASK_PLAN: Final = "compaction/tasks/plan.py"
_MERGING: Final = "compaction/tasks/merging.py"
_TASK: Final = "compaction/tasks/task.py"
_DROPPED: Final = "compaction/rules/dropped.py"
_ORIGINALS: Final = "compaction/rules/originals.py"
_DAY_BEFORE: Final = "compaction/producers/day_before.py"
_COPIES: Final = "compaction/producers/copies.py"
_FINDINGS: Final = "compaction/producers/findings.py"
_REWRITE: Final = "compaction/rewrite.py"
_NAMING: Final = "compaction/naming.py"
_FINISHED: Final = "compaction/tasks/finished.py"
_PUBLISHABLE: Final = "compaction/verdict/publishable.py"

_FUZZ: Final = "tests/fuzz/test_fuzz_compaction.py"
_GONE: Final = "tests/unit/compaction/publish/test_gone_meanwhile.py"
_NUMBERS: Final = "tests/unit/compaction/audit/test_numbers_of_objects.py"
_LEFT_OUT: Final = "tests/unit/compaction/publish/test_left_out.py"
_BROUGHT_BACK: Final = "tests/unit/compaction/publish/test_brought_back.py"
_COPIES_HISTORIES: Final = "tests/property/test_producer_copies.py"
_FINDINGS_TESTS: Final = "tests/unit/compaction/audit/test_producers.py"
_SEARCH: Final = "tests/unit/compaction/audit/test_originals.py"
_PLAN: Final = "tests/unit/compaction/tasks/test_plan.py"
_MERGE: Final = "tests/unit/compaction/tasks/test_merging.py"
_IDS: Final = "tests/unit/compaction/tasks/test_event_ids.py"
_GOING_ON: Final = "tests/unit/compaction/publish/test_going_on.py"

NIGHTLY: Final = (
    Mutation(
        "take over what was read before its object was written again",
        Change(_FINISHED, 'f"parquet-{SCHEMA_VERSION}", str(newest_ms))', 'f"parquet-{SCHEMA_VERSION}")'),
        tests=(f"{_GOING_ON}::test_an_object_that_was_written_again_is_read_again",),
    ),
    Mutation(
        "take over a part that a sweep may take",
        Change(_FINISHED, "row.last_modified_ms >= since_ms and ", ""),
        tests=(f"{_GOING_ON}::test_a_day_old_part_is_left_to_the_sweep",),
    ),
    Mutation(
        "take over a part that lacks other lines",
        Change(_FINISHED, "finished is not None and finished.left_out == left_out and", "finished is not None and"),
        tests=(
            "tests/unit/compaction/publish/test_going_on_with_ids.py::test_a_part_that_left_other_lines_out_is_written_again",
        ),
    ),
    Mutation(
        "take over a part whose lines read otherwise now",
        Change(
            "compaction/tasks/task.py",
            "        if again.facts != done.facts:\n            raise _ReadsOtherwiseError\n",
            "",
        ),
        tests=(
            "tests/unit/compaction/publish/test_going_on_with_ids.py::test_facts_that_the_lines_do_not_bear_out_are_not_believed",
        ),
    ),
    Mutation(
        "take over a part of another generation",
        Change(_FINISHED, "if not is_ours or (part.rows", "if (part.rows"),
        tests=(f"{_GOING_ON}::test_facts_that_name_a_part_elsewhere_are_not_believed",),
    ),
    Mutation(
        "keep the facts of an object that could not be read",
        Change(_FINISHED, "if any(read.problem for read in finished.facts):", "if not finished.facts:"),
        tests=(f"{_GOING_ON}::test_a_task_with_an_object_that_cannot_be_read_leaves_no_facts",),
    ),
    Mutation(
        "forget the line that a block ends in",
        Change(
            _READING,
            "            _overwrite(buffer, 0, buffer[size - begun : size])\n            size = begun\n",
            "            size = begun = 0\n",
        ),
        tests=(f"{_FUZZ}::test_blocks_of_any_lines_read_as_the_lines_do",),
    ),
    Mutation(
        "forget the events of the day before",
        Change(
            _ID_COPIES,
            "            if held.first.number < self.layout.first_of_day:\n                return held.first\n",
            "            if held.first.number < self.layout.first_of_day:\n                continue\n",
        ),
        tests=(f"{_LEFT_OUT}::test_the_first_position_of_each_event_stays",),
    ),
    Mutation(
        "keep the copy that arrived first, whatever its position",
        Change(
            _ID_COPIES,
            "if its != shard and (best is None or held.arrival_ms < best.arrival_ms):",
            "if best is None or held.arrival_ms < best.arrival_ms:",
        ),
        tests=(f"{_COPIES_HISTORIES}::test_of_each_event_exactly_the_first_record_stays",),
    ),
    Mutation(
        "let lines in doubt be originals",
        Change(
            _ID_COPIES,
            "(held for held in self._all() if held.first.number not in self.layout.excluded)",
            "self._all()",
        ),
        tests=(f"{_FINDINGS_TESTS}::test_an_object_in_doubt_is_nobodys_original",),
    ),
    Mutation(
        "take null for an id",
        Change(
            _ID_ROWS,
            "            if event_id is None:\n                missing += 1\n                continue\n",
            "            event_id = event_id or 'null'\n",
        ),
        tests=(f"{_IDS}::test_an_id_is_what_the_consumer_takes_for_one",),
    ),
    Mutation(
        "count lines from the block instead of the object",
        Change(_ID_ROWS, "self._lines[key] = begin + len(payloads)", "self._lines[key] = 0"),
        tests=(f"{_COPIES_HISTORIES}::test_of_each_event_exactly_the_first_record_stays",),
    ),
    Mutation(
        "leave out the line after the copy",
        Change(_DROPPING, "keep[number - begin] = False", "keep[min(number - begin + 1, len(keep) - 1)] = False"),
        tests=(f"{_LEFT_OUT}::test_the_first_position_of_each_event_stays",),
    ),
    Mutation(
        "put a line back behind the others",
        Change(
            _TASK_PLAN,
            "found.append(group._replace(merge=True, restored=lines) if lines else group)",
            "found += [group, MergeGroup(group.objects[:1], merge=True, restored=lines)] if lines else [group]",
        ),
        tests=(f"{_BROUGHT_BACK}::test_a_line_that_was_dropped_as_a_copy_of_nothing_comes_back",),
    ),
    Mutation(
        "bring every copy of a lost record back",
        Change(_DROPPED, "chosen.get(copy.original) == (segment.key, copy.position)", "copy.original in chosen"),
        tests=(f"{_BROUGHT_BACK}::test_a_line_that_was_dropped_as_a_copy_of_nothing_comes_back",),
    ),
    Mutation(
        "pass over what the day before was published without",
        Change(_DAY_BEFORE, "if manifest.removed:", "if not manifest:"),
        tests=(f"{_LEFT_OUT}::test_an_expired_day_before_that_lacks_copies_is_doubt",),
    ),
    Mutation(
        "number the objects of a bucket anew in each",
        Change(
            "compaction/producers/collecting.py",
            "_replace(first_object=firsts[number])",
            "_replace(first_object=0)",
        ),
        tests=(f"{_LEFT_OUT}::test_the_first_position_of_each_event_stays",),
    ),
    Mutation(
        "number more objects than there are numbers",
        Change("compaction/producers/collecting.py", "    if objects > NUMBERS:\n", "    if not objects:\n"),
        tests=(f"{_NUMBERS}::test_days_of_more_objects_than_numbers_are_refused",),
    ),
    Mutation(
        "write a day without the rows of an object that has gone since it was read",
        Change("compaction/tasks/task.py", "if body is None and order.is_again:", "if False:"),
        tests=(f"{_GONE}::test_an_object_that_goes_before_it_is_written_again_ends_the_run",),
    ),
    Mutation(
        "let a task's objects take the next one's numbers",
        Change(_ID_ROWS, "if len(keys) > order.room or", "if"),
        tests=(f"{_NUMBERS}::test_a_task_with_more_objects_than_numbers_is_refused",),
    ),
    Mutation(
        "number the objects of a bucket that was listed again",
        Change("compaction/shards/seen.py", "    check_mark(rows, argument.mark)\n", ""),
        tests=("tests/unit/compaction/publish/test_listed_again.py::test_ids_of_another_listing_leave_nothing_out",),
    ),
    Mutation(
        "let what is damaged on the day before be an original",
        Change(_COPIES, "for some in (taking, earlier)", "for some in (taking,)"),
        tests=(f"{_FINDINGS_TESTS}::test_what_is_out_of_order_on_the_day_before_is_nobodys_original",),
    ),
    Mutation(
        "pass over damage on the day before",
        Change(_COPIES, 'if others else ""', 'if not taking else ""'),
        tests=(f"{_FINDINGS_TESTS}::test_damage_on_the_day_before_is_doubt",),
    ),
    Mutation(
        "call a path that finds no id a pass",
        Change(_FINDINGS, '"unknown" if nothing else "pass"', '"pass"'),
        tests=(f"{_FINDINGS_TESTS}::test_a_path_that_finds_no_id_at_all_proves_nothing",),
    ),
    Mutation(
        "name the generation without the day before",
        Change(
            _NAMING,
            'f"without repeated {options.event_id}", before.digest)',
            'f"without repeated {options.event_id}")',
        ),
        tests=(f"{_LEFT_OUT}::test_whatever_changes_the_rows_makes_a_generation",),
    ),
    Mutation(
        "name the generation without the path of the id",
        Change(_NAMING, 'f"without repeated {options.event_id}"', '"without repeated"'),
        tests=(f"{_LEFT_OUT}::test_whatever_changes_the_rows_makes_a_generation",),
    ),
    Mutation(
        "hold a day that was repaired",
        Change(
            _PUBLISHABLE,
            "left = [found for found in audit.findings if not found.repaired]",
            "left = list(audit.findings)",
        ),
        tests=(f"{_BROUGHT_BACK}::test_a_line_that_was_dropped_as_a_copy_of_nothing_comes_back",),
    ),
    Mutation(
        "an original is missing wherever nobody looked",
        Change(_ORIGINALS, "if reached is not None and links == {reached} else", "if reached is not None else"),
        tests=(
            f"{_SEARCH}::test_an_original_between_an_expired_day_and_today_is_not_missing",
            f"{_SEARCH}::test_an_original_whose_object_is_gone_stays_dropped",
        ),
    ),
    Mutation(
        "originals are looked for on the day alone",
        Change(_ORIGINALS, "for day in self._outward(sign) if left else ():", "for day in ():"),
        tests=(f"{_SEARCH}::test_an_original_19_hours_earlier_is_found",),
    ),
    Mutation(
        "tombstones are not asked for originals",
        Change(_ORIGINALS, "if day in self._expired.days:", "if False:"),
        tests=(f"{_SEARCH}::test_an_original_that_its_chain_passes_over_is_missing",),
    ),
    Mutation(
        "originals are looked for backwards alone",
        Change(_ORIGINALS, "        self._walk(later, 1)\n", ""),
        tests=(f"{_SEARCH}::test_an_original_of_the_next_day_is_found",),
    ),
    Mutation(
        "a line outside its object's span draws others in",
        Change(
            _TASK_PLAN,
            "low, high = (min(max(end, said.first), said.last) for end in (read.low, read.high))",
            "low, high = read.low, read.high",
        ),
        tests=(f"{_PLAN}::test_a_line_outside_its_objects_span_draws_no_other_object_in",),
    ),
    Mutation(
        "every object of a group is compared with all before it",
        Change(
            _TASK_PLAN, "reached = max(reached, span.high)", "reached = max(earlier.high for earlier in touching)"
        ),
        tests=(f"{_PLAN}::test_grouping_takes_a_sort_and_one_sweep",),
    ),
    Mutation(
        "a group ends where its last object ends",
        Change(_TASK_PLAN, "reached = max(reached, span.high)", "reached = span.high"),
        tests=(f"{_PLAN}::test_objects_that_touch_are_one_group",),
    ),
    Mutation(
        "all objects of a group are opened at once",
        Change(
            _MERGING, "(source.low, source.raw_object.key, number)", "(Position(0), source.raw_object.key, number)"
        ),
        tests=(f"{_MERGE}::test_only_what_overlaps_is_open",),
    ),
    Mutation(
        "an object out of order is merged as it stands",
        Change(_TASK, "if raw_object.key not in group.unsorted:", "if True:"),
        tests=(f"{_PLAN}::test_lines_out_of_order_are_sorted_in_the_parquet",),
    ),
)
