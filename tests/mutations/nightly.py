"""Mutations of the nightly job: its reader, producers' and dropped records, and what `expire` leaves beside."""

from typing import Final

from tests.mutations.mutation import Mutation

_FOUND: Final = "tests/unit/compaction/audit/test_producers.py"
_LEFT_OUT: Final = "tests/unit/compaction/publish/test_left_out.py"
_IDS: Final = "tests/unit/compaction/tasks/test_event_ids.py"
_HISTORIES: Final = "tests/property/test_producer_copies.py"
_RECORD: Final = "tests/unit/archive/format/test_record.py"
_BLOCKS: Final = "tests/fuzz/test_fuzz_compaction.py::test_blocks_of_any_lines_read_as_the_lines_do"
_BESIDE: Final = "tests/unit/consumer/expire/test_side_objects.py"

NIGHTLY: Final = (
    Mutation(
        "take a block without looking at its lines' ends",
        "archive/format/record.py",
        "        if buffer[at - 1] != _CLOSE:\n            return None\n",
        "",
        (f"{_RECORD}::test_a_block_that_is_not_one_object_a_line_is_left_to_the_codec",),
    ),
    Mutation(
        "let a block begin with an empty line",
        "archive/format/record.py",
        'buffer.startswith(b"\\n") or ',
        "",
        (f"{_RECORD}::test_a_block_that_is_not_one_object_a_line_is_left_to_the_codec",),
    ),
    Mutation(
        "take as many objects as there are, whatever the lines",
        "archive/format/record.py",
        "return lines if len(lines) == count else None",
        "return lines",
        (f"{_RECORD}::test_a_block_that_is_not_one_object_a_line_is_left_to_the_codec",),
    ),
    Mutation(
        "read what an earlier block left in the buffer",
        "archive/format/record.py",
        "_decode_lines(memoryview(buffer)[:size])",
        "_decode_lines(buffer)",
        (f"{_RECORD}::test_a_block_gives_its_lines",),
    ),
    Mutation(
        "forget the line that a block ends in",
        "compaction/tasks/reading.py",
        "            _overwrite(buffer, 0, buffer[size - begun : size])\n            size = begun\n",
        "            size = begun = 0\n",
        (_BLOCKS,),
    ),
    Mutation(
        "forget the events of the day before",
        "compaction/tasks/event_ids.py",
        "    if len(day) < len(known):\n        first = known[0]\n    elif day:\n",
        "    if day:\n",
        (f"{_LEFT_OUT}::test_the_first_position_of_each_event_stays",),
    ),
    Mutation(
        "keep the copy that arrived first, whatever its position",
        "compaction/tasks/event_ids.py",
        "first = min((next(group) for _, group in shards), key=lambda one: one[3])",
        "first = min(day, key=lambda one: (one[3], bisect_right(layout.shards, one[1]))) if shards else day[0]",
        (f"{_HISTORIES}::test_of_each_event_exactly_the_first_record_stays",),
    ),
    Mutation(
        "let lines in doubt be originals",
        "compaction/tasks/event_ids.py",
        "known = [one for one in members if one[1] not in layout.excluded]",
        "known = list(members)",
        (f"{_FOUND}::test_an_object_in_doubt_is_nobodys_original",),
    ),
    Mutation(
        "take null for an id",
        "compaction/tasks/event_ids.py",
        "            if event_id is None:\n                missing += 1\n                continue\n",
        "            event_id = event_id or 'null'\n",
        (f"{_IDS}::test_an_id_is_what_the_consumer_takes_for_one",),
    ),
    Mutation(
        "count lines from the block instead of the piece",
        "compaction/tasks/event_ids.py",
        "self._lines[key] = begin + len(payloads)",
        "self._lines[key] = 0",
        (f"{_HISTORIES}::test_of_each_event_exactly_the_first_record_stays",),
    ),
    Mutation(
        "leave out the line after the copy",
        "compaction/tasks/event_ids.py",
        "keep[number - begin] = False",
        "keep[min(number - begin + 1, len(keep) - 1)] = False",
        (f"{_LEFT_OUT}::test_the_first_position_of_each_event_stays",),
    ),
    Mutation(
        "name the generation without the day before",
        "compaction/rewrite.py",
        'f"without repeated {options.event_id}", before.digest)',
        'f"without repeated {options.event_id}")',
        (f"{_LEFT_OUT}::test_whatever_changes_the_rows_makes_a_generation",),
    ),
    Mutation(
        "name the generation without the path of the id",
        "compaction/rewrite.py",
        'f"without repeated {options.event_id}"',
        '"without repeated"',
        (f"{_LEFT_OUT}::test_whatever_changes_the_rows_makes_a_generation",),
    ),
    Mutation(
        "pass over what the day before was published without",
        "compaction/producers/day_before.py",
        "    if manifest.removed:\n",
        "    if not manifest:\n",
        (f"{_LEFT_OUT}::test_an_expired_day_before_that_lacks_copies_is_doubt",),
    ),
    Mutation(
        "call a path that finds no id a pass",
        "compaction/producers/findings.py",
        '"unknown" if nothing else "pass"',
        '"pass"',
        (f"{_FOUND}::test_a_path_that_finds_no_id_at_all_proves_nothing",),
    ),
    Mutation(
        "pass over damage on the day before",
        "compaction/producers/copies.py",
        ' if others else ""',
        ' if not facts else ""',
        (f"{_FOUND}::test_damage_on_the_day_before_is_doubt",),
    ),
    Mutation(
        "bring every copy of a lost record back",
        "compaction/audit/dropped.py",
        "chosen.get(one.original) == (segment.key, one.position)",
        "one.original in chosen",
        (f"{_LEFT_OUT}::test_a_line_that_was_dropped_as_a_copy_of_nothing_comes_back",),
    ),
    Mutation(
        "hold a day that was repaired",
        "compaction/rewrite.py",
        "left = [one for one in audit.findings if not one.repaired]",
        "left = list(audit.findings)",
        (f"{_LEFT_OUT}::test_a_line_that_was_dropped_as_a_copy_of_nothing_comes_back",),
    ),
    Mutation(
        "put a line back behind the others",
        "compaction/tasks/plan.py",
        "found.append(unit._replace(merge=True, back=lines) if lines else unit)",
        "found += [unit, Unit(unit.pieces[:1], merge=True, back=lines)] if lines else [unit]",
        (f"{_LEFT_OUT}::test_a_line_that_was_dropped_as_a_copy_of_nothing_comes_back",),
    ),
    Mutation(
        "expire the watermarks of a segment that stays",
        "consumer/expire/side_objects.py",
        "slot is not None and slot not in left and",
        "slot is not None and",
        (f"{_BESIDE}::test_watermarks_of_a_segment_that_stays_can_be_read",),
    ),
    Mutation(
        "expire dropped lines that name a producer's number",
        "consumer/expire/side_objects.py",
        "(folder == WATERMARKS or self._names_positions(key))",
        "key",
        (f"{_BESIDE}::test_lines_that_name_a_producers_number_stay",),
    ),
    Mutation(
        "expire beside days that are not expired",
        "consumer/expire/side_objects.py",
        "tombstone_key(self.prefix, day)) is None:\n            return\n",
        "tombstone_key(self.prefix, day)) is None:\n            pass\n",
        (f"{_BESIDE}::test_nothing_goes_beside_a_day_without_tombstone",),
    ),
)
