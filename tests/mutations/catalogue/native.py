"""Mutations of the native codec, and of what takes lines that it wrote."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_TEXT: Final = "archive/native/src/text.h"
_BASE64: Final = "archive/native/src/base64.h"
_WRITE: Final = "archive/native/src/write_lines.c"
_READ: Final = "archive/native/src/read_lines.c"
_QUOTES: Final = "archive/native/src/quotes.h"
_JSON: Final = "archive/native/src/json.h"
_VALUES: Final = "archive/native/src/values.h"
_DOCUMENTS: Final = "archive/native/src/read_documents.c"
_KEYS: Final = "archive/native/src/keys.h"
_QUOTED: Final = "tests/unit/archive/native/test_quotes.py"
_EVERY_QUOTE: Final = (
    f"{_QUOTED}::test_every_few_characters_at_every_place_of_a_block",
    f"{_QUOTED}::test_what_is_no_text_is_left_to_python",
)
_ARCHIVER: Final = "consumer/processor/archiver.py"
_COST: Final = "tests/unit/archive/native/test_documents.py"
_TWICE: Final = f"{_COST}::test_a_key_that_is_there_twice_leaves_the_row"
_SANITIZED: Final = "tests/fuzz/test_fuzz_native.py::test_damaged_text_under_sanitizers"
_TAKING: Final = "tests/unit/consumer/processor/test_written_pieces.py"
_SAME: Final = f"{_TAKING}::test_the_archive_is_the_same_with_and_without_the_codec"
_ROWS: Final = "tests/property/test_straight_rows.py"
_VALUE: Final = f"{_ROWS}::test_every_value_in_every_column"

_KNOWN: Final = "    keys->count = at; /* those before it differ, whatever it is */\n"
_UNLESS_ARCHIVED: Final = """\
        if is_archived:
            self._saw_archived()
        else:
            self._open_buffer(minute, measured"""


NATIVE: Final = (
    Mutation(
        "keep Python's lock while the codec works",
        Change("archive/native/library.py", "library = ctypes.CDLL(", "library = ctypes.PyDLL("),
        tests=("tests/unit/archive/native/test_library.py::test_other_threads_run_while_a_library_works",),
    ),
    Mutation(
        "write a line without looking for room",
        Change(
            _WRITE, "record->arrival.size + NAMES_SIZE) {", "record->arrival.size + NAMES_SIZE && prefix.size == 0) {"
        ),
        tests=(_SANITIZED,),
    ),
    Mutation(
        "write a payload without looking for room",
        Change(_WRITE, "if (room(writer) < BLOCK + LONGEST_ESCAPE) {", "if (room(writer) == 0) {"),
        tests=(_SANITIZED,),
    ),
    Mutation(
        "read a block behind the end of the text",
        Change(
            _TEXT,
            "for (; end - at >= BLOCK; at += BLOCK) {\n        const size_t first = first_of(unusual",
            "for (; end > at; at += BLOCK) {\n        const size_t first = first_of(unusual",
        ),
        tests=(_SANITIZED,),
    ),
    Mutation(
        "copy a block of quoted text from behind the end",
        Change(_QUOTES, "while (end - copy.from >= BLOCK) {", "while (end > copy.from) {"),
        tests=(_SANITIZED,),
    ),
    Mutation(
        "leave a backslash where what it escapes is in the next block",
        Change(_QUOTES, "size -= size > 0 && (slashes >> (size - 1) & 1);", ""),
        tests=_EVERY_QUOTE,
    ),
    Mutation(
        "pass a quote that ends the text",
        Change(_QUOTES, "((slashes << 1) ^ quotes)", "((slashes << 1) & ~quotes)"),
        tests=_EVERY_QUOTE,
    ),
    Mutation(
        "copy what is no ASCII between quotes unseen",
        Change(_QUOTES, "(others | ((slashes << 1) ^ quotes)) & 0xFFFF", "((slashes << 1) ^ quotes) & 0xFFFF"),
        tests=_EVERY_QUOTE,
    ),
    Mutation(
        "put the second half of a block behind the backslashes of the first",
        Change(_QUOTES, "copy.into + HALF - __builtin_popcount(low)", "copy.into + HALF"),
        tests=_EVERY_QUOTE,
    ),
    Mutation(
        "fill more rows than there is room for",
        Change(_READ, "if (table.rows == into->most_rows || ", "if ("),
        tests=(_SANITIZED,),
    ),
    Mutation(
        "take base64 whose last bits say something",
        Change(_BASE64, "return padding == 0 || (bits & (padding == 1 ? 0xFF : 0xFFFF)) == 0;", "return true;"),
        tests=(_SANITIZED,),
    ),
    Mutation(
        "take a surrogate for a character",
        Change(_TEXT, "is_surrogate = lead == 0xED && at[1] > 0x9F;", "is_surrogate = false;"),
        tests=(_SANITIZED,),
    ),
    Mutation(
        "take records that do not ascend for records that do",
        Change(_WRITE, "(seen->records > 0 && !is_behind(&record, &before))", "seen->records < 0"),
        tests=(_SANITIZED,),
    ),
    Mutation(
        "take lines across the next minute",
        Change(
            _ARCHIVER,
            "if minute != minute_of(measured.arrival_max_ms):",
            "if minute > minute_of(measured.arrival_max_ms):",
        ),
        tests=(_SAME,),
    ),
    Mutation(
        "take lines across a stored range",
        Change(_ARCHIVER, " or (bound is not None and last >= bound):", ":"),
        tests=(_SAME,),
    ),
    Mutation(
        "take lines into a segment that is full",
        Change(_ARCHIVER, "if measured.payload_bytes > self._room or", "if"),
        tests=(_SAME,),
    ),
    Mutation(
        "take lines behind what was delivered in any order",
        Change(_ARCHIVER, "        check_order(self.shard_id, first, self.delivered)\n", ""),
        tests=(f"{_TAKING}::test_lines_that_were_delivered_before_stop_the_shard",),
    ),
    Mutation(
        "archive lines that are archived",
        Change(
            _ARCHIVER,
            _UNLESS_ARCHIVED,
            _UNLESS_ARCHIVED.replace("is_archived", "False"),
        ),
        tests=(_SAME,),
    ),
    Mutation(
        "take the last of two equal keys of a payload",
        Change(_DOCUMENTS, "if (!is_new_key(", "if (0 && !is_new_key("),
        tests=(f"{_ROWS}::test_a_key_that_is_there_twice_is_found_however_usual_its_object_is",),
    ),
    Mutation(
        "take the last of two equal keys of a large object",
        Change(_KEYS, "if (is_same(keys[there - 1], keys[number])) {", "if (0) {"),
        tests=(_TWICE,),
    ),
    Mutation(
        "believe the keys of the row before",
        Change(_DOCUMENTS, _KNOWN, ""),
        Change(
            _DOCUMENTS, "    keys->count = at + 1;\n", "    keys->count = at < keys->count ? keys->count : at + 1;\n"
        ),
        tests=(f"{_ROWS}::test_a_key_that_is_there_twice_is_found_however_usual_its_object_is",),
    ),
    Mutation("believe the keys of a row that was refused", Change(_DOCUMENTS, _KNOWN, ""), tests=(_TWICE,)),
    Mutation(
        "compare each key with all before it",
        Change(_KEYS, "count <= FEW_KEYS", "count <= MOST_KEYS"),
        tests=(f"{_COST}::test_the_keys_of_a_large_object_take_the_time_of_as_many_in_small_ones",),
    ),
    Mutation(
        "compare a key with all that it meets",
        Change(_KEYS, "probe < MOST_PROBES", "probe < SLOTS"),
        tests=(f"{_COST}::test_keys_that_were_chosen_to_meet_are_left_to_python",),
    ),
    Mutation(
        "keep what the longest list of each column took",
        Change("archive/native/documents.py", "        self._memory.give_back()\n", ""),
        tests=(f"{_COST}::test_long_lists_in_one_column_after_the_other_take_the_memory_of_one",),
    ),
    Mutation(
        "take a null where a value is required",
        Change(_DOCUMENTS, "if (column->is_required && !", "if (column->is_required && 0 && !"),
        tests=(f"{_ROWS}::test_a_column_that_is_required",),
    ),
    Mutation(
        "let a list that was refused leave its elements",
        Change(
            _DOCUMENTS,
            "column->is_list ? column->list_offsets[rows] : rows;",
            "column->is_list ? column->values.count : rows;",
        ),
        tests=(f"{_ROWS}::test_rows_that_are_left_go_back_to_their_places",),
    ),
    Mutation(
        "keep JSON that an encoder writes otherwise",
        Change(_DOCUMENTS, "|| document->odd != odd) {", "|| document->odd < odd) {"),
        tests=(_VALUE,),
    ),
    Mutation(
        "take what lies behind a payload",
        Change(
            _DOCUMENTS,
            "    if (document->reader.at != document->reader.end) {",
            "    if (document->reader.at > document->reader.end) {",
        ),
        tests=(f"{_ROWS}::test_what_is_no_object_is_left",),
    ),
    Mutation(
        "take half a surrogate pair",
        Change(_JSON, "if (low < 0xDC00 || low > 0xDFFF) {", "if (low < 0) {"),
        tests=(_VALUE,),
    ),
    Mutation(
        "read more digits than a number holds",
        Change(
            _JSON, "number->is_long |= before + (at - first) > MOST_WHOLE_DIGITS;", "number->is_long |= 0 * before;"
        ),
        tests=(_VALUE,),
    ),
    Mutation(
        "take a number with leading zeros",
        Change(_JSON, "if (before == 0 || (lead == '0' && before > 1)) {", "if (before == 0 || lead == 0) {"),
        tests=(_VALUE,),
    ),
    Mutation(
        "round a double twice",
        Change(
            _VALUES, "number->digits > MOST_EXACT || power < -22 || power > 22) {", "power < -22 || power > 22) {"
        ),
        tests=(_VALUE,),
    ),
    Mutation(
        "lose digits behind the point of a decimal",
        Change(_VALUES, "number->exponent != 0 || number->behind > values->scale) {", "number->exponent != 0) {"),
        tests=(_VALUE,),
    ),
    Mutation(
        "take a decimal of more digits than its type",
        Change(
            _VALUES,
            "if (significant(number->digits) + more > values->precision) {",
            "if (more > values->precision) {",
        ),
        tests=(_VALUE,),
    ),
    Mutation(
        "take days that no calendar has",
        Change(_VALUES, "LENGTHS[month - 1] + (month == 2 && is_leap)) {", "31) {"),
        tests=(_VALUE,),
    ),
    Mutation(
        "add the offset of a zone instead of taking it away",
        Change(_VALUES, "(minutes + seconds - offset)", "(minutes + seconds + offset)"),
        tests=(_VALUE,),
    ),
    Mutation(
        "take times that lie in no year of four digits",
        Change(
            _VALUES, "return *time_us >= FIRST_DAY * DAY_US && *time_us < (LAST_DAY + 1) * DAY_US;", "return true;"
        ),
        tests=(_VALUE,),
    ),
)
