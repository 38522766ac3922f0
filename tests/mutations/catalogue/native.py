"""Mutations of the native codec, and of what takes lines that it wrote."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_TEXT: Final = "archive/native/src/text.h"
_BASE64: Final = "archive/native/src/base64.h"
_WRITE: Final = "archive/native/src/write_lines.c"
_READ: Final = "archive/native/src/read_lines.c"
_ARCHIVER: Final = "consumer/processor/archiver.py"
_SANITIZED: Final = "tests/fuzz/test_fuzz_native.py::test_damaged_text_under_sanitizers"
_TAKING: Final = "tests/unit/consumer/processor/test_written_pieces.py"
_SAME: Final = f"{_TAKING}::test_the_archive_is_the_same_with_and_without_the_codec"

_UNLESS_ARCHIVED: Final = """\
        if is_archived:
            self._saw_archived()
        else:
            self._open_buffer(minute, measured"""

NATIVE: Final = (
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
)
