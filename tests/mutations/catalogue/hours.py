"""Mutations of hours that are published by themselves, and of the night that takes them over."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_TAKING: Final = "compaction/hours/taking.py"
_PUBLISHED: Final = "compaction/hours/published.py"
_FINISHED: Final = "compaction/tasks/finished.py"
_KEPT_IDS: Final = "compaction/tasks/ids/kept.py"
_NAMING: Final = "compaction/naming.py"
_NEIGHBOURS: Final = "compaction/inventory/neighbours.py"
_READER: Final = "minutebook/reader/hours.py"

_TAKING_OVER: Final = "tests/unit/compaction/hours/test_taking_over.py"
_AN_HOUR: Final = "tests/unit/compaction/hours/test_an_hour.py"
_IDS: Final = "tests/unit/compaction/hours/test_ids.py"
_KEPT: Final = "tests/unit/compaction/tasks/test_kept_ids.py"
_READERS: Final = "tests/unit/compaction/hours/test_readers.py"

HOURS: Final = (
    Mutation(
        "take an hour over whatever its objects are now",
        Change(
            _TAKING,
            "if pointer.generation != source.generation(digest, manifest.event_id) or manifest.inventory != digest",
            "if not pointer.generation or not digest",
        ),
        tests=(f"{_TAKING_OVER}::test_other_settings_take_nothing_over",),
    ),
    Mutation(
        "take a part over that was written again",
        Change(
            _FINISHED,
            "if head is None or (head.size, head.etag) != (part.size, part.etag):",
            "if head is None or head.size != part.size:",
        ),
        Change(_FINISHED, "new_key, found.part.etag)", "new_key, (out.head(found.part.key) or found.part).etag)"),
        tests=(f"{_TAKING_OVER}::test_a_part_that_was_written_again_is_not_taken_over",),
    ),
    Mutation(
        "believe the list of an hour's tasks",
        Change(_TAKING, "if sorted(set(found)) != found or (", "if not found and ("),
        tests=(f"{_TAKING_OVER}::test_a_list_of_tasks_that_does_not_fit_is_passed_over",),
    ),
    Mutation(
        "name an hour's generation without the level of compression",
        Change(_NAMING, '"an hour", f"zstd-{zstd_level}",', '"an hour",'),
        tests=(f"{_TAKING_OVER}::test_other_settings_take_nothing_over",),
    ),
    Mutation(
        "let the hours of a day so far give way",
        Change(_PUBLISHED, "if pointer is None or pointer.until is not None else", "if pointer is None else"),
        tests=(f"{_TAKING_OVER}::test_the_part_of_a_day_so_far_takes_whole_hours_over",),
    ),
    Mutation(
        "leave the pointers of hours beside the day's",
        Change(_PUBLISHED, "    storage.delete(left)\n", ""),
        tests=(f"{_TAKING_OVER}::test_the_day_is_that_of_a_night_without_hours",),
    ),
    Mutation(
        "look for an hour's neighbours in other days alone",
        Change(_NEIGHBOURS, "* sign > 0 or other in own)", "* sign > 0)"),
        tests=(f"{_AN_HOUR}::test_a_broken_link_into_an_hour_is_its_defect",),
    ),
    Mutation(
        "tell of misfits in the order of files",
        Change(
            "compaction/typed/counts.py",
            "tuple(sorted({*known.positions, *sample.positions})[:SAMPLES])",
            "(*known.positions, *sample.positions)[:SAMPLES]",
        ),
        tests=(f"{_TAKING_OVER}::test_payloads_that_do_not_fit_are_told_in_the_order_of_a_night_without_hours",),
    ),
    Mutation(
        "take the nearest folder's segment for the nearest one",
        Change(_NEIGHBOURS, "    _look_beyond_edges(place, side)\n", ""),
        tests=(f"{_AN_HOUR}::test_times_that_step_back_over_a_full_hour_break_no_chain_of_a_quiet_one",),
    ),
    Mutation(
        "read a day's pointer once, and then its hours",
        Change(_READER, "        if again == day:\n", "        if again == day or hours:\n"),
        tests=(f"{_READERS}::test_a_day_that_is_published_while_its_hours_are_read_is_read_instead",),
    ),
    Mutation(
        "read the hours of a day that is whole",
        Change(_READER, "        if day is not None and day.until is None:\n            return day\n", ""),
        tests=(f"{_READERS}::test_a_published_day_is_read_without_its_hours",),
    ),
    Mutation(
        "believe kept ids whatever their bytes are",
        Change(
            _KEPT_IDS, 'if hashlib.file_digest(file, "sha256").hexdigest() != kept.sha256:', "if not kept.sha256:"
        ),
        tests=(f"{_KEPT}::test_ids_of_other_bytes_are_not_looked_at",),
    ),
    Mutation(
        "take the ids of another path",
        Change(_KEPT_IDS, "kept.expression, len(kept.without)) !=", "expression, len(kept.without)) !="),
        tests=(f"{_IDS}::test_an_hour_that_kept_no_ids_has_its_lines_read_and_its_files_copied",),
    ),
    Mutation(
        "copy an hour's part with the copies in it",
        Change("compaction/tasks/task.py", "if order.taken and not left_out:", "if order.taken:"),
        tests=(f"{_IDS}::test_only_parts_that_hold_copies_are_written_again",),
    ),
    Mutation(
        "name an hour's generation without the path of its ids",
        Change(_NAMING, 'f"zstd-{zstd_level}", *kept)', 'f"zstd-{zstd_level}")'),
        tests=(f"{_IDS}::test_an_hour_is_published_anew_when_its_ids_are_asked_for",),
    ),
    Mutation(
        "number objects in the order of hours",
        Change(
            "compaction/shards/seen.py",
            "ordered = sorted_groups(group for given in groups for group in given)",
            "ordered = [group for given in groups for group in given]",
        ),
        tests=(f"{_IDS}::test_the_same_copies_are_found_as_by_a_night_without_hours",),
    ),
)
