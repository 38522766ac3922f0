"""Mutations of reading: which files are a day, which records are shown, and what the catalog learns."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_DAYS: Final = "minutebook/reader/days.py"
_ARROW: Final = "minutebook/reader/arrow.py"
_MERGING: Final = "minutebook/cat/merging.py"
_BODIES: Final = "minutebook/cat/bodies.py"
_COMMAND: Final = "minutebook/cat/command.py"
_OUTPUT: Final = "minutebook/cat/output.py"
_REGISTER: Final = "compaction/glue/register.py"

_READ: Final = "tests/unit/minutebook/reader/test_read.py"
_CAT: Final = "tests/unit/minutebook/cat/test_cat.py"
_GLUE: Final = "tests/unit/compaction/glue/test_register.py"

READING: Final = (
    Mutation(
        "believe a clean verdict that older rules gave",
        Change(
            _DAYS, "return pointer.verdict if is_judged_today(pointer)", "return pointer.verdict if pointer.rules"
        ),
        tests=(f"{_READ}::test_a_verdict_that_was_not_asked_for_is_never_left_out_quietly",),
    ),
    Mutation(
        "leave a day out that is not published, without a word",
        Change(_DAYS, 'if left_out and missing == "error":', 'if left_out and missing == "":'),
        tests=(f"{_READ}::test_a_day_that_is_not_published_is_an_error_unless_it_may_be_left_out",),
    ),
    Mutation(
        "read a file that is not the published one",
        Change(_ARROW, "if (size := opened.size()) != self.sizes.get(path):", "if (size := opened.size()) < 0:"),
        tests=(f"{_READ}::test_a_file_of_another_size_is_not_the_published_one",),
    ),
    Mutation(
        "open a segment when the one before is over, and take what overlaps for shown",
        Change(
            _MERGING,
            "if not active or (begins is not None and begins <= active[0].position):",
            "if not active:",
        ),
        tests=(f"{_CAT}::test_overlapping_segments_show_each_position_once_and_lose_none",),
    ),
    Mutation(
        "show a record twice that lies in two segments",
        Change(_MERGING, "reader.position <= last.record.position", "reader.position < last.record.position"),
        tests=(f"{_CAT}::test_overlapping_segments_show_each_position_once_and_lose_none",),
    ),
    Mutation(
        "believe the name of a segment whose records come before it",
        Change(_BODIES, "if position < segment.parsed.first:", "if position.sequence < 0:"),
        tests=(f"{_CAT}::test_a_record_before_the_name_of_its_segment_is_no_duplicate",),
    ),
    Mutation(
        "show a record again when its stream was begun again",
        Change(_BODIES, "if last is None or position > last:", "if position.sequence >= 0:"),
        tests=(f"{_CAT}::test_a_large_body_is_read_as_it_comes_and_goes_on_where_it_broke",),
    ),
    Mutation(
        "show what arrived at the end of the span",
        Change(_COMMAND, "<= record.arrival_ms < request.to_ms", "<= record.arrival_ms <= request.to_ms"),
        tests=(f"{_CAT}::test_the_span_begins_with_its_first_moment_and_ends_before_its_last",),
    ),
    Mutation(
        "show records of another stream before that is known",
        Change(_COMMAND, "            if not shown:\n                is_ours.result()\n", ""),
        tests=(f"{_CAT}::test_another_streams_archive_is_refused",),
    ),
    Mutation(
        "say nothing of records under another minute than their own",
        Change(_COMMAND, "            troubles.misplaced(found)\n", "            pass\n"),
        tests=(f"{_CAT}::test_a_record_under_another_minute_than_its_own_is_told",),
    ),
    Mutation(
        "take an expired day for an empty one",
        Change(
            _COMMAND,
            "        if listed.expired is not None:",
            "        if listed.expired is not None and listed.foreign:",
        ),
        tests=(f"{_CAT}::test_an_expired_day_is_no_empty_day",),
    ),
    Mutation(
        "let a payload talk to the terminal",
        Change(_OUTPUT, "_LINES[request.form, stdout.isatty()]", "_LINES[request.form, False]"),
        tests=(f"{_CAT}::test_nothing_that_a_producer_writes_reaches_a_terminal_as_it_is",),
    ),
    Mutation(
        "write into somebody else's table of the catalog",
        Change(_REGISTER, "                self._check_ours(found, location)\n", ""),
        tests=(f"{_GLUE}::test_somebody_elses_table_is_left_alone",),
    ),
    Mutation(
        "change a table that was changed since it was read",
        Change(
            _REGISTER,
            "            if error_code(exc) == code:\n                return False\n",
            "            if error_code(exc) == code:\n                return True\n",
        ),
        tests=(f"{_GLUE}::test_two_runs_that_bring_a_column_each_leave_both",),
    ),
    Mutation(
        "register a day whose columns the catalog's table has as others",
        Change(_REGISTER, "if whole.conflicts or whole.columns == present:", "if whole.columns == present:"),
        Change(_REGISTER, "        if conflicts:\n", "        if not conflicts and conflicts:\n"),
        tests=(f"{_GLUE}::test_a_column_of_another_type_holds_the_day_back_from_the_catalog",),
    ),
)
