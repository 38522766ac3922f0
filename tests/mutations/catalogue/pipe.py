"""Mutations of the pipe between daemon and processor: what it holds, and how lines are read and answers sent."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_PIPE: Final = "archive/native/src/read_pipe.c"
_READING: Final = "archive/native/pipe.py"
_PROTOCOL: Final = "consumer/processor/protocol.py"
_PIPES: Final = "tests/unit/archive/native/test_pipe.py"
_GONE: Final = "tests/unit/consumer/processor/test_daemon_gone.py"
_SANITIZED: Final = "tests/fuzz/test_fuzz_native.py::test_damaged_text_under_sanitizers"

PIPE: Final = (
    Mutation(
        "wait for more behind a whole line",
        Change(_PIPE, "while (filled < size && end->behind == 0) {", "while (filled < size) {"),
        tests=(f"{_PIPES}::test_nothing_is_read_behind_a_line",),
    ),
    Mutation(
        "look for a line's end from its beginning's place",
        Change(_PIPE, "found - memory + 1;", "found - (memory + filled) + 1;"),
        tests=(f"{_PIPES}::test_lines_are_those_of_the_twin",),
    ),
    Mutation(
        "read a pipe beyond the memory's end",
        Change(_PIPE, "memory + filled, size - filled)", "memory + filled, size)"),
        tests=(_SANITIZED,),
    ),
    Mutation(
        "drop what was read in front of an error",
        Change(
            _READING, "            if found > filled:\n", "            if found > filled and not self._end.stopped:\n"
        ),
        tests=(f"{_PIPES}::test_what_was_read_comes_before_an_error",),
    ),
    Mutation(
        "read on behind an end that comes once",
        Change(_READING, "filled if self._end.stopped else self._fill", "self._fill"),
        tests=(
            f"{_PIPES}::test_an_error_that_comes_once_is_told",
            f"{_PIPES}::test_an_end_that_comes_once_is_told",
        ),
    ),
    Mutation(
        "take an error of the pipe for the end of input",
        Change(_READING, "if stopped in {0, _END_OF_INPUT}:", "if stopped != errno.EINTR:"),
        tests=(f"{_PIPES}::test_an_error_that_comes_once_is_told",),
    ),
    Mutation(
        "read each pipe by the twin",
        Change(
            "consumer/pipe/line_reader.py", "if library is None or not isinstance(stream, io.FileIO):", "if True:"
        ),
        tests=(f"{_PIPES}::test_a_pipe_is_read_by_the_codec",),
    ),
    Mutation(
        "take a signal for an error of the pipe",
        Change(_READING, "if stopped != errno.EINTR:", "if stopped:"),
        tests=(f"{_PIPES}::test_a_signal_is_handled_while_it_waits",),
    ),
    Mutation(
        "end with a pipe that cannot be sized",
        Change("consumer/pipe/capacity.py", "with suppress(OSError):", "with suppress(KeyError):"),
        tests=("tests/unit/consumer/pipe/test_capacity.py::test_a_pipe_that_cannot_be_sized_stays_as_it_is",),
    ),
    Mutation(
        "ask for a larger input before a smaller output",
        Change(
            "consumer/pipe/capacity.py",
            "((stdout, OUTPUT_BYTES), (stdin, INPUT_BYTES))",
            "((stdin, INPUT_BYTES), (stdout, OUTPUT_BYTES))",
        ),
        tests=("tests/unit/consumer/pipe/test_capacity.py::test_a_user_at_the_bound_of_his_pipes",),
    ),
    Mutation(
        "take an answer that was sent in part for sent",
        Change(_PROTOCOL, "if sent != len(message):", "if False:"),
        tests=(f"{_GONE}::test_an_answer_that_is_not_sent_whole_ends_the_process",),
    ),
    Mutation(
        "call a daemon that is gone a defect of ours",
        Change(_PROTOCOL, 'raise _gone("takes no answer", exc) from exc', "raise"),
        tests=(f"{_GONE}::test_an_answer_that_is_not_sent_whole_ends_the_process",),
    ),
    Mutation(
        "let memory grow beyond the longest line",
        Change("consumer/pipe/line_reader.py", "min(2 * self._filled, self._most_bytes)", "2 * self._filled"),
        tests=("tests/unit/consumer/pipe/test_line_reader.py::test_memory_is_no_larger_than_a_line_may_be",),
    ),
    Mutation(
        "leave a processor's pipes as they are",
        Change("consumer/serving.py", "    size_pipes(stdin, protocol)\n", ""),
        tests=("tests/integration/consumer/test_processor_process.py::test_the_pipes_are_sized",),
    ),
    Mutation(
        "miss a blank line",
        Change(
            "consumer/pipe/line_reader.py", "(self._memory, 0, self._filled", "(self._memory, 1, self._filled or 1"
        ),
        tests=("tests/unit/consumer/pipe/test_line_reader.py::test_lines_come_one_by_one",),
    ),
    Mutation(
        "read lines through Python's buffer",
        Change(
            "consumer/pipe/line_reader.py",
            "stream.raw if isinstance(stream, io.BufferedReader) else stream",
            "stream",
        ),
        Change("consumer/pipe/line_reader.py", "_stream.readinto(free)", "_stream.readinto1(free)"),
        tests=("tests/unit/consumer/pipe/test_line_reader.py::test_a_whole_line_is_handed_out_before_more_is_read",),
    ),
)
