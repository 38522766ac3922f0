"""Mutations of producer deduplication by watermarks."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_ARCHIVER: Final = "consumer/processor/archiver.py"
_SEQUENCE_STORE: Final = "consumer/processor/sequence_store.py"
_DEDUPLICATOR: Final = "consumer/dedupe/deduplicator.py"
_WATERMARKS: Final = "consumer/dedupe/watermarks.py"
_TABLE: Final = "consumer/dedupe/table.py"
_TAIL_ROWS: Final = "consumer/dedupe/tail_rows.py"
_DEDUPE_START: Final = "consumer/processor/dedupe_start.py"

_DEDUPE: Final = "tests/unit/consumer/processor/test_dedupe.py"
_ROWS: Final = "tests/unit/consumer/processor/test_tail_rows.py"
_STATES: Final = "tests/unit/consumer/dedupe/test_watermarks.py"
_FOUND: Final = "tests/simulation/found/test_found_by_producers.py"

WATERMARKS: Final = (
    Mutation(
        "the loser of a slot judges nothing again",
        Change(_ARCHIVER, "self._hold(rest, part)", "rest.hold(part, ())"),
        tests=(f"{_DEDUPE}::test_the_loser_of_a_slot_judges_the_rest_again",),
        mode="watermark",
    ),
    Mutation(
        "the winner's watermarks are not adopted",
        Change(_ARCHIVER, "self._dedupe.adopt(other, self._sequences.watermarks_of(other))", "pass"),
        mode="watermark",
        tests=(f"{_DEDUPE}::test_the_loser_of_a_slot_judges_the_rest_again",),
    ),
    Mutation(
        "a loser keeps its own watermarks",
        Change(_ARCHIVER, "self._adopt_tail(outcome.winner)", "self.chain.tail = outcome.winner.last"),
        mode="watermark",
        tests=(f"{_DEDUPE}::test_the_loser_of_a_slot_judges_the_rest_again",),
    ),
    Mutation(
        "the tail row before the commit",
        Change(
            _ARCHIVER,
            "        key, metadata, outcome = self._sequences.commit(\n",
            "        if self._dedupe is not None:\n"
            '            self._dedupe.committed(segment.metadata(after=self.chain.tail, writer="early"))\n'
            "        key, metadata, outcome = self._sequences.commit(\n",
        ),
        mode="watermark",
    ),
    Mutation(
        "a segment carries no numbers",
        Change(_ARCHIVER, "else self._dedupe.watermarks(),", "else type(self._dedupe.watermarks() or 0)(),"),
        mode="watermark",
        tests=(f"{_DEDUPE}::test_watermarks_are_found_in_the_archive_when_the_table_is_lost",),
    ),
    Mutation(
        "watermarks beside go without their segment's writer",
        Change(
            _SEQUENCE_STORE,
            "watermarks_key(self._prefix, self._shard_id, segment.minute, first, writer)",
            'watermarks_key(self._prefix, self._shard_id, segment.minute, first, "w")',
        ),
        mode="watermark",
        tests=(f"{_DEDUPE}::test_large_watermarks_stand_beside_the_segment",),
    ),
    Mutation(
        "all producers are one",
        Change(_DEDUPLICATOR, '"" if self._paths.key is None else self._paths.key.text(record.data)', '""'),
        mode="watermark",
    ),
    Mutation(
        "records without a number are duplicates",
        Change(
            _DEDUPLICATOR,
            "missing += 1\n                verdicts.append(None)",
            "missing += 1\n                verdicts.append('unknown')",
        ),
        mode="watermark",
        tests=(f"{_DEDUPE}::test_records_without_an_id_are_kept",),
    ),
    Mutation(
        "watermarks without gaps",
        Change(_WATERMARKS, "if ordered:", "if ordered or intervals:"),
        tests=(f"{_STATES}::test_a_number_below_the_watermark_that_was_never_seen_is_new",),
        mode="watermark",
    ),
    Mutation(
        "a merged shard closes its parents' gaps",
        Change(_WATERMARKS, "if merged and low <= merged[-1][1] + 1:", "if merged:"),
        tests=(f"{_STATES}::test_a_merged_shard_has_seen_what_both_parents_saw",),
        mode="watermark",
    ),
    Mutation(
        "the oldest gap is closed when there are too many",
        Change(_WATERMARKS, "del intervals[0]", "intervals[:2] = [(intervals[0][0], intervals[1][1])]"),
        mode="watermark",
        tests=(f"{_STATES}::test_too_many_gaps_forget_the_oldest_numbers_only",),
    ),
    Mutation(
        "watermarks are not loaded after a restart",
        Change(_DEDUPE_START, "self._at(shard_id, tail) if isinstance(tail", "Watermarks() if isinstance(tail"),
        tests=(f"{_DEDUPE}::test_watermarks_are_found_in_the_archive_when_the_table_is_lost",),
        mode="watermark",
    ),
    Mutation(
        "watermarks are taken from any tail row",
        Change(_DEDUPE_START, "row is not None and row.position == position and", "row is not None and"),
        tests=(f"{_DEDUPE}::test_a_tail_row_of_another_position_is_not_believed",),
        mode="watermark",
    ),
    Mutation(
        "children inherit from their parents alone",
        Change(_DEDUPE_START, "self._inherited(parent) if last is None", "Watermarks() if last is None"),
        tests=(f"{_FOUND}::test_a_child_inherits_through_a_parent_that_ended_empty",),
        mode="watermark",
    ),
    Mutation(
        "children inherit nothing",
        Change(_DEDUPE_START, "for parent in () if info is None else info.parents:", "for parent in ():"),
        mode="watermark",
        tests=(f"{_DEDUPE}::test_children_inherit_what_their_parent_saw",),
    ),
    Mutation(
        "a merged shard inherits from one parent",
        Change(_DEDUPE_START, "if info is None else info.parents:", "if info is None else info.parents[:1]:"),
        mode="watermark",
    ),
    Mutation(
        "a lost tail row stops the search",
        Change(_DEDUPE_START, "or self._find(", "or None if row is None else self._find("),
        mode="watermark",
        tests=(f"{_DEDUPE}::test_watermarks_are_found_in_the_archive_when_the_table_is_lost",),
    ),
    Mutation(
        "a state of any length goes into the tail row",
        Change(_TAIL_ROWS, "if text and len(text) <= LONGEST_STATE_BYTES:", "if text:"),
        tests=(f"{_ROWS}::test_a_state_too_long_for_an_item_is_searched_for_when_the_row_is_lost",),
    ),
    Mutation(
        "a state that is not in the row is searched for",
        Change(_DEDUPE_START, "if row is None or row.slot is None:", "if True:"),
        tests=(f"{_ROWS}::test_a_state_too_long_for_an_item_is_found_where_the_row_says",),
    ),
    Mutation(
        "any segment that the tail row names is the tail",
        Change(_DEDUPE_START, "return found if found.last == position else None", "return found"),
        tests=(f"{_ROWS}::test_a_row_without_a_state_that_names_an_older_segment_is_not_believed",),
    ),
    Mutation(
        "a tail row that cannot be read ends the shard",
        Change(
            _TABLE,
            "        except FormatError as exc:\n            structlog",
            "        except StoreRefused as exc:\n            structlog",
        ),
        mode="watermark",
    ),
)
