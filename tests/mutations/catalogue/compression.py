"""Mutations of the compressions: whose an archive's is, and what a body's reader must not pass over."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_COMPRESSION: Final = "archive/compression.py"
_MARKERS: Final = "archive/format/markers.py"
_SEGMENTS: Final = "tests/unit/archive/format/test_segment.py"
_WRITERS: Final = "tests/unit/consumer/processor/test_compression.py"
_CORPUS: Final = "tests/unit/compaction/audit/test_corpus.py"

COMPRESSION: Final = (
    Mutation(
        "each writer uses a compression of its own",
        Change(
            "consumer/processor/processor.py",
            "SequenceStore(services, shard_id, start.compression)",
            "SequenceStore(services, shard_id, services.settings.compression or start.compression)",
        ),
        tests=(f"{_WRITERS}::test_writers_with_two_settings_contend_for_one_slot",),
        mode="plain",
    ),
    Mutation(
        "make a record that is gone again",
        Change("consumer/archived/application.py", "        check_unbegun(store, prefix)\n", ""),
        tests=(f"{_WRITERS}::test_a_record_that_is_gone_is_not_made_again",),
    ),
    Mutation(
        "zstd in the format that older versions read",
        Change(_MARKERS, "number = FORMAT if compression is Compression.GZIP else _COMPRESSED", "number = FORMAT"),
        Change(_MARKERS, "if (self.format == FORMAT) != (self.compression is Compression.GZIP):", "if False:"),
        tests=(f"{_WRITERS}::test_a_new_archive_of_zstd_is_refused_by_older_versions",),
    ),
    Mutation(
        "believe a compression in the format that older versions read",
        Change(_MARKERS, "if (self.format == FORMAT) != (self.compression is Compression.GZIP):", "if False:"),
        tests=(f"{_WRITERS}::test_a_record_whose_format_and_compression_disagree_is_refused",),
    ),
    Mutation(
        "take a stored segment of the other compression",
        Change("consumer/processor/sequence_store.py", "            self._check_compression(key)\n", ""),
        tests=(f"{_WRITERS}::test_a_segment_of_the_other_compression_stops_the_shard",),
    ),
    Mutation(
        "look for a tail's segment under the other compression",
        Change("consumer/processor/dedupe_start.py", "*row.slot, self._compression)", "*row.slot)"),
        tests=(f"{_WRITERS}::test_watermarks_are_found_beside_the_segment_that_a_tail_row_names",),
    ),
    Mutation(
        "no checksum is asked for",
        Change(_COMPRESSION, "            zstd.CompressionParameter.checksum_flag: 1,\n", ""),
        tests=(f"{_SEGMENTS}::test_what_was_written_is_read_back",),
    ),
    Mutation(
        "neither asked for nor demanded",
        Change(_COMPRESSION, "            zstd.CompressionParameter.checksum_flag: 1,\n", ""),
        Change(_COMPRESSION, "if not data[len(_ZSTD_MAGIC)] & _ZSTD_CHECKSUM_BIT:", "if False:"),
        tests=(f"{_SEGMENTS}::test_any_damaged_byte_is_an_error",),
    ),
    Mutation(
        "a frame that is cut short is whole",
        Change(_COMPRESSION, "    if not is_whole:\n", "    if False:\n"),
        tests=(f"{_SEGMENTS}::test_a_truncated_body_is_an_error",),
    ),
    Mutation(
        "a frame may ask for any memory",
        Change(_COMPRESSION, "_ZSTD_WINDOW_LOG_MAX: Final = 23", "_ZSTD_WINDOW_LOG_MAX: Final = 31"),
        tests=(f"{_SEGMENTS}::test_a_zstd_frame_that_asks_for_much_memory_is_an_error",),
    ),
    Mutation(
        "an archive of two compressions is clean",
        Change(
            "compaction/inventory/segments.py",
            "findings += [*_disagreement(prefix, segment), *_other_compression(segment, compression)]",
            "findings += _disagreement(prefix, segment)",
        ),
        tests=(f"{_CORPUS}::test_each_defect_alone",),
    ),
    Mutation(
        "a copy under the other name is the original",
        Change(
            "compaction/inventory/segments.py",
            "key=lambda one: (_is_other(one, compression), one.key)",
            "key=lambda one: one.key",
        ),
        tests=(f"{_CORPUS}::test_each_defect_alone",),
    ),
    Mutation(
        "only segments of gzip have a slot",
        Change(
            "archive/format/keys.py",
            "key.removesuffix(_suffix(Compression.GZIP)).removesuffix(_suffix(Compression.ZSTD))",
            "key.removesuffix(_suffix(Compression.GZIP))",
        ),
        tests=("tests/unit/consumer/expire/test_side_objects.py::test_the_key_of_what_lies_beside_names_its_slot",),
    ),
)
