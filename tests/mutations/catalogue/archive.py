"""Mutations of archive/: conditional writes, retries, and the records' codec."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_S3: Final = "archive/store/s3.py"
_COMMIT: Final = "archive/store/commit.py"
_RETRY: Final = "archive/retry.py"
_RECORD: Final = "archive/format/record.py"

_REQUESTS: Final = "tests/unit/archive/store/test_s3.py"
_COMMITS: Final = "tests/unit/archive/store/test_commit.py"
_SLOTS: Final = "tests/unit/consumer/processor/test_slots.py"
_BUFFER: Final = "tests/unit/consumer/processor/test_buffer.py"
_RECORDS: Final = "tests/unit/archive/format/test_record.py"

ARCHIVE: Final = (
    Mutation(
        "commit without If-None-Match",
        Change(_S3, '                IfNoneMatch="*",\n', ""),
        tests=(f"{_REQUESTS}::test_every_put_is_conditional",),
        mode="plain",
    ),
    Mutation(
        "send a segment without a checksum",
        Change(_S3, "                ChecksumCRC32=crc32_text(body),\n", ""),
        tests=(f"{_REQUESTS}::test_a_body_is_sent_once_whole_with_a_checksum_that_s3_compares",),
    ),
    Mutation(
        "409 is 412",
        Change(
            _S3, "if http_status(exc) == _PRECONDITION_FAILED:", "if http_status(exc) in (409, _PRECONDITION_FAILED):"
        ),
        tests=(f"{_REQUESTS}::test_a_passing_failure_leaves_the_outcome_open",),
        mode="plain",
    ),
    Mutation(
        "every 403 of a HEAD is a refusal",
        Change(_S3, "            if http_status(exc) == _FORBIDDEN:", "            if False:"),
        tests=(f"{_REQUESTS}::test_a_head_403_that_passes_is_asked_again",),
    ),
    Mutation(
        "let botocore repeat requests",
        Change("archive/aws.py", "attempts: int = 1,", "attempts: int = 2,"),
        tests=(f"{_REQUESTS}::test_botocore_itself_never_repeats",),
    ),
    Mutation(
        "409 forgets the buffer",
        Change(
            _S3,
            "            if http_status(exc) == _PRECONDITION_FAILED:\n",
            "            if http_status(exc) == 409:\n"
            "                return PutOutcome.CREATED\n"
            "            if http_status(exc) == _PRECONDITION_FAILED:\n",
        ),
        tests=(f"{_REQUESTS}::test_a_passing_failure_leaves_the_outcome_open",),
        mode="plain",
    ),
    Mutation(
        "412 is success without HEAD",
        Change(_COMMIT, "is PutOutcome.CREATED:", "in PutOutcome:"),
        tests=(f"{_COMMITS}::test_412_with_another_writer_tells_how_far_it_got",),
        mode="plain",
    ),
    Mutation(
        "take every winner for ourselves",
        Change(_COMMIT, "if winner.writer == metadata.writer:", "if winner.shard_id == metadata.shard_id:"),
        tests=(f"{_SLOTS}::test_a_slot_lost_to_a_shorter_segment_leaves_the_rest",),
    ),
    Mutation(
        "take our own retried PUT for another's",
        Change(_COMMIT, "if winner.writer == metadata.writer:", "if not winner.writer:"),
        tests=(f"{_COMMITS}::test_412_with_our_writer_is_committed",),
    ),
    Mutation(
        "an unknown outcome is success",
        Change(
            _RETRY,
            "            if not backoff.wait():\n",
            "            if what.startswith('PUT'):\n"
            "                from archive.store.objects import PutOutcome\n"
            "                return PutOutcome.CREATED\n"
            "            if not backoff.wait():\n",
        ),
        tests=(f"{_COMMITS}::test_an_unknown_outcome_sends_the_same_bytes_again",),
        mode="plain",
    ),
    Mutation(
        "an unknown outcome is a lost slot",
        Change(
            _RETRY,
            "            if not backoff.wait():\n",
            "            if what.startswith('PUT'):\n"
            "                from archive.store.objects import PutOutcome\n"
            "                return PutOutcome.EXISTS\n"
            "            if not backoff.wait():\n",
        ),
        tests=(f"{_SLOTS}::test_an_unknown_outcome_is_asked_again_until_it_is_known",),
        mode="plain",
    ),
    Mutation(
        "ignore the sub-sequence number of records",
        Change(
            _RECORD,
            "Position(int(self.sequence_number), self.sub_sequence_number)",
            "Position(int(self.sequence_number), 0)",
        ),
        tests=(f"{_BUFFER}::test_an_aggregate_of_one_arrival_time_stays_in_order",),
        mode="plain",
    ),
    Mutation(
        "take a block without looking at its lines' ends",
        Change(_RECORD, "        if buffer[at - 1] != _CLOSE:\n            return None\n", ""),
        tests=(f"{_RECORDS}::test_a_block_that_is_not_one_object_a_line_is_left_to_the_codec",),
    ),
    Mutation(
        "let a block begin with an empty line",
        Change(_RECORD, 'buffer.startswith(b"\\n") or ', ""),
        tests=(f"{_RECORDS}::test_a_block_that_is_not_one_object_a_line_is_left_to_the_codec",),
    ),
    Mutation(
        "take as many objects as there are, whatever the lines",
        Change(_RECORD, "return lines if len(lines) == count else None", "return lines"),
        tests=(f"{_RECORDS}::test_a_block_that_is_not_one_object_a_line_is_left_to_the_codec",),
    ),
    Mutation(
        "read what an earlier block left in the buffer",
        Change(_RECORD, "_decode_lines(memoryview(buffer)[:size])", "_decode_lines(buffer)"),
        tests=(f"{_RECORDS}::test_a_block_gives_its_lines",),
    ),
    Mutation(
        "take any answer to a PUT for S3's",
        Change(_S3, '        check_whole(answer, f"PUT {key}", "ETag")\n', ""),
        tests=("tests/unit/archive/test_answers.py::test_s3",),
    ),
)
